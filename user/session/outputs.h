/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.h - opens the outputs of a command (-o, stdout) and reports those that failed.
 */
#ifndef RANKTRACE_OUTPUTS_H
#define RANKTRACE_OUTPUTS_H

#include "pipeline/pipeline.h"

#define OUTPUTS_MAX 8 /* -o options of one command */

struct outputs {
	const char *paths[OUTPUTS_MAX]; /* "-": a recording on standard output; the sink then writes to stderr */
	int n;
	const char *const *inputs; /* files that the command reads; "-": standard input. Borrowed */
	int n_inputs;
	bool all_recordings; /* whatever their suffix */
	struct output_rules rules;
	bool live; /* more comes until somebody ends it: a reader of standard output that goes away is an error */
};

/* Opens `sink` (by name; NULL: none) on standard output, then one file per path. No output may be an input, or another
 * output, whatever its name. Returns EXIT_CLEAN, or the exit code after logging why. */
int outputs_open(struct pipeline *p, const char *sink, const struct outputs *o);
/* Do the rules fit the outputs? EXIT_CLEAN, or EXIT_USAGE after logging why not. */
int outputs_rules_check(const struct outputs *o);
/* Other rules (rotate, keep) while they are written. EXIT_CLEAN, or the exit code after logging why. */
int outputs_rules_set(struct pipeline *p, const struct outputs *o);
/* The outputs are open, and what follows reads what others wrote: gives up all rights but those to write to them and,
 * by `opens_inputs`, to open the inputs (pipeline_keeper()). Returns EXIT_CLEAN, or the exit code after logging why. */
int outputs_confine(struct pipeline *p, const struct outputs *o, bool opens_inputs);
/* EXIT_FINDING where some finding was `fail_on` or worse, at any time. */
int outputs_exit_code(const struct pipeline *p, enum severity fail_on);
/* Logs what became of outputs since the last call: failed, paused, back. */
void outputs_errors_say(struct pipeline *p);
/* Closes all outputs, which then have their final names, and logs errors. Returns `code`, the command's exit code, or
 * EXIT_OUTPUT if an output failed and the command did not. */
int outputs_close(struct pipeline *p, int code);
/* Is a recording of theirs on standard output? */
bool outputs_take_stdout(const struct outputs *o);
/* Logs the names of the files that were written whole; with a sink on standard output before them. */
void outputs_say(const struct outputs *o, const struct pipeline *p);
/* Logs which faults cost the job most time, the most expensive first; with --verbose. */
void outputs_costs_say(struct pipeline *p);

#endif
