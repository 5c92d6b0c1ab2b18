/* SPDX-License-Identifier: Apache-2.0
 *
 * traffic.c - see traffic.h.
 */
#include "tools/stress/verbs/traffic.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/verbs/latency.h"
#include "tools/stress/verbs/pieces.h"
#include "tools/stress/verbs/post.h"

#define SIGNAL_EVERY 100 /* perftest's --cq-mod */
#define CLOCK_EVERY 64   /* posts between two looks at the clock */
#define LOOK_NS 20000000 /* between two looks at the coordinator */
#define MESSAGES_LEAST 192

static uint64_t seed_of(const struct traffic *t)
{
	return t->c->seed * 2 + t->phase;
}

/* --- a check of data --- */

static void pieces_of(const struct traffic *t, struct pieces *p)
{
	const struct endpoint *e = t->e;
	uint32_t mtu = e->own.mtu < e->other.mtu || !e->other.mtu ? e->own.mtu : e->other.mtu;

	if (t->phase == PHASE_MEASURE)
		pieces_one(p, t->c->bytes);
	else
		pieces_make(p, seed_of(t), e->bytes < AREA_BYTES ? e->bytes : AREA_BYTES, mtu);
}

static int opcode_of(const struct traffic *t)
{
	static const int opcodes[] = { VERBS_WR_WRITE, VERBS_WR_READ, VERBS_WR_SEND };

	return opcodes[t->c->operation];
}

static int check_from(struct traffic *t)
{
	struct pieces p;
	int err = 0;

	pieces_of(t, &p);
	for (int i = 0; i < p.n && !err; i++)
		err = post_send(t, opcode_of(t), p.piece[i].at, p.piece[i].at, p.piece[i].bytes, POST_SIGNALLED, i);
	for (int i = 0; i < p.n && !err; i++)
		err = completion_wait(t, t->e->sends, NULL);
	t->result->messages = p.n;
	return err;
}

static int check_to(struct traffic *t)
{
	struct pieces p;
	int err = 0;

	pieces_of(t, &p);
	for (int i = 0; i < p.n && !err && t->c->operation == RDMA_SEND; i++)
		err = completion_wait(t, t->e->receives, NULL);
	return err;
}

static int check_receives_post(struct traffic *t)
{
	struct pieces p;
	int err = 0;

	pieces_of(t, &p);
	for (int i = 0; i < p.n && !err; i++)
		err = post_receive(t, p.piece[i].at, p.piece[i].bytes);
	return err;
}

/* --- bandwidth and message rate --- */

struct stream {
	uint64_t posted, done, begin_ns, looked_ns;
	bool over;
};

/* Its time is over, or the coordinator or a signal ends it. Looks by time: large messages are slow, small ones many. */
static bool stream_is_over(const struct traffic *t, struct stream *s)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool looks = !s->posted || now_ns - s->looked_ns >= LOOK_NS;

	if (looks)
		s->looked_ns = now_ns;
	return (s->posted >= MESSAGES_LEAST && now_ns - s->begin_ns >= t->c->time_ns) || (looks && traffic_ended(t));
}

/* As many as the queue takes; the last one after the time is over is signalled, and of a send says that it is. */
static int stream_fill(struct traffic *t, struct stream *s)
{
	bool sends = t->c->operation == RDMA_SEND;
	int err = 0;

	while (!err && !s->over && s->posted - s->done < t->c->depth) {
		bool signalled = (s->posted + 1) % SIGNAL_EVERY == 0;

		if (s->posted % CLOCK_EVERY == 0)
			s->over = stream_is_over(t, s);
		s->posted++;
		err = post_send(t, s->over && sends ? VERBS_WR_SEND_IMM : opcode_of(t), 0, 0, t->c->bytes,
				signalled || s->over ? POST_SIGNALLED : 0, s->posted);
	}
	return err;
}

static int stream_from(struct traffic *t)
{
	struct stream s = { .begin_ns = clock_monotonic_ns() };
	uint64_t end_ns;
	int err = 0;

	while (!err && (!s.over || s.done < s.posted)) {
		err = stream_fill(t, &s);
		err = err ? err : completion_wait(t, t->e->sends, &s.done);
	}
	end_ns = clock_monotonic_ns();
	t->result->messages = s.posted;
	if (t->c->measure == RDMA_RATE)
		t->result->value = 1e3 * s.posted / (end_ns - s.begin_ns);
	else
		t->result->value = 8.0 * s.posted * t->c->bytes / (end_ns - s.begin_ns);
	return err;
}

/* Of a send: takes what comes, until one says that it is the last. */
static int stream_to(struct traffic *t)
{
	struct verbs_wc wc = { .wc_flags = 0 };
	int err = 0;

	while (!err && t->c->operation == RDMA_SEND && !(wc.wc_flags & VERBS_WC_WITH_IMM)) {
		err = completion_take(t, t->e->receives, &wc);
		if (!err)
			err = post_receive(t, 0, t->c->bytes);
		t->result->messages++;
	}
	return err;
}

/* --- all --- */

/* Who receives data has poison where they will be: who reads, else who is written or sent to. */
static bool receives_data(const struct traffic *t, enum traffic_role role)
{
	return (t->c->operation == RDMA_READ) == (role == ROLE_FROM);
}

static int memory_prepare(struct traffic *t, enum traffic_role role)
{
	struct endpoint *e = t->e;

	if (t->c->measure == RDMA_LATENCY && t->phase == PHASE_MEASURE)
		memset(e->area, 0, e->bytes);
	else if (receives_data(t, role))
		pattern_poison(e->area, e->bytes, seed_of(t));
	else
		pattern_fill(e->area, e->bytes, seed_of(t));
	if (!area_push(e))
		return 0;
	return traffic_fail(t, -EIO, RDMA_FAILED, "the GPU does not take a copy");
}

int traffic_prepare(struct traffic *t, enum traffic_role role)
{
	int err = memory_prepare(t, role);

	if (err || t->c->operation != RDMA_SEND)
		return err;
	if (t->phase == PHASE_CHECK)
		return role == ROLE_TO ? check_receives_post(t) : 0;
	if (t->c->measure != RDMA_LATENCY && role == ROLE_FROM)
		return 0;
	for (uint32_t i = 0; i < t->e->n_receives && !err; i++)
		err = post_receive(t, 0, t->c->bytes);
	return err;
}

int traffic_from(struct traffic *t)
{
	if (t->phase == PHASE_CHECK)
		return check_from(t);
	return t->c->measure == RDMA_LATENCY ? latency_from(t) : stream_from(t);
}

int traffic_to(struct traffic *t)
{
	if (t->phase == PHASE_CHECK)
		return check_to(t);
	return t->c->measure == RDMA_LATENCY ? latency_to(t) : stream_to(t);
}

void traffic_verify(struct traffic *t, enum traffic_role role)
{
	struct rdma_result *r = t->result;
	struct pieces p;

	if (!receives_data(t, role) || (t->c->measure == RDMA_LATENCY && t->phase == PHASE_MEASURE))
		return;
	if (area_pull(t->e)) {
		traffic_fail(t, -EIO, RDMA_FAILED, "the GPU's memory cannot be read");
		return;
	}
	pieces_of(t, &p);
	r->checked = t->e->bytes;
	r->wrong = pieces_check(&p, t->e->area, t->e->bytes, seed_of(t), &r->wrong_at, &r->want, &r->got);
}
