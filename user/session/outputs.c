/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.c - see outputs.h.
 */
#include "session/outputs.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/log.h"
#include "command.h"

#define STDOUT_ANEW "/dev/stdout" /* of a session, which must not wait for its reader: sink/lines_out.h */

static const char *output_shown(const char *path)
{
	return strcmp(path, "-") && strcmp(path, STDOUT_ANEW) ? path : "standard output";
}

/* --- no output is an input, or another output --- */

/* True: `path` is a regular file; other things can be written twice, and reading them takes nothing away. */
static bool file_sample(const char *path, int std_fd, struct stat *ret)
{
	return !(strcmp(path, "-") ? stat(path, ret) : fstat(std_fd, ret)) && S_ISREG(ret->st_mode);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int input_compare(const char *path, const struct outputs *o)
{
	struct stat out, in;

	if (!file_sample(path, STDOUT_FILENO, &out))
		return 0;
	for (int i = 0; i < o->n_inputs; i++) {
		if (!file_sample(o->inputs[i], STDIN_FILENO, &in) || !is_same(&out, &in))
			continue;
		log_error("%s: this output is also the input %s, which it would destroy: give it another name",
			  output_shown(path), strcmp(o->inputs[i], "-") ? o->inputs[i] : "from standard input");
		return -EEXIST;
	}
	return 0;
}

static bool is_same_output(const char *a, const char *b)
{
	struct stat of_a, of_b;

	if (!strcmp(a, "-") && !strcmp(b, "-"))
		return true;
	return file_sample(a, STDOUT_FILENO, &of_a) && file_sample(b, STDOUT_FILENO, &of_b) && is_same(&of_a, &of_b);
}

/* Those before it are open, so they exist. */
static int outputs_compare(const struct outputs *o, int i)
{
	const char *path = o->paths[i], *other = NULL;

	if (strcmp(path, "-") && is_same_output(path, "-"))
		other = "-";
	for (int k = 0; !other && k < i; k++)
		if (is_same_output(path, o->paths[k]))
			other = o->paths[k];
	if (other)
		log_error("%s: this output is also the output %s: give it another name", output_shown(path),
			  output_shown(other));
	return other ? -EEXIST : 0;
}

/* --- opening --- */

bool outputs_take_stdout(const struct outputs *o)
{
	for (int i = 0; i < o->n; i++)
		if (!strcmp(o->paths[i], "-"))
			return true;
	return false;
}

static const char *open_error(int err)
{
	if (err == -EPROTONOSUPPORT)
		return "unknown suffix; use .pftrace, .rtr, .html or .jsonl, or - for a recording on standard output";
	if (err == -ELOOP)
		return "a link that leads to no file is not followed; give the file's own name";
	return strerror(-err);
}

static bool rotates(const struct outputs *o)
{
	return o->rules.rotate_bytes || o->rules.rotate_ns;
}

/* A live session gives up the right to write in folders of others, and makes files in this one later. */
static int folder_check(const char *path)
{
	char *copy = strdup(path);
	const char *folder = copy ? dirname(copy) : ".";
	struct stat is;
	bool ours = stat(folder, &is) || (is.st_uid == geteuid() && is.st_mode & S_IWUSR) ||
		    (is.st_gid == getegid() && is.st_mode & S_IWGRP) || is.st_mode & S_IWOTH;

	if (!ours)
		log_error("%s: the folder %s belongs to another user, and --rotate makes new files there when this "
			  "session has given up the right to: give a folder of its own user",
			  path, folder);
	free(copy);
	return ours ? 0 : -EACCES;
}

static int file_open(struct pipeline *p, const struct outputs *o, int i, int number)
{
	const char *path = o->paths[i], *place;
	int err = outputs_compare(o, i);

	if (!err && rotates(o) && strcmp(path, "-"))
		err = folder_check(path);
	if (err)
		return err;
	if (!strcmp(path, "-") && isatty(STDOUT_FILENO)) {
		log_error("standard output is a terminal, and a recording is no text: redirect it");
		return -ENOTTY;
	}
	err = o->all_recordings ? pipeline_add_recording(p, path) : pipeline_add_output(p, path);
	if (err)
		log_error("%s: %s", output_shown(path), open_error(err));
	place = err || rotates(o) ? NULL : pipeline_output_place(p, number);
	if (place && o->live)
		log_info("%s exists: written as %s, and renamed at the end", path, place);
	return err;
}

static int sink_open(struct pipeline *p, const char *sink, const struct outputs *o)
{
	bool to_stderr = outputs_take_stdout(o);
	struct stat is;
	bool anew = o->live && !file_sample("-", STDOUT_FILENO, &is);
	int err = pipeline_add_sink(p, sink, to_stderr ? "/dev/stderr" : anew ? STDOUT_ANEW : "-");

	if (err)
		log_error("standard %s: %s", to_stderr ? "error" : "output", strerror(-err));
	return err;
}

/* A name that cannot be used is the user's to correct; a full disk is not. */
static int open_code(int err)
{
	bool failed = err == -ENOSPC || err == -EDQUOT || err == -EIO || err == -EPIPE;

	return !err ? EXIT_CLEAN : failed ? EXIT_OUTPUT : EXIT_USAGE;
}

int outputs_rules_check(const struct outputs *o)
{
	bool file = false;

	for (int i = 0; i < o->n; i++)
		file |= strcmp(o->paths[i], "-") != 0;
	if (o->rules.keep && !rotates(o))
		log_error("--keep without --rotate: say when a new file is begun");
	else if (rotates(o) && !file)
		log_error("--rotate without a file: name one with -o FILE");
	else
		return EXIT_CLEAN;
	return EXIT_USAGE;
}

int outputs_rules_set(struct pipeline *p, const struct outputs *o)
{
	struct output_rules rules = o->rules;
	int err = outputs_rules_check(o);

	for (int i = 0; !err && rotates(o) && i < o->n; i++)
		if (strcmp(o->paths[i], "-") && folder_check(o->paths[i]))
			err = EXIT_USAGE;
	if (err)
		return err;
	rules.lasting = o->live;
	pipeline_change_output_rules(p, &rules);
	return EXIT_CLEAN;
}

int outputs_open(struct pipeline *p, const char *sink, const struct outputs *o)
{
	struct output_rules rules = o->rules;
	int err = input_compare("-", o);

	rules.lasting = o->live;
	for (int i = 0; !err && i < o->n; i++)
		err = input_compare(o->paths[i], o);
	if (o->live || o->n) { /* the other outputs are to be completed */
		signal(SIGPIPE, SIG_IGN);
		signal(SIGXFSZ, SIG_IGN);
	}
	pipeline_set_output_rules(p, &rules);
	if (!err && sink)
		err = sink_open(p, sink, o);
	for (int i = 0; !err && i < o->n; i++)
		err = file_open(p, o, i, i + !!sink);
	return open_code(err);
}

/* The C library would open the time zone's file anew for each time of day. */
static void time_zone_load(void)
{
	setenv("TZ", ":/etc/localtime", 0);
	tzset();
}

int outputs_confine(struct pipeline *p, const struct outputs *o, bool opens_inputs)
{
	int err = pipeline_keep(p, o->inputs, opens_inputs ? o->n_inputs : 0);

	time_zone_load();
	if (!err)
		err = confine_replay();
	if (!err)
		err = confine_replay_calls();
	if (err)
		log_error(
			"giving up rights before a recording is read: %s; it takes a kernel with seccomp filters, and "
			"a container that allows them",
			strerror(-err));
	return err ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}

/* --- the end --- */

int outputs_exit_code(const struct pipeline *p, enum severity fail_on)
{
	return incidents_worst(pipeline_incidents(p)) >= fail_on ? EXIT_FINDING : EXIT_CLEAN;
}

static void back_say(const struct output_change *n)
{
	const char *what = n->findings ? "findings are" : "records are";

	if (n->apart)
		log_warn("%s: written again; %" PRIu64 " %s missing between %s.1, which is readable, and it", n->path,
			 n->missed, what, n->path);
	else
		log_warn("%s: written again; %" PRIu64 " %s missing there", output_shown(n->path), n->missed, what);
}

static const char *error_said(int err)
{
	return err == -EAGAIN ? "its reader does not read, and 1 MiB waits for it" : strerror(-err);
}

static void ended_say(const struct output_change *n)
{
	if (!strcmp(output_shown(n->path), "standard output"))
		log_error("standard output: %s; nothing more is written there", error_said(n->err));
	else if (n->missed)
		log_error("%s: %s; this output ends here, %" PRIu64 " %s are missing, what it holds stays readable",
			  n->path, strerror(-n->err), n->missed, n->findings ? "findings" : "records");
	else
		log_error("%s: %s; this output ends here, what it holds stays readable", n->path, strerror(-n->err));
}

static void change_say(const struct output_change *n)
{
	switch (n->kind) {
	case OUTPUT_ENDED: ended_say(n); break;
	case OUTPUT_PAUSED:
		log_error("%s: %s; what comes is counted and tried again, what it holds stays readable",
			  output_shown(n->path), error_said(n->err));
		break;
	case OUTPUT_BACK: back_say(n); break;
	case OUTPUT_NOT_NEW:
		log_error("%s: no new file can be begun: %s; the present one goes on, and it is tried again", n->path,
			  strerror(-n->err));
		break;
	case OUTPUT_IN_ORDER: break;
	}
}

static void shortage_say(const struct pipeline_shortage *s)
{
	if (s->records)
		log_warn("state of the session: no room for %" PRIu64 " records beside the %d kept; files that begin "
			 "from now on (flights, windows, rotated recordings) lack libraries, connections or tiers of "
			 "some processes: fewer processes a session (--pid) leave room",
			 s->records, KEPT_MAX);
	if (s->names)
		log_warn("names of jobs, containers, cgroups: some user's fill the room that is free; %" PRIu64 " were "
			 "not kept, and processes are shown without: room comes back as its processes end",
			 s->names);
	if (s->texts)
		log_warn("stacks, waits, files: texts of some user's processes fill the room that is free; %" PRIu64
			 " were left out: room comes back as its processes end",
			 s->texts);
}

void outputs_errors_say(struct pipeline *p)
{
	struct pipeline_shortage shortage;
	struct output_change change;

	while (pipeline_output_change(p, &change))
		change_say(&change);
	if (pipeline_shortage(p, &shortage))
		shortage_say(&shortage);
}

int outputs_close(struct pipeline *p, int code)
{
	pipeline_close_outputs(p);
	outputs_errors_say(p);
	return pipeline_output_failed(p, OUTPUT_ANY) && code <= EXIT_FINDING ? EXIT_OUTPUT : code;
}

void outputs_say(const struct outputs *o, const struct pipeline *p)
{
	for (int i = 0; i < o->n; i++)
		if (strcmp(o->paths[i], "-") && !pipeline_output_failed(p, i + 1))
			log_info("wrote %s", o->paths[i]);
}

#define COSTS_SAID 8

void outputs_costs_say(struct pipeline *p)
{
	const struct incident *costs[COSTS_SAID];
	size_t n = incidents_by_cost(pipeline_incidents(p), costs, COSTS_SAID);

	for (size_t i = 0; i < n; i++) {
		const struct finding *f = &costs[i]->f;
		const char *class = hang_class_name(f->class);

		char rank[24] = "", others[24] = "";

		if (f->n_ranks)
			snprintf(rank, sizeof(rank), " rank %d", f->ranks[0]);
		if (f->n_ranks_all > 1)
			snprintf(others, sizeof(others), " and %d more", f->n_ranks_all - 1);
		log_detail("cost %.1f s: %s%s%s%s%s (%s) %s", costs[i]->cost_s, finding_kind_shown(f),
			   *class ? "/" : "", class, rank, others, f->cause ? finding_cause_shown(f) : "no cause known",
			   costs[i]->id);
	}
}
