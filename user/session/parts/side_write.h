/* SPDX-License-Identifier: Apache-2.0
 *
 * side_write.h - a small file that the loop writes anew now and then, and never waits for: a forked child writes it
 * beside the old one, has it on disk, and gives it its name. A disk may stand for minutes, at the very time at which
 * there is something to find. A child and no thread, as a process ends only when all its threads do.
 */
#ifndef RANKTRACE_SESSION_SIDE_WRITE_H
#define RANKTRACE_SESSION_SIDE_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct side_write {
	const char *path, *loss; /* borrowed */
	char *next;              /* what waits for the child that is at work; NULL: nothing */
	pid_t child;             /* 0: none */
	uint64_t begin_ns;
	int unforked;         /* -errno: no child could be started for it; 0: the last one could */
	uint64_t fork_due_ns; /* then: the next try */
	bool late_said, failed;
};

/* `loss`: what it means that the file cannot be written, in words. Borrows both. 0 or -ENAMETOOLONG. */
int side_write_open(struct side_write *w, const char *path, const char *loss);
/* Takes the text, which replaces one that still waits. */
void side_write_put(struct side_write *w, char *text);
/* Now and then. A write that takes longer than 10 s is said, once, and when it is over; so is one that failed, until
 * the next succeeds, and one for which no child can be started, which is tried again every 5 s. 0: it was written, is
 * being written, or waits; or -errno of the last one, whose text is gone: the old file stays. */
int side_write_turn(struct side_write *w, uint64_t now_ns);
/* Waits for what is being written and for what waits, so long at most; then says what is lost. */
void side_write_close(struct side_write *w, unsigned limit_ms);

#endif
