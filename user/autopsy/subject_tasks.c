/* SPDX-License-Identifier: Apache-2.0
 *
 * subject_tasks.c - see subject_tasks.h. A thread that was not switched between two looks, and shows the same state,
 * was in it all the while. Told in the scheduler tracer's records: the model knows no other source.
 */
#include "autopsy/subject_tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/stack/evidence.h"
#include "inspect/reader/task_look.h"
#include "tracers/sched/sched.h"

#define HELD_DEADLINE_MS 10 /* its mmap_lock was held for long enough to be sure: asked again, not waited for */

struct subject_thread {
	uint32_t tid;
	bool gone;
	char state; /* of the last look; 0 none yet */
	uint64_t n_switches;
	uint64_t since_ns;   /* the first look that showed this state, with no switch since */
	uint64_t blocked_ns; /* since_ns of the D wait that was told; 0 none */
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

static int name_tell(const struct subject *s, const struct target_thread *th, subject_emit *emit, void *to)
{
	struct fact_thread f = { .hdr = { .size = sizeof(f),
					  .tracer = WIRE_FACT,
					  .kind = FACT_THREAD,
					  .tgid = s->proc->tgid,
					  .tid = th->tid,
					  .ts_ns = clock_monotonic_ns() } };

	memcpy(f.name, th->name, sizeof(f.name));
	return emit(to, &f.hdr);
}

int subject_threads_tell(struct subject *s, subject_emit *emit, void *to)
{
	struct target_thread *threads = NULL;
	size_t n = 0;
	int err = 0;

	if (target_threads_read(s->proc->tgid, &threads, &n))
		return 0; /* it is gone */
	s->threads = calloc(n + 1, sizeof(*s->threads));
	if (!s->threads)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < n; i++) {
		s->threads[s->n_threads++].tid = threads[i].tid;
		err = name_tell(s, &threads[i], emit, to);
	}
	free(threads);
	return err;
}

void subject_threads_free(struct subject *s)
{
	free(s->threads);
	s->threads = NULL;
	s->n_threads = 0;
}

static struct wire_hdr task_hdr(const struct subject *s, const struct subject_thread *t, size_t size, uint8_t tracer,
				uint8_t kind)
{
	return (struct wire_hdr){ .size = (size + 7) & ~7ul,
				  .tracer = tracer,
				  .kind = kind,
				  .tgid = s->proc->tgid,
				  .tid = t->tid,
				  .ts_ns = clock_monotonic_ns() };
}

static int totals_tell(const struct subject *s, struct subject_thread *t, const struct task_look *now,
		       subject_emit *emit, void *to)
{
	struct sched_task r = { .hdr = task_hdr(s, t, sizeof(r), WIRE_SCHED, SCHED_TASK),
				.run_ns = now->run_ns,
				.wait_ns = now->wait_ns,
				.state = state_of_letter(now->state) };

	if (!t->state || t->state != now->state || t->n_switches != now->n_switches)
		t->since_ns = r.hdr.ts_ns;
	t->state = now->state;
	t->n_switches = now->n_switches;
	r.since_ns = t->since_ns;
	r.io_bytes = t->tid == s->proc->tgid ? task_look_io_bytes(s->proc->tgid) : 0;
	return emit(to, &r.hdr);
}

/* Text behind a record, each piece with its zero byte; cut where there is no more room. */
static uint16_t text_put(char *record, size_t cap, size_t *at, const char *text)
{
	size_t n = strlen(text), room = cap - *at;

	n = n < room ? n : room - 1;
	memcpy(record + *at, text, n);
	record[*at + n] = 0;
	*at += n + 1;
	return n + 1;
}

static int blocked_tell(const struct subject *s, struct subject_thread *t, const struct target_evidence *e,
			subject_emit *emit, void *to)
{
	union {
		struct sched_blocked r;
		char bytes[WIRE_SIZE_MAX];
	} u = {};
	const char *texts[] = { e->kernel_stack, "", e->wchan, e->syscall, e->file };
	size_t at = sizeof(u.r);

	u.r.begin_ns = t->blocked_ns = t->since_ns;
	u.r.mmap_lock_held = e->mmap_lock_held;
	for (int i = 0; i < 5; i++)
		u.r.len[i] = text_put(u.bytes, sizeof(u) - 8, &at, texts[i]);
	u.r.hdr = task_hdr(s, t, at, WIRE_SCHED, SCHED_BLOCKED);
	return emit(to, &u.r.hdr);
}

static int place_tell(const struct subject *s, const struct subject_thread *t, const struct target_evidence *e,
		      subject_emit *emit, void *to)
{
	union {
		struct fact_task_at r;
		char bytes[1024];
	} u = {};
	size_t at = sizeof(u.r);

	u.r.wchan_len = text_put(u.bytes, sizeof(u) - 8, &at, e->wchan);
	u.r.syscall_len = text_put(u.bytes, sizeof(u) - 8, &at, e->syscall);
	u.r.file_len = text_put(u.bytes, sizeof(u) - 8, &at, e->file);
	u.r.hdr = task_hdr(s, t, at, WIRE_FACT, FACT_TASK_AT);
	return emit(to, &u.r.hdr);
}

/* A thread in D that stays there is told once, with its kernel stack; of a main thread always where it sits. */
static int evidence_tell(struct subjects *all, const struct subject *s, struct subject_thread *t, uint64_t before_ns,
			 subject_emit *emit, void *to)
{
	bool blocked = t->state == 'D' && t->since_ns <= before_ns && t->blocked_ns != t->since_ns;
	struct target_evidence e = { .syscall_nr = -1 };

	if (!blocked && (t->tid != s->proc->tgid || s->proc->is_child))
		return 0;
	if (evidence_read(all->reader, s->proc->tgid, t->tid, s->comms.held ? HELD_DEADLINE_MS : READER_DEADLINE_MS,
			  &e))
		return 0;
	return blocked ? blocked_tell(s, t, &e, emit, to) : place_tell(s, t, &e, emit, to);
}

static int tasks_look(struct subjects *all, struct subject *s, uint64_t before_ns, subject_emit *emit, void *to)
{
	struct task_look now;
	int err = 0;

	for (size_t i = 0; !err && i < s->n_threads; i++) {
		struct subject_thread *t = &s->threads[i];

		if (t->gone || task_look_read(s->proc->tgid, t->tid, &now)) {
			t->gone = true;
			continue;
		}
		err = totals_tell(s, t, &now, emit, to);
		if (!err)
			err = evidence_tell(all, s, t, before_ns, emit, to);
	}
	return err;
}

int subjects_tasks_look(struct subjects *s, subject_emit *emit, void *to)
{
	uint64_t before_ns = clock_monotonic_ns();
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++)
		err = tasks_look(s, &s->all[i], before_ns, emit, to);
	return err;
}
