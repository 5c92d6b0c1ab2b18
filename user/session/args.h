/* SPDX-License-Identifier: Apache-2.0
 *
 * session_args.h - the settings that commands with a live session share, by one name each: as options of the command
 * line and as keys of a configuration file. And their words at the end.
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
	bool budget_given, budget_node_given;
};

/* As every such command begins: limits and tier. Not to be moved in memory afterwards. */
void session_args_init(struct session_args *a, enum tier tier);
/* Sets `name` (as "hang-limit") to `value` (kept, not copied). 0; -ENOENT no such setting; -EINVAL: `error` says what
 * is wrong with the value, and what would be right. */
int session_args_set(struct session_args *a, const char *name, const char *value, char *error, size_t size);
/* Reads "key = value" lines; '#' begins a comment. `set` is asked for each key first, with the errors of
 * session_args_set(); NULL: none of the command's own. 0, or -errno with file, line and remedy in `error`. What the
 * values point to is never freed. */
int session_args_file(struct session_args *a, const char *path,
		      int (*set)(void *of, const char *name, const char *value, char *error, size_t size), void *of,
		      char *error, size_t error_size);

/* The options as a child of the command's parser; its input is the struct. */
extern const struct argp session_argp;

/* The helper processes of a session, the second for stacks: early, while this process is small. 0 or -errno; free them
 * either way. */
int session_readers_open(struct session_args *a, struct reader **ret);
void session_readers_free(struct session_args *a, struct reader *r);
/* Privileges: EXIT_CLEAN, or what to return, told. */
int session_args_check(const struct session_args *a);
/* The session from its opening to its end. The exit code; *ret stays as it was where it could not be opened. */
int session_args_run(struct session_args *a, struct reader *reader, struct pipeline *p, struct session_result *ret);
/* What the session saw, lost, cost and wrote. */
void session_words_say(const struct session_args *a, const struct session_result *r, struct pipeline *p);

#endif
