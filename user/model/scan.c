/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.c - what a scan of a rank's threads shows: the state and the totals of each, bytes, and looks at which they were
 * at work on a disk.
 */
#include <string.h>

#include "model/state.h"

#define DISK_LOOK_NS 400000000ull /* looks closer together are one; a D wait of that length is no short one */

void proc_io_scanned(struct proc *p, uint64_t bytes, uint64_t ts_ns)
{
	if (!bytes || ts_ns <= p->io_seen_ns)
		return;
	p->prev_io_bytes = p->io_seen_ns ? p->io_bytes : bytes;
	p->prev_io_seen_ns = p->io_seen_ns;
	p->io_bytes = bytes;
	p->io_seen_ns = ts_ns;
}

/* A moment of D says nothing: so is what each thread does that reads or writes. Several threads at one look, or one in
 * another such wait at its next, are at work: a shard index, many small files, page faults from a network file system.
 */
static void disk_look(struct disk_looks *l, const struct task *t, bool was_in_d)
{
	bool other = l->seen_ns && l->seen_tid != t->tid && t->seen_ns < l->seen_ns + DISK_LOOK_NS;

	if (t->seen_ns > t->since_ns + DISK_LOOK_NS)
		return; /* one wait that lasts: its state says so */
	l->seen_ns = t->seen_ns;
	l->seen_tid = t->tid;
	if (!(other || (was_in_d && t->since_ns > t->prev_seen_ns)) || t->seen_ns < l->at_ns[0] + DISK_LOOK_NS)
		return;
	memmove(&l->at_ns[1], &l->at_ns[0], sizeof(l->at_ns) - sizeof(l->at_ns[0]));
	l->at_ns[0] = t->seen_ns;
}

void task_scanned(struct task *t, const struct event *e)
{
	struct proc *rank = t->proc->leader; /* NULL: it is gone, this child is not */
	bool was_in_d = t->state == TASK_DISK;

	if (e->ts_ns < t->seen_ns) /* an older scan */
		return;
	if (rank && t->seen_ns && e->task.wait_ns > t->wait_ns)
		rank->ready_ns += e->task.wait_ns - t->wait_ns;
	t->prev_run_ns = t->run_ns;
	t->prev_wait_ns = t->wait_ns;
	t->prev_preempted = t->preempted;
	t->prev_seen_ns = t->seen_ns;
	t->seen_ns = e->ts_ns;
	t->state = e->task.state;
	t->frozen = e->task.frozen;
	t->since_ns = e->task.since_ns;
	t->run_ns = e->task.run_ns;
	t->wait_ns = e->task.wait_ns;
	t->sleep_ns = e->task.sleep_ns;
	t->disk_ns = e->task.disk_ns;
	t->stopped_ns = e->task.stopped_ns;
	t->preempted = e->task.preempted;
	if (e->task.preempted_by)
		t->preempted_by = e->task.preempted_by;
	if (t->blocked && (t->state != TASK_DISK || t->since_ns > t->blocked_since_ns))
		t->blocked = false; /* the record of its end was lost */
	if (t->stalled && (t->state != TASK_SLEEP || t->since_ns > t->blocked_since_ns))
		t->stalled = false;
	if (rank && t->state == TASK_DISK)
		disk_look(&rank->outside.disk, t, was_in_d);
}
