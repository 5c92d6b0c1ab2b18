/* SPDX-License-Identifier: Apache-2.0
 *
 * write_whole.h - a piece of an output is written whole or not at all: after a full disk a file ends where its last
 * whole piece does, so that what it holds is readable and more may follow.
 */
#ifndef RANKTRACE_BASE_WRITE_WHOLE_H
#define RANKTRACE_BASE_WRITE_WHOLE_H

#include <stddef.h>

/* All bytes, over short writes and EINTR. 0, or -errno: a regular file is cut back to where it ended, a pipe keeps what
 * went out. */
int write_whole(int fd, const void *data, size_t len);

#endif
