/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_threads.c - see procs_threads.h.
 *
 * A thread with the same state and no context switch between two samples was in that state all the time. Emitted as
 * records of the scheduler tracer: the model needs no other kind.
 */
#include "autopsy/procs_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record.h"
#include "inspect/stack/evidence.h"
#include "inspect/stack/mount.h"
#include "inspect/reader/task_sample.h"
#include "tracers/sched/sched.h"

#define HELD_DEADLINE_MS 10 /* its mmap_lock was held long enough to be sure: check again, but do not wait */

struct proc_thread {
	uint32_t tid;
	bool gone;
	char state; /* of the last sample; 0: none yet */
	uint64_t n_switches;
	uint64_t since_ns;   /* first sample that showed this state, with no context switch since */
	uint64_t blocked_ns; /* since_ns of the D state that was emitted; 0: none */
};

static enum sched_state state_of_letter(char c)
{
	switch (c) {
	case 'R': return SCHED_RUNNABLE;
	case 'D': return SCHED_DISK;
	case 'T':
	case 't': return SCHED_STOPPED;
	case 'Z':
	case 'X': return SCHED_DEAD;
	default: return SCHED_SLEEP;
	}
}

static int name_emit(const struct autopsy_proc *s, const struct target_thread *th, procs_emit_fn *emit, void *to)
{
	struct record_thread f = { .hdr = { .size = sizeof(f),
					    .tracer = WIRE_COLLECTOR,
					    .kind = RECORD_THREAD,
					    .tgid = s->proc->tgid,
					    .tid = th->tid,
					    .ts_ns = clock_monotonic_ns() } };

	memcpy(f.name, th->name, sizeof(f.name));
	return emit(to, &f.hdr);
}

int proc_threads_emit(struct autopsy_proc *s, procs_emit_fn *emit, void *to)
{
	struct target_thread *threads = NULL;
	size_t n = 0;
	int err = 0;

	if (target_threads_read(s->proc->tgid, &threads, &n))
		return 0; /* the process is gone */
	s->threads = calloc(n + 1, sizeof(*s->threads));
	if (!s->threads)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < n; i++) {
		s->threads[s->n_threads++].tid = threads[i].tid;
		err = name_emit(s, &threads[i], emit, to);
	}
	free(threads);
	return err;
}

void proc_threads_free(struct autopsy_proc *s)
{
	free(s->threads);
	s->threads = NULL;
	s->n_threads = 0;
}

static struct wire_hdr task_hdr(const struct autopsy_proc *s, const struct proc_thread *t, size_t size, uint8_t tracer,
				uint8_t kind)
{
	return (struct wire_hdr){ .size = (size + 7) & ~7ul,
				  .tracer = tracer,
				  .kind = kind,
				  .tgid = s->proc->tgid,
				  .tid = t->tid,
				  .ts_ns = clock_monotonic_ns() };
}

static int totals_emit(const struct autopsy_proc *s, struct proc_thread *t, const struct task_sample *now,
		       procs_emit_fn *emit, void *to)
{
	struct sched_task r = { .hdr = task_hdr(s, t, sizeof(r), WIRE_SCHED, SCHED_TASK),
				.run_ns = now->run_ns,
				.wait_ns = now->wait_ns,
				.state = s->frozen ? SCHED_STOPPED : state_of_letter(now->state),
				.frozen = s->frozen };

	if (!t->state || t->state != now->state || t->n_switches != now->n_switches)
		t->since_ns = r.hdr.ts_ns;
	t->state = now->state;
	t->n_switches = now->n_switches;
	r.since_ns = t->since_ns;
	r.io_bytes = t->tid == s->proc->tgid ? task_sample_io_bytes(s->proc->tgid) : 0;
	return emit(to, &r.hdr);
}

static int blocked_emit(const struct autopsy_proc *s, struct proc_thread *t, const struct target_evidence *e,
			procs_emit_fn *emit, void *to)
{
	union {
		struct sched_blocked r;
		char bytes[WIRE_SIZE_MAX];
	} u = {};
	const char *texts[] = { e->kernel_stack, "", e->wchan, e->syscall, e->file };
	char mount[512];

	u.r.hdr = task_hdr(s, t, sizeof(u.r), WIRE_SCHED, SCHED_BLOCKED);
	u.r.begin_ns = t->blocked_ns = t->since_ns;
	u.r.mmap_lock_held = e->mmap_lock_held;
	for (int i = 0; i < 5; i++)
		u.r.len[i] = record_text_put(&u.r.hdr, sizeof(u) - 8, texts[i]);
	mount_of_evidence(s->proc->tgid, e, mount, sizeof(mount));
	u.r.mount_len = record_text_put(&u.r.hdr, sizeof(u) - 8, mount);
	record_pad(&u.r.hdr);
	return emit(to, &u.r.hdr);
}

static int wait_place_emit(const struct autopsy_proc *s, const struct proc_thread *t, const struct target_evidence *e,
			   procs_emit_fn *emit, void *to)
{
	union {
		struct record_task_at r;
		char bytes[1024];
	} u = {};

	u.r.hdr = task_hdr(s, t, sizeof(u.r), WIRE_COLLECTOR, RECORD_TASK_AT);
	u.r.wchan_len = record_text_put(&u.r.hdr, sizeof(u) - 8, e->wchan);
	u.r.syscall_len = record_text_put(&u.r.hdr, sizeof(u) - 8, e->syscall);
	u.r.file_len = record_text_put(&u.r.hdr, sizeof(u) - 8, e->file);
	record_pad(&u.r.hdr);
	return emit(to, &u.r.hdr);
}

/* A thread that stays in D is emitted once, with its kernel stack. Where a main thread waits is always emitted. */
static int evidence_emit(struct autopsy_procs *all, const struct autopsy_proc *s, struct proc_thread *t,
			 uint64_t before_ns, procs_emit_fn *emit, void *to)
{
	bool blocked = t->state == 'D' && !s->frozen && t->since_ns <= before_ns && t->blocked_ns != t->since_ns;
	struct target_evidence e = { .syscall_nr = -1 };

	if (!blocked && (t->tid != s->proc->tgid || s->proc->is_child))
		return 0;
	if (evidence_read(all->reader, s->proc->tgid, t->tid, s->comms.held ? HELD_DEADLINE_MS : READER_DEADLINE_MS,
			  &e))
		return 0;
	return blocked ? blocked_emit(s, t, &e, emit, to) : wait_place_emit(s, t, &e, emit, to);
}

static int threads_sample(struct autopsy_procs *all, struct autopsy_proc *s, uint64_t before_ns, procs_emit_fn *emit,
			  void *to)
{
	struct task_sample now;
	int err = 0;

	for (size_t i = 0; !err && i < s->n_threads; i++) {
		struct proc_thread *t = &s->threads[i];

		if (t->gone || task_sample_read(s->proc->tgid, t->tid, &now)) {
			t->gone = true;
			continue;
		}
		err = totals_emit(s, t, &now, emit, to);
		if (!err)
			err = evidence_emit(all, s, t, before_ns, emit, to);
	}
	return err;
}

int procs_sample_threads(struct autopsy_procs *s, procs_emit_fn *emit, void *to)
{
	uint64_t before_ns = clock_monotonic_ns();
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++)
		err = threads_sample(s, &s->all[i], before_ns, emit, to);
	return err;
}
