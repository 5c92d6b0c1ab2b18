/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_io.h - what all sinks do alike: open the output, write a piece whole, and make foreign bytes fit to print.
 */
#ifndef RANKTRACE_SINK_IO_H
#define RANKTRACE_SINK_IO_H

#include <stdbool.h>
#include <stddef.h>

/* File for writing, emptied; "-" is stdout, "/dev/stderr" stderr (close_output() leaves both open). Descriptor or
 * -errno. */
int open_output(const char *path);
/* 0 or -errno of close(2), which is where some file systems report a full disk. */
int close_output(int fd);
/* All bytes, over short writes and EINTR. 0 or -errno; `*ret_written` (may be NULL) says how many went out. */
int write_whole(int fd, const void *data, size_t len, size_t *ret_written);

/* Bytes of the valid UTF-8 sequence at `s`, 0 when it is not one (overlong, surrogate, past U+10FFFF, cut). */
size_t utf8_len(const char *s);
/* Text as it is to be: nothing of it needs replacing. */
bool utf8_valid(const char *s);
/* Copy to `out` with each byte that is not UTF-8 replaced by U+FFFD, cut at a character when `size` is too
 * small. Three bytes of room for each byte of `s` and one more are always enough. Returns the length written. */
size_t utf8_copy(char *out, size_t size, const char *s);
/* New string (free() it) as utf8_copy() makes it; NULL without memory. */
char *utf8_dup(const char *s);

#endif
