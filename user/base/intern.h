/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.h - keeps one copy of each string, so that strings compare by pointer and live as long as their table.
 */
#ifndef RANKTRACE_INTERN_H
#define RANKTRACE_INTERN_H

#include <stddef.h>

/* For all texts and their entries: the stacks of a session of weeks must not fill the memory. */
#define INTERN_BYTES_MAX (16u << 20)
#define INTERN_FULL "(too many texts)"

struct intern;
struct intern *intern_new(void); /* NULL: out of memory */
void intern_free(struct intern *t);
/* Returns the table's copy of the string; "" (a constant) for NULL and if out of memory, INTERN_FULL for a new string
 * past the limit; never NULL. */
const char *intern(struct intern *t, const char *s);
/* The same for `len` bytes that may lack a terminating zero; cut at the first zero byte. */
const char *intern_bytes(struct intern *t, const char *s, size_t len);

#endif
