/* SPDX-License-Identifier: Apache-2.0
 *
 * outside.c - communicators and NCCL's proxies as read from outside. A sample joins the same members as calls do, by
 * process and address. It is no call: nothing in it says that the host is alive. Where calls are seen they are the more
 * exact, and a sample changes no number. What is read of a proxy comes in pieces; it counts once it is whole, and is
 * compared with the one before: nothing moved as long as all numbers are the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/state.h"

#define STALE_ROUNDS 4 /* samples of its process: a page of memory may be absent for one or two */

/* NCCL keeps counters that move. */
static bool is_counted(const struct comm_sample *s)
{
	return s->n_counters >= OP_KINDS_COUNTED && s->n_counters <= COMM_SAMPLE_COUNTERS;
}

/* Collectives launched before the read. */
static uint64_t launches_of(const struct comm_sample *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->n_counters && i < COMM_SAMPLE_COUNTERS; i++)
		sum += s->counters[i];
	return sum;
}

static bool counters_same(const struct samples *s, const struct comm_sample *now)
{
	return s->n && s->counted == is_counted(now) && !memcmp(s->counters, now->counters, sizeof(s->counters));
}

static uint64_t counters_sum(const struct samples *s)
{
	uint64_t sum = 0;

	for (int k = 0; k < OP_KINDS_COUNTED; k++)
		sum += s->counters[k];
	return sum;
}

static void counters_moved(struct samples *s, uint64_t ts_ns)
{
	s->moved = s->n != 0;
	s->stood_ns = s->seen_ns > s->since_ns ? s->since_ns : 0;
	s->stood_seq = counters_sum(s);
	s->after_ns = s->seen_ns;
	s->since_ns = ts_ns;
}

static void samples_add(struct samples *s, const struct event *e)
{
	const struct comm_sample *now = &e->comm_sample;

	if (!counters_same(s, now))
		counters_moved(s, e->ts_ns);
	s->n++;
	s->seen_ns = e->ts_ns;
	s->counted = is_counted(now);
	s->aborted = now->abort;
	s->async_result = now->async_result;
	s->init_state = now->init_state;
	memcpy(s->counters, now->counters, sizeof(s->counters));
}

static bool by_samples_alone(const struct member *mb)
{
	return !mb->gone && mb->samples.n && !mb->last_call_ns && !mb->from_init;
}

void members_forget_sampled(struct proc *p)
{
	for (struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (by_samples_alone(mb))
			member_forget(mb);
}

/* A sample of a process reads all its communicators. One that several samples did not show is no more, and would seem
 * to stop for ever. */
static void round_begin(struct proc *p, uint64_t ts_ns)
{
	if (ts_ns == p->sampled_ns)
		return;
	p->sampled_ns = ts_ns;
	p->sample_rounds++;
	for (struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (by_samples_alone(mb) && p->sample_rounds - mb->samples.round > STALE_ROUNDS)
			member_forget(mb);
}

int vanished_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct member_own *mb = p ? member_find(p, e->comm_seen.addr) : NULL;

	if (!p)
		return -ENOMEM;
	if (mb && comm_own(mb->m.comm)->said == e->comm_seen.hash)
		member_forget(&mb->m);
	return 0;
}

static int member_sampled(struct model *m, struct member *mb, const struct event *e)
{
	const struct comm_sample *now = &e->comm_sample;
	bool counts = !mb->last_call_ns && !mb->from_init && is_counted(now);
	int err = member_join(m, mb, now->hash, now->rank, now->nranks, e->ts_ns);

	if (err)
		return err;
	samples_add(&mb->samples, e);
	mb->samples.round = mb->proc->sample_rounds;
	if (!counts)
		return 0;
	if (mb->samples.n > 1 && mb->samples.since_ns == e->ts_ns)
		comm_sampled(mb, launches_of(now), e->ts_ns);
	member_correct(mb, launches_of(now), e->ts_ns);
	if (mb->samples.seen_ns > mb->samples.since_ns)
		comm_stood(mb, launches_of(now));
	return 0;
}

int sample_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct member_own *mb;
	int err;

	if (!p)
		return -ENOMEM;
	round_begin(&p->p, e->ts_ns); /* before the member is looked up: it may be one that is given up */
	err = member_get(m, p, e->comm_sample.comm, e->ts_ns, &mb);
	if (mb && mb->m.comm->hash &&
	    comm_own(mb->m.comm)->said != e->comm_sample.hash) { /* another one at that address now */
		member_forget(&mb->m);
		err = member_get(m, p, e->comm_sample.comm, e->ts_ns, &mb);
	}
	if (!mb)
		return err;
	mb->m.device = e->comm_sample.device;
	return member_sampled(m, &mb->m, e);
}

/* --- proxies --- */

static bool parts_same(const struct proxy_part *a, const struct proxy_part *b)
{
	return a->op_count == b->op_count && a->base == b->base && a->posted == b->posted &&
	       a->received == b->received && a->flushed == b->flushed && a->transmitted == b->transmitted &&
	       a->done == b->done && a->nsteps == b->nsteps && a->channel == b->channel && a->peer == b->peer &&
	       proxy_part_sends(a) == proxy_part_sends(b) && a->state == b->state && a->transport == b->transport;
}

static bool sample_same(const struct proxies *p, const struct member_own *mb)
{
	if (p->n != mb->n_sample)
		return false;
	for (int i = 0; i < p->n; i++)
		if (!parts_same(&p->parts[i], &mb->sample[i]))
			return false;
	return true;
}

static void sample_take(struct member_own *mb, const struct event *e, bool moving)
{
	struct proxies *p = &mb->m.proxies;
	struct proxy_part *old = p->parts;

	if (!p->n_samples || moving || !sample_same(p, mb)) {
		p->moved = p->n_samples != 0 || moving;
		p->since_ns = e->ts_ns;
	}
	p->n_samples++;
	p->seen_ns = e->ts_ns;
	p->parts = mb->sample;
	p->n = mb->n_sample;
	mb->sample = old;
	mb->n_sample = mb->want_sample = 0;
}

static int sample_begin(struct member_own *mb, const struct event *e)
{
	size_t n = smaller(e->proxy.n, PROXY_PARTS_KEPT);
	struct proxy_part *parts = realloc(mb->sample, (n + 1) * sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	mb->sample = parts;
	mb->n_sample = 0;
	mb->want_sample = n;
	if (e->proxy.thread)
		mb->m.proxies.thread = e->proxy.thread;
	if (!n)
		sample_take(mb, e, e->proxy.flags & PROXY_MOVING);
	return 0;
}

/* Of a communicator that was never reported, or that is gone, nothing is kept. */
int proxy_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct member_own *mb = p ? member_find(p, e->proxy.comm) : NULL;

	if (!p)
		return -ENOMEM;
	if (!mb || mb->m.gone)
		return 0;
	if (e->proxy.flags & PROXY_SAMPLE)
		return sample_begin(mb, e);
	if (mb->n_sample >= mb->want_sample)
		return 0;
	mb->sample[mb->n_sample++] = e->proxy;
	if (mb->n_sample == mb->want_sample)
		sample_take(mb, e, false);
	return 0;
}

void proxies_free(struct member_own *mb)
{
	free(mb->m.proxies.parts);
	free(mb->sample);
}
