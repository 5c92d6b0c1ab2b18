/* SPDX-License-Identifier: Apache-2.0
 *
 * thread_records.c - what a report says of threads as records: their states, what they sit in, call sites, waits. Each
 * only when it was read anew.
 */
#include <errno.h>
#include <string.h>

#include "hub/record_feed.h"
#include "schemas/collector.h"
#include "tracers/process/wait_record.h"
#include "tracers/sched/sched.h"

struct fed_thread { /* by host and thread: when what was fed was read, on the host's clock */
	struct keyed keyed;
	uint64_t seen_raw_ns, at_raw_ns, stack_raw_ns, wait_raw_ns;
	uint64_t since_raw_ns, since_ns; /* of its state: on the hub's axis as it was first seen */
	struct sched_task last;
};

/* It is newer than what was fed. */
static bool is_new(uint64_t *fed_raw_ns, const struct feed_to *to, bool known, uint64_t age_ns)
{
	uint64_t raw_ns = known && age_ns < to->now_raw_ns ? to->now_raw_ns - age_ns : 0;

	if (raw_ns <= *fed_raw_ns)
		return false;
	*fed_raw_ns = raw_ns;
	return true;
}

static struct wire_hdr thread_hdr(const struct feed_to *to, uint8_t kind, size_t size, uint32_t pid, uint32_t tid,
				  uint64_t age_ns)
{
	struct wire_hdr h = record_hdr(to, kind, size, pid);

	h.tid = tid;
	h.ts_ns = feed_time(to, age_ns);
	return h;
}

/* The same begin is the same time, whatever is known of the host's clock by now: findings are known by it. */
static uint64_t state_since(struct fed_thread *fed, const struct feed_to *to, const Cluster__Thread *t)
{
	uint64_t raw_ns = t->state_age_ns < to->now_raw_ns ? to->now_raw_ns - t->state_age_ns : 0;

	if (!fed->since_ns || raw_ns != fed->since_raw_ns) {
		fed->since_raw_ns = raw_ns;
		fed->since_ns = feed_time(to, t->state_age_ns);
	}
	return fed->since_ns;
}

static int state_feed(struct fed_thread *fed, const struct feed_to *to, uint32_t pid, const Cluster__Thread *t)
{
	struct sched_task f = {
		.hdr = thread_hdr(to, SCHED_TASK, sizeof(f), pid, t->tid, t->seen_age_ns),
		.since_ns = state_since(fed, to, t),
		.run_ns = t->run_ns,
		.wait_ns = t->wait_ns,
		.sleep_ns = t->sleep_ns,
		.disk_ns = t->disk_ns,
		.stopped_ns = t->stopped_ns,
		.state = t->state,
		.frozen = t->frozen,
	};

	f.hdr.tracer = WIRE_SCHED;
	fed->last = f;
	return pipeline_feed(to->pipeline, &f.hdr);
}

/* A report has all threads that are stopped or blocked: one that it does not have any more goes on. */
static int goes_on_feed(struct fed_thread *fed, const struct feed_to *to)
{
	struct sched_task f = fed->last;

	f.hdr.ts_ns = f.since_ns = to->host->at_ns;
	f.state = SCHED_UNKNOWN;
	return pipeline_feed(to->pipeline, &f.hdr);
}

static int name_feed(const struct feed_to *to, uint32_t pid, const Cluster__Thread *t)
{
	struct record_thread f = { .hdr = thread_hdr(to, RECORD_THREAD, sizeof(f), pid, t->tid, t->seen_age_ns) };

	memcpy(f.name, t->name, strnlen(t->name, sizeof(f.name) - 1));
	return pipeline_feed(to->pipeline, &f.hdr);
}

static int at_feed(const struct feed_to *to, uint32_t pid, const Cluster__Thread *t)
{
	union {
		struct record_task_at f;
		char bytes[WIRE_SIZE_MAX];
	} u;

	u.f = (struct record_task_at){ 0 };
	u.f.hdr = thread_hdr(to, RECORD_TASK_AT, sizeof(u.f), pid, t->tid, t->at_age_ns);
	u.f.wchan_len = record_text_put(&u.f.hdr, 1024, t->wchan);
	u.f.syscall_len = record_text_put(&u.f.hdr, 2048, t->syscall);
	u.f.file_len = record_text_put(&u.f.hdr, sizeof(u) - 16, t->file);
	record_pad(&u.f.hdr);
	return pipeline_feed(to->pipeline, &u.f.hdr);
}

