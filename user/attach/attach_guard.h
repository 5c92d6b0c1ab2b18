/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_guard.h - may probes go into a file, or come out of it, now? The kernel takes the mmap_lock of every process
 * that maps the file for that, whatever the pid filter says, and while it waits for one, every fork of the host waits
 * for it (register_for_each_vma() holds dup_mmap_sem, kernel/events/uprobes.c). So these processes are asked for their
 * lock first, through the reader, where an answer may be late.
 */
#ifndef RANKTRACE_ATTACH_GUARD_H
#define RANKTRACE_ATTACH_GUARD_H

#include <stddef.h>
#include <stdint.h>

struct attach_guard;
struct reader;
struct target_set;

struct attach_guard *attach_guard_new(struct reader *r, struct target_set *targets); /* borrows; NULL without memory */
void attach_guard_free(struct attach_guard *g);
/*
 * A process in the way of the file with this build-id: it maps the file, or runs the program of one that does and
 * nobody could read yet what it maps; and its mmap_lock is held. 0: none, go on at once. Costs 0.1 ms for each process
 * that was not asked in the last 0.1 s (3 s at most, where asking takes long).
 */
uint32_t attach_guard_holder(struct attach_guard *g, const uint8_t *build_id, size_t len);
/* After a fork: the helper is the parent's, ask this one. */
void attach_guard_use(struct attach_guard *g, struct reader *r);

#endif
