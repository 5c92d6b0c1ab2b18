/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.h - keeps one copy of each string, so that strings compare by pointer. A text lives until it is given back:
 * the table's user says which are held, and all others go. Where that is never done, all live as long as the table.
 *
 * Its room is bounded, and shared: what processes are known by (names) has a room that stacks cannot fill. In each an
 * owner has INTERN_OWNER_FIRST for its own, as long as there are no more than some hundred owners, and beyond it three
 * times as much as it leaves free in half of the room. A text that finds no room is empty, and never one that another
 * one has as well.
 */
#ifndef RANKTRACE_INTERN_H
#define RANKTRACE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of texts with their entries: a session must not fill the memory. */
#define INTERN_TEXTS_MAX (64u << 20) /* an owner alone: three eighths */
#define INTERN_NAMES_MAX (32u << 20)
#define INTERN_OWNER_FIRST (128u << 10)
#define INTERN_FULL "(too many texts)" /* for a reader, where one was refused */

enum intern_kind {
	INTERN_TEXTS, /* what is seen: stacks, waits, files */
	INTERN_NAMES, /* what a process is known by: job, container, pod, cgroup */
	INTERN_KINDS,
};

struct intern;
struct intern *intern_new(void); /* NULL: out of memory */
void intern_free(struct intern *t);
/* Returns the table's copy of the string; "" (a constant) for NULL; intern_none for a new string that finds no room or
 * no memory; never NULL. */
const char *intern(struct intern *t, const char *s);
/* The same for `len` bytes that may lack a terminating zero; cut at the first zero byte. */
const char *intern_bytes(struct intern *t, const char *s, size_t len);

extern const char intern_none[]; /* empty, at an address of its own */
static inline bool intern_refused(const char *text)
{
	return text == intern_none;
}

/* `owner` says whose a new text is; it is asked for each of these. NULL, as at first: all are one's. Borrows `of`. */
void intern_set_owner(struct intern *t, uint64_t (*owner)(void *of), void *of);
/* Names of `owner` come from here on, until intern_names_end(). */
void intern_names_begin(struct intern *t, uint64_t owner);
void intern_names_end(struct intern *t);
uint64_t intern_n_refused(const struct intern *t, enum intern_kind kind); /* ever, also of one text again */

/* Something refers to this text: it outlives the next intern_give_back(). NULL, and what is none of the table's texts
 * (a constant, a copy): nothing. It is found by what it says: it must be readable. */
void intern_hold(struct intern *t, const char *text);
/* Frees each text of which intern_hold() was not called since the last time. Returns bytes. */
size_t intern_give_back(struct intern *t);
size_t intern_came(const struct intern *t);       /* bytes of new texts since then */
size_t intern_bytes_kept(const struct intern *t); /* of both kinds, with their entries */

#endif
