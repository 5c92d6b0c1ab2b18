/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - foreign bytes made fit to print: paths, names, environments and memory of a target may hold anything. For
 * JSON they become valid UTF-8, for a terminal they also lose what controls it.
 */
#ifndef RANKTRACE_UTF8_H
#define RANKTRACE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the valid UTF-8 sequence at `s`, 0 when it is not one (overlong, surrogate, past U+10FFFF, cut). */
size_t utf8_len(const char *s);
/* Text as it is to be: nothing of it needs replacing. */
bool utf8_valid(const char *s);
/* Copy to `out` with each byte that is not UTF-8, and each control character that JSON would
 * print as it is, replaced by U+FFFD, cut at a character when `size` is too
 * small. Three bytes of room for each byte of `s` and one more are always enough. Returns the length written. */
size_t utf8_copy(char *out, size_t size, const char *s);
/* New string (free() it) as utf8_copy() makes it; NULL without memory. */
char *utf8_dup(const char *s);
/* The character at `s` controls a terminal. */
bool utf8_is_control(const char *s);
/* In place: each byte that is no character, and each control character that is not in `keep`, becomes '?'. */
void utf8_tame(char *text, const char *keep);

#endif