static int stack_feed(const struct feed_to *to, uint32_t pid, const Cluster__Thread *t)
{
	union {
		struct record_stack f;
		char bytes[WIRE_SIZE_MAX];
	} u = {};

	u.f.hdr = thread_hdr(to, RECORD_STACK, sizeof(u.f), pid, t->tid, t->stack_age_ns);
	u.f.wait_len = record_text_put(&u.f.hdr, 512, NULL);
	u.f.file_len = record_text_put(&u.f.hdr, 512, NULL);
	u.f.kernel_len = record_text_put(&u.f.hdr, 512, NULL);
	u.f.frames_len = record_text_put(&u.f.hdr, 512, NULL);
	u.f.python_len = record_text_put(&u.f.hdr, 2048, t->python);
	u.f.native_len = record_text_put(&u.f.hdr, 4096, t->native);
	u.f.end_len = record_text_put(&u.f.hdr, sizeof(u) - 16, t->stack_end);
	record_pad(&u.f.hdr);
	return pipeline_feed(to->pipeline, &u.f.hdr);
}

static int wait_feed(const struct feed_to *to, uint32_t pid, uint32_t tid, const Cluster__WaitsFor *w)
{
	union {
		struct wire_hdr h;
		char bytes[WAIT_RECORD_BYTES];
	} u;
	struct waits_for one = {
		.ns = feed_time(to, w->read_age_ns),
		.kind = w->kind < WAITS_KIND_MAX ? (enum waits_kind)w->kind : WAITS_UNKNOWN,
		.act = w->act < WAITS_ACT_MAX ? (enum waits_act)w->act : WAITS_TO_OTHER,
		.flags = w->flags,
		.pid = w->pid,
		.thread = w->thread,
		.n = w->n,
		.since_ns = w->has_since_age_ns ? feed_time(to, w->since_age_ns) : 0,
		.length_ns = w->length_ns,
		.until_ns = w->has_left_ns ? to->host->at_ns + w->left_ns : 0,
		.what = w->what ? w->what : "",
		.who = w->who ? w->who : "",
		.activity = w->activity ? w->activity : "",
	};

	wait_record_encode(pid, tid, one.ns, &one, &u.h);
	return pipeline_feed(to->pipeline, &u.h);
}

static int thread_feed(struct fed_thread *fed, const struct feed_to *to, uint32_t pid, const Cluster__Thread *t)
{
	const Cluster__WaitsFor *w = t->waits_for;
	int err = 0;

	if (t->name && !fed->seen_raw_ns)
		err = name_feed(to, pid, t);
	if (!err && is_new(&fed->seen_raw_ns, to, t->has_seen_age_ns, t->seen_age_ns))
		err = state_feed(fed, to, pid, t);
	if (!err && is_new(&fed->at_raw_ns, to, t->has_at_age_ns, t->at_age_ns))
		err = at_feed(to, pid, t);
	if (!err && is_new(&fed->stack_raw_ns, to, t->has_stack_age_ns, t->stack_age_ns))
		err = stack_feed(to, pid, t);
	if (!err && w && is_new(&fed->wait_raw_ns, to, w->has_read_age_ns, w->read_age_ns))
		err = wait_feed(to, pid, t->tid, w);
	return err;
}

static bool is_listed(const Cluster__Process *p, uint32_t tid)
{
	for (size_t i = 0; i < p->n_threads; i++)
		if (p->threads[i]->tid == tid)
			return true;
	return false;
}

static int halted_end(struct keyed_table *all, struct fed_halted *halted, const struct feed_to *to,
		      const Cluster__Process *p, uint64_t host_and_pid)
{
	int err = 0;

	for (int i = 0; i < halted->n && !err; i++) {
		struct fed_thread *fed = keyed_find(all, host_and_pid, halted->tids[i]);

		if (fed && !is_listed(p, halted->tids[i]))
			err = goes_on_feed(fed, to);
	}
	halted->n = 0;
	return err;
}

int threads_feed(struct keyed_table *all, struct fed_halted *halted, const struct feed_to *to,
		 const Cluster__Process *p, bool whole)
{
	uint64_t host_and_pid = (uint64_t)to->host->number << 32 | p->pid;
	int err = whole ? halted_end(all, halted, to, p, host_and_pid) : 0;

	for (size_t i = 0; i < p->n_threads && !err; i++) {
		const Cluster__Thread *t = p->threads[i];
		struct fed_thread *fed = keyed_get(all, host_and_pid, t->tid, sizeof(*fed));

		err = fed ? thread_feed(fed, to, p->pid, t) : -ENOMEM;
		if (whole && (t->state == SCHED_DISK || t->state == SCHED_STOPPED) && halted->n < FED_HALTED_MAX)
			halted->tids[halted->n++] = t->tid;
	}
	return err;
}
