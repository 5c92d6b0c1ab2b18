/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked_records.c - threads that their node found blocked in the kernel, as the records that a session has of them:
 * so the hub's own detectors see that a rank cannot come, and who waits for it on which host.
 */
#include <errno.h>
#include <string.h>

#include "hub/record_feed.h"
#include "tracers/sched/sched.h"

struct fed_blocked { /* by host and process, and thread */
	struct keyed keyed;
	uint64_t begin_ns; /* on the hub's axis */
	uint64_t nth;      /* the report that has it: when that was made */
};

static const char *evidence_of(const Cluster__Finding *f, const char *name)
{
	for (size_t i = 0; i < f->n_evidence; i++)
		if (!strcmp(f->evidence[i]->name, name))
			return f->evidence[i]->text;
	return NULL;
}

static bool mmap_lock_held(const Cluster__Finding *f)
{
	for (size_t i = 0; i < f->n_evidence; i++)
		if (!strcmp(f->evidence[i]->name, "mmap_lock_held"))
			return f->evidence[i]->number != 0;
	return false;
}

static int begin_feed(const struct feed_to *to, const Cluster__Finding *f, uint64_t begin_ns)
{
	static const char *const names[] = { "kernel_stack", "user_stack", "wchan", "syscall", "file" };
	static const size_t ends[] = { 1024, 2048, 2304, 2560, 3584 };
	union {
		struct sched_blocked f;
		char bytes[4096];
	} u = {};

	u.f.hdr = record_hdr(to, SCHED_BLOCKED, sizeof(u.f), f->subject->pid);
	u.f.hdr.tracer = WIRE_SCHED;
	u.f.hdr.tid = f->subject->tid;
	u.f.begin_ns = begin_ns;
	u.f.mmap_lock_held = mmap_lock_held(f);
	for (int i = 0; i < 5; i++)
		u.f.len[i] = record_text_put(&u.f.hdr, ends[i], evidence_of(f, names[i]));
	u.f.mount_len = record_text_put(&u.f.hdr, sizeof(u) - 8, evidence_of(f, "mount"));
	record_pad(&u.f.hdr);
	return pipeline_feed(to->pipeline, &u.f.hdr);
}

static int end_feed(const struct feed_to *to, const struct fed_blocked *b)
{
	struct sched_blocked_end f = { .hdr = record_hdr(to, SCHED_BLOCKED_END, sizeof(f), (uint32_t)b->keyed.a),
				       .begin_ns = b->begin_ns };

	f.hdr.tracer = WIRE_SCHED;
	f.hdr.tid = (uint32_t)b->keyed.b;
	return pipeline_feed(to->pipeline, &f.hdr);
}

/* Said anew with each report: a thread's state has its own begin, as of the host's clock then, and if that seems later
 * the wait would be over. */
static int finding_feed(struct keyed_table *fed, const struct feed_to *to, const Cluster__Finding *f, uint64_t nth)
{
	struct fed_blocked *b =
		keyed_get(fed, (uint64_t)to->host->number << 32 | f->subject->pid, f->subject->tid, sizeof(*b));

	if (!b)
		return -ENOMEM;
	if (!b->nth)
		b->begin_ns = feed_time(to, f->since_age_ns);
	b->nth = nth;
	return begin_feed(to, f, b->begin_ns);
}

static bool is_held(void *entry, const void *arg)
{
	(void)arg;
	return ((const struct fed_blocked *)entry)->nth;
}

/* What its report does not hold any more is over. */
static int ends_feed(struct keyed_table *fed, const struct feed_to *to, uint64_t nth)
{
	int err = 0;

	for (struct fed_blocked *b = fed->all; b && !err; b = b->keyed.next)
		if (b->keyed.a >> 32 == to->host->number && b->nth != nth) {
			err = end_feed(to, b);
			b->nth = 0;
		}
	keyed_keep(fed, is_held, NULL);
	return err;
}

/* A rank, or a process of one: data loaders that are blocked are listed, too. */
static bool is_listed(const Cluster__NodeReport *r, uint32_t pid, const char *job)
{
	for (size_t i = 0; i < r->n_processes; i++)
		if (r->processes[i]->pid == pid)
			return !strcmp(r->processes[i]->job ? r->processes[i]->job : "", job);
	return false;
}

int blocked_feed(struct keyed_table *fed, const struct feed_to *to, const Cluster__NodeReport *r, const char *job)
{
	uint64_t nth = to->host->at_ns;
	int err = 0;

	for (size_t i = 0; i < r->n_findings && !err; i++) {
		const Cluster__Finding *f = r->findings[i];
		const Cluster__Subject *s = f->subject;

		if (!strcmp(f->kind, "d_state") && s && s->pid && s->tid && is_listed(r, s->pid, job))
			err = finding_feed(fed, to, f, nth);
	}
	return err ? err : ends_feed(fed, to, nth);
}
