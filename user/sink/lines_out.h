/* SPDX-License-Identifier: Apache-2.0
 *
 * lines_out.h - lines for a reader that may not read: a pipe to a program that hangs, a terminal that is held. A live
 * session must not stop behind it, so what the reader does not take is held, up to a limit.
 */
#ifndef RANKTRACE_LINES_OUT_H
#define RANKTRACE_LINES_OUT_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_HELD_MOST (1u << 20) /* bytes: 200 findings and more */

struct lines_out {
	int fd;
	bool is_socket, never_waits; /* known from the begin: a replay may not ask later */
	char *held;
	size_t n_held;
};

/* "/dev/stdout" is standard output without waiting for its reader, where that can be had: opened anew, as the flag
 * would else be everybody's who has it open. Other paths as open_output(). 0 or -errno. */
int lines_out_open(struct lines_out *o, const char *path);
/* Takes over a descriptor: one that does not block, or a socket, is not waited for. */
void lines_out_begin(struct lines_out *o, int fd);
/* Whole lines, taken whole or not at all. -EAGAIN: so much is held that they were not taken; else 0 or -errno. */
int lines_out_put(struct lines_out *o, const char *text, size_t len);
/* What the reader takes by now. 0 or -errno. */
int lines_out_flush(struct lines_out *o);
/* Gives the reader two seconds for the rest. 0; -EAGAIN: it did not read all; or -errno. */
int lines_out_close(struct lines_out *o);

#endif
