/* SPDX-License-Identifier: Apache-2.0
 *
 * lines.h - lines of a file that grows, is rotated or begins later, or of a pipe; a part of a line waits for its rest.
 */
#ifndef RANKTRACE_NOTIFY_LINES_H
#define RANKTRACE_NOTIFY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LINE_MAX_BYTES (256u << 10) /* longer ones are left out */

struct lines {
	const char *path; /* "-": standard input */
	int fd;           /* -1: not there yet */
	ino_t inode;
	char *held; /* of LINE_MAX_BYTES */
	size_t len;
	bool skips, ended; /* the rest of a line that is too long; ended: a pipe's other side is gone */
};

/* 0 or -ENOMEM; the file may come later. */
int lines_open(struct lines *l, const char *path);
void lines_close(struct lines *l);
/* Each line that is there, without its break. */
void lines_take(struct lines *l, void (*each)(void *of, const char *line), void *of);

#endif
