/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.h - one copy of each string, so that strings compare by pointer and live as long as their table.
 */
#ifndef RANKTRACE_INTERN_H
#define RANKTRACE_INTERN_H

#include <stddef.h>

#define INTERN_BYTES_MAX \
	(16u << 20) /* of texts and what keeps them; a session of weeks must not grow by its stacks \
		     */
#define INTERN_FULL "(too many texts)"

struct intern;
struct intern *intern_new(void); /* NULL without memory */
void intern_free(struct intern *t);
/* The table's copy of the string; "" (a constant) for NULL and without memory, INTERN_FULL for a new one past the
 * limit: never NULL. */
const char *intern(struct intern *t, const char *s);
/* The same for `len` bytes that may lack a terminating zero; cut at the first zero byte. */
const char *intern_bytes(struct intern *t, const char *s, size_t len);

#endif
