/* SPDX-License-Identifier: Apache-2.0
 *
 * config_file.h - a configuration file: lines of "key = value", '#' begins a comment. Keys are the names of the
 * settings of a session (session/args.h) and what the command has besides.
 */
#ifndef RANKTRACE_SESSION_CONFIG_FILE_H
#define RANKTRACE_SESSION_CONFIG_FILE_H

#include "session/args.h"

#define CONFIG_NAMES_MAX 64

struct config_keys {
	/* Each key goes here first. 0; -ENOENT not one of ours; -EINVAL: `error` says what is wrong with the value, and
	 * what would be right. */
	int (*set)(void *of, const char *name, const char *value, char *error, size_t size);
	void *of;
	const char *names[CONFIG_NAMES_MAX]; /* that set() knows */
	size_t n_names;
	/* Is given each message; NULL: reading ends with the first wrong line. */
	void (*wrong)(void *of, const char *message);
};

/* `keys`: NULL where the command has no keys of its own. Returns 0, or -errno with file, line, key and what is allowed
 * in `error`; with `wrong`, all lines are read, and the last error is returned. What the values point to lives until
 * config_values_free(). */
int config_file_read(struct session_args *a, const char *path, const struct config_keys *keys, char *error,
		     size_t size);
void config_values_free(struct session_args *a);

#endif
