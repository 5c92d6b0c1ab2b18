/* SPDX-License-Identifier: Apache-2.0
 *
 * args.h - settings of every command with a live session, by one name each: options of the command line and keys of a
 * configuration file.
 *
 * Also the steps that these commands share: check privileges, run the session, print the summary.
 */
#ifndef RANKTRACE_SESSION_ARGS_H
#define RANKTRACE_SESSION_ARGS_H

#include <argp.h>
#include <stdbool.h>

#include "session/outputs.h"
#include "session/session.h"

struct session_args {
	struct session_cfg session;
	uint32_t pids[SESSION_PIDS_MAX];
	struct outputs outputs;
	bool json;
	const char *metrics;        /* "[ADDR:]PORT"; NULL: none are served */
	const char *metrics_config; /* FILE; NULL: no TLS, no password */
	enum severity fail_on;      /* exit code 1 from there on */
	bool phases_given;
	bool budget_given, budget_node_given;
	struct kept_value *values; /* of the file: config/config_file.h */
};

/* Sets the defaults and the tier: call it first. Do not move the struct in memory afterwards. */
void session_args_init(struct session_args *a, enum tier tier);
/* Sets `name` (as "hang-limit") to `value` (kept, not copied). 0; -ENOENT no such setting; -EINVAL: `error` says what
 * is wrong with the value, and what would be right. */
int session_args_set(struct session_args *a, const char *name, const char *value, char *error, size_t size);
/* Names of all settings; returns how many, at most `max`. */
size_t session_args_names(const char **to, size_t max);

/* The options as a child of the command's parser; its input is the struct. */
extern const struct argp session_argp;

/* Starts the helper processes of a session, the second one for stacks. Call it early, while this process is small.
 * Returns 0 or -errno; free the readers either way. */
int session_readers_open(struct session_args *a, struct reader **ret);
void session_readers_free(struct session_args *a, struct reader *r);
/* Sets what was not given and depends on other settings; session_args_run() does it too. */
void session_args_settle(struct session_args *a);
/* Is what is in --metrics-config's file right? None where the check runs is no error. EXIT_CLEAN, or EXIT_USAGE after
 * logging why not. */
int session_metrics_check(const struct session_args *a);
/* Checks privileges. Returns EXIT_CLEAN, or the exit code after logging why. */
int session_args_check(const struct session_args *a);
/* Opens the outputs. Returns EXIT_CLEAN, or the exit code after logging why. */
int session_outputs_open(struct session_args *a, struct pipeline *p);
/* Runs the session from open to end. Returns the exit code; *ret is untouched if the session could not be opened. */
int session_args_run(struct session_args *a, struct reader *reader, struct pipeline *p, struct session_result *ret);
/* Prints what the session saw, lost, cost and wrote. */
void session_summary_say(const struct session_args *a, const struct session_result *r, struct pipeline *p);

#endif
