/* SPDX-License-Identifier: Apache-2.0
 *
 * output_file.h - the name under which an output is written. A name that no file has yet is used at once: what is there
 * can be read while it grows, and after a kill. An existing file stays until its successor is complete: that one is
 * written beside it as NAME.part, then renamed. A pipe or a device is written as it is.
 *
 * In a session that lasts a file may be followed by a new one: NAME is then the newest, NAME.1 the one before it, and
 * so on. The new one is written as NAME.part until it holds what it has to begin with.
 */
#ifndef RANKTRACE_OUTPUT_FILE_H
#define RANKTRACE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct output_file {
	char *name;     /* to be opened for writing */
	char *replaces; /* the file that `name` becomes when it is complete, symlinks followed; NULL: none */
	bool created;   /* the file did not exist before */
	const struct keeper *keeper; /* who renames and removes it, as its output `number`; NULL: this process */
	size_t number;
	bool regular; /* of output_file_opened(): it is a file of a disk */
	dev_t dev;
	ino_t ino;
};

struct keeper;

#define OUTPUT_FILES_MAX 999 /* NAME.1 to NAME.999 */

/* Chooses the name; "-" and "/dev/stderr" stay what they are. 0 or -errno, with nothing to free. What is created has
 * the owner and mode of what it replaces. */
int output_file_begin(struct output_file *f, const char *path);
/* `name` is open now. */
void output_file_opened(struct output_file *f);
/* Has the file that we opened still its name? */
bool output_file_is_ours(const struct output_file *f);
/* Creates a file beside it for what is to follow it; *ret is its name, to be freed. 0 or -errno. */
int output_file_part(const struct output_file *f, char **ret);
/* `part` takes the name; what had it becomes NAME.1, where it is the file that we opened (somebody else may have moved
 * that away), and of those before it `keep` remain. 0 or -errno, with all names as they were. */
int output_file_follow(struct output_file *f, const char *part, unsigned int keep);
/* It takes its final name while it is open; what had it becomes NAME.1. 0 or -errno. */
int output_file_promote(struct output_file *f, unsigned int keep);
/* It is complete and closed: it takes the final name. 0 or -errno; it then keeps `name`. */
int output_file_commit(const struct output_file *f);
/* Nothing was written: an existing file stays, a new one goes. */
void output_file_discard(const struct output_file *f);
void output_file_free(struct output_file *f);

#endif
