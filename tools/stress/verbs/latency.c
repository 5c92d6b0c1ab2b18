/* SPDX-License-Identifier: Apache-2.0
 *
 * latency.c - see latency.h. As in perftest each post is signalled, and its completion taken before the answer is
 * waited for.
 */
#include "tools/stress/verbs/latency.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tools/stress/verbs/post.h"

#define FIRST_LEFT_OUT 10
#define SOURCE_AT (AREA_BYTES / 2) /* what is sent lies apart from where the answer comes */

static int receive_again(struct traffic *t)
{
	if (!t->owes_receive)
		return 0;
	t->owes_receive = false;
	return post_receive(t, 0, t->c->bytes);
}

static int post_one(struct traffic *t, int opcode)
{
	int err = post_send(t, opcode, SOURCE_AT, 0, t->c->bytes, POST_SIGNALLED, 0);

	if (!err)
		err = receive_again(t);
	return err ? err : completion_wait(t, t->e->sends, NULL);
}

/* The last byte of a write is its number. */
static int write_one(struct traffic *t, uint8_t number)
{
	t->e->area[SOURCE_AT + t->c->bytes - 1] = number;
	return post_one(t, VERBS_WR_WRITE);
}

static int written_wait(struct traffic *t, uint8_t number)
{
	const volatile uint8_t *byte = &t->e->area[t->c->bytes - 1];
	int err = 0;

	while (*byte != number && !err)
		err = traffic_idle(t);
	t->idle = 0;
	return err;
}

static int received_wait(struct traffic *t)
{
	t->owes_receive = true;
	return completion_wait(t, t->e->receives, NULL);
}

static int ping(struct traffic *t, uint32_t i)
{
	int err;

	switch (t->c->operation) {
	case RDMA_READ: return post_one(t, VERBS_WR_READ);
	case RDMA_SEND: err = post_one(t, VERBS_WR_SEND); return err ? err : received_wait(t);
	default: err = write_one(t, i + 1); return err ? err : written_wait(t, i + 1);
	}
}

static int pong(struct traffic *t, uint32_t i)
{
	int err = t->c->operation == RDMA_SEND ? received_wait(t) : written_wait(t, i + 1);

	if (err)
		return err;
	return t->c->operation == RDMA_SEND ? post_one(t, VERBS_WR_SEND) : write_one(t, i + 1);
}

static int value_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void result_fill(struct traffic *t, uint64_t *ns, uint32_t n)
{
	double us = t->c->operation == RDMA_READ ? 1e-3 : 0.5e-3;
	uint32_t middle = n / 2, late = n * 99 / 100;
	struct rdma_result *r = t->result;

	qsort(ns, n, sizeof(*ns), value_compare);
	r->value = ns[middle] * us;
	r->least = ns[0] * us;
	r->p99 = ns[late] * us;
	r->most = ns[n - 1] * us;
	r->messages = n;
}

int latency_from(struct traffic *t)
{
	uint32_t n = t->c->iterations + FIRST_LEFT_OUT;
	uint64_t *ns = calloc(n, sizeof(*ns)), last_ns = clock_monotonic_ns();
	int err = 0;

	if (!ns)
		abort();
	for (uint32_t i = 0; i < n && !err; i++) {
		uint64_t now_ns;

		err = run_signal ? traffic_fail(t, -ECANCELED, RDMA_STOPPED, "stopped by a signal") : ping(t, i);
		now_ns = clock_monotonic_ns();
		ns[i] = now_ns - last_ns;
		last_ns = now_ns;
	}
	if (!err)
		result_fill(t, ns + FIRST_LEFT_OUT, t->c->iterations);
	free(ns);
	return err;
}

int latency_to(struct traffic *t)
{
	uint32_t n = t->c->iterations + FIRST_LEFT_OUT;
	int err = 0;

	for (uint32_t i = 0; i < n && !err && t->c->operation != RDMA_READ; i++)
		err = pong(t, i);
	return err;
}
