/* SPDX-License-Identifier: Apache-2.0
 *
 * output_file.h - the name under which an output is written. A name that no file has yet is used at once: what is there
 * can be read while it grows, and after a kill. An existing file stays until its successor is complete: that one is
 * written beside it as NAME.part, then renamed. A pipe or a device is written as it is.
 */
#ifndef RANKTRACE_OUTPUT_FILE_H
#define RANKTRACE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct output_file {
	char *name;     /* to be opened for writing */
	char *replaces; /* the file that `name` becomes when it is complete, symlinks followed; NULL: none */
	bool created;   /* the file did not exist before */
	const struct keeper *keeper; /* who renames and removes it, as its output `number`; NULL: this process */
	size_t number;
};

struct keeper;

/* Chooses the name; "-" and "/dev/stderr" stay what they are. 0 or -errno, with nothing to free. What is created has
 * the owner and mode of what it replaces. */
int output_file_begin(struct output_file *f, const char *path);
/* It is complete and closed: it takes the final name. 0 or -errno; it then keeps `name`. */
int output_file_commit(const struct output_file *f);
/* Nothing was written: an existing file stays, a new one goes. */
void output_file_discard(const struct output_file *f);
void output_file_free(struct output_file *f);

#endif
