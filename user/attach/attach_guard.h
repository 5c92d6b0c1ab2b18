/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_guard.h - decides whether probes may go into a file, or come out of it, now.
 *
 * The kernel takes the mmap_lock of every process that maps the file for that, whatever the pid filter says. While it
 * waits for one of them, every fork of the host waits too (register_for_each_vma() holds dup_mmap_sem,
 * kernel/events/uprobes.c). So the guard first checks the lock of each of these processes through the reader, which has
 * deadlines.
 */
#ifndef RANKTRACE_ATTACH_GUARD_H
#define RANKTRACE_ATTACH_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attach_guard;
struct reader;
struct shares;
struct target_set;

struct attach_guard *attach_guard_new(struct reader *r, struct target_set *targets); /* borrows; NULL without memory */
void attach_guard_free(struct attach_guard *g);
/* Returns a process that blocks the file with this build-id: its mmap_lock is held, and it maps the file or runs the
 * same program as one that does while its own maps cannot be read. 0: none, go on at once. Costs 0.1 ms for each
 * process not checked in the last 0.1 s (up to 3 s where a check takes long). */
uint32_t attach_guard_holder(struct attach_guard *g, const uint8_t *build_id, size_t len);
/* The same, and what else keeps probes out now. */
struct guard_answer {
	uint32_t holder;
	uint32_t crowd;  /* user with more processes than are scanned, some of which map the file; 0 none */
	bool unfinished; /* not all were asked yet: again in the next slice */
};
struct guard_answer attach_guard_ask(struct attach_guard *g, const uint8_t *build_id, size_t len);
/* How many processes of a user are scanned; NULL: all. Borrowed. */
void attach_guard_share(struct attach_guard *g, struct shares *shares);
/* A time slice of the loop begins, with so much time for questions, and answers that hold until the next one. */
void attach_guard_slice(struct attach_guard *g);
/* Call it after a fork: the old reader belongs to the parent, so use this one. */
void attach_guard_use(struct attach_guard *g, struct reader *r);

#endif
