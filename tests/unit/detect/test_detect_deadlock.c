/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_deadlock.c - two communicators in opposite order, and transfers that one side leaves out: wherever the
 * hosts are, however the ranks are laid out; and what looks like it and is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

#define COMM 0xabc

static const char *text_of(const struct finding *f, const char *name)
{
	return text_named(f, name, "");
}

static double number_of(const struct finding *f, const char *name)
{
	return number_named(f, name, -1);
}

static bool names(const struct finding *f, int rank)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (f->ranks[i] == rank)
			return true;
	return false;
}

static struct job_opts drawn(uint64_t *rng, const int (*layouts)[3], int n, enum fault_kind kind)
{
	const int *l = layouts[random_next(rng) % n];
	struct job_opts o = job_usual(l[0], l[1], l[2], random_next(rng));

	o.run_ahead = random_next(rng) % 2;
	o.no_watchdog = random_next(rng) % 3 == 0;
	o.faults[0] = (struct fault){ kind, random_next(rng) % o.ranks, 8 + random_next(rng) % 8, 0, 0, 0 };
	return o;
}

static void outcome_print(const struct job_opts *o, const struct verdicts *v)
{
	printf("tp=%d dp=%d pp=%d seed=%llu rank=%d step=%d ahead=%d block=%d nowatch=%d attach=%d\n", o->tp, o->dp,
	       o->pp, (unsigned long long)o->seed, o->faults[0].rank, o->faults[0].step, o->run_ahead, o->block_each,
	       o->no_watchdog, o->attach_step);
	verdicts_print(v);
}

/* --- opposite order --- */

static bool is_deadlock(const struct job *j, const struct seen_finding *s)
{
	const struct job_opts *o = &j->o;
	int r = o->faults[0].rank, stage = o->tp * o->dp, n = 0;

	if (!s || s->f.class != HANG_DEADLOCK || s->f.n_ranks != o->dp || number_of(&s->f, "n_comms") != 2)
		return false;
	for (int k = 0; k < o->dp; k++) /* its data-parallel group */
		n += names(&s->f, r / stage * stage + k * o->tp + r % o->tp);
	return n == o->dp && strstr(text_of(&s->f, "comms"), "0x00000000c0000000") &&
	       strchr(text_of(&s->f, "comms"), ',') && (o->dp == 2 || atoi(text_of(&s->f, "other_order_ranks")) == r) &&
	       *text_of(&s->f, "cycle") && s->open_ns - s->f.since_ns <= 5 * SEC;
}

static void expect_deadlock(const struct job_opts *o)
{
	struct job *j = job_new(o);
	struct verdicts v;
	bool ok;

	job_play(j, &v, NULL, NULL);
	ok = is_deadlock(j, verdict_of(&v, FINDING_HANG)) && v.n == 1;
	if (!ok)
		outcome_print(o, &v);
	assert_true(ok);
	verdicts_free(&v);
	job_free(j);
}

static const int dp_layouts[][3] = { { 1, 2, 1 }, { 1, 4, 1 }, { 2, 4, 1 }, { 2, 2, 2 }, { 1, 8, 1 }, { 1, 2, 4 } };

/* All have entered both, and only the order on the streams tells. */
static void test_order_behind_the_hosts_back(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct job_opts o = drawn(&rng, dp_layouts, 6, FAULT_ORDER);

		o.no_watchdog = false; /* or the older operations would be open as well, for all that is known */
		expect_deadlock(&o);
	}
}

/* Each host waits in its first operation and never calls the second. */
static void test_order_with_the_hosts_held(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct job_opts o = drawn(&rng, dp_layouts + 1, 4, FAULT_ORDER);

		o.block_each = true;
		expect_deadlock(&o);
	}
}

static void test_order_seen_from_a_late_attach(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = drawn(&rng, dp_layouts + 1, 4, FAULT_ORDER);

		o.block_each = i % 2;
		o.no_watchdog = o.block_each && o.no_watchdog;
		o.steps = 30;
		o.attach_step = 4;
		o.faults[0].step = 20;
		expect_deadlock(&o);
	}
}

/* --- a transfer left out --- */

static const int pp_layouts[][3] = { { 1, 1, 2 }, { 1, 2, 2 }, { 2, 2, 2 }, { 1, 1, 4 }, { 1, 2, 4 } };

static bool is_unmatched(const struct job *j, const struct seen_finding *s, bool send)
{
	int stage = j->o.tp * j->o.dp;

	return s && s->f.class == HANG_P2P_UNMATCHED && s->f.n_ranks == 1 && s->f.ranks[0] == j->o.faults[0].rank &&
	       s->f.op == (send ? OP_SEND : OP_RECV) && s->f.peer >= 0 && abs(s->f.peer - s->f.ranks[0]) == stage &&
	       number_of(&s->f, send ? "sender" : "receiver") == s->f.ranks[0] &&
	       number_of(&s->f, send ? "receiver" : "sender") == s->f.peer && s->open_ns - s->f.since_ns <= 5 * SEC;
}

static void expect_unmatched(const struct job_opts *o, bool send)
{
	struct job *j = job_new(o);
	struct verdicts v;
	bool ok;

	job_play(j, &v, NULL, NULL);
	ok = is_unmatched(j, verdict_of(&v, FINDING_HANG), send) && v.n == 1;
	if (!ok)
		outcome_print(o, &v);
	assert_true(ok);
	verdicts_free(&v);
	job_free(j);
}

static void test_a_transfer_left_out(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 60; i++) {
		struct job_opts o = drawn(&rng, pp_layouts, 5, i % 2 ? FAULT_SKIP_SEND : FAULT_SKIP_RECV);

		o.no_watchdog = false; /* a small Send may have gone: nobody would know */
		expect_unmatched(&o, i % 2);
	}
}

static void test_a_transfer_left_out_met_late(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = drawn(&rng, pp_layouts, 5, i % 2 ? FAULT_SKIP_SEND : FAULT_SKIP_RECV);

		o.no_watchdog = false;
		o.steps = 30;
		o.attach_step = 4;
		o.faults[0].step = 20;
		expect_unmatched(&o, i % 2);
	}
}

/* --- by hand: two ranks, one communicator --- */

struct hand {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now;
};

static void give(struct hand *h, struct event e)
{
	e.ts_ns = h->now += MSEC;
	assert_int_equal(model_apply(h->m, &e), 0);
}

static struct hand hand_new(void)
{
	struct hand h = { model_new(), detectors_new(), { 0 }, JOB_T0 };

	for (int r = 0; r < 2; r++) {
		give(&h, job_proc_event(r, 2, 0));
		give(&h, job_ready_event(r, 2, 7, COMM));
	}
	return h;
}

static void hand_free(struct hand *h)
{
	finding_list_free(&h->list);
	detectors_free(h->d);
	model_free(h->m);
}

static void call(struct hand *h, int rank, enum op_kind kind, uint64_t stream, uint64_t count)
{
	struct event e = job_call_event(rank, kind, 7, stream, count);

	e.op.dtype = 9;
	e.op.peer = op_kind_p2p(kind) ? 1 - rank : -1;
	give(h, e);
}

static void wait_gpu(struct hand *h, int rank, uint64_t stream)
{
	give(h, job_wait_event(rank, stream));
}

static void ticks(struct hand *h, double seconds)
{
	for (int i = 0; i < seconds * 4; i++) {
		struct event e = { .kind = EV_TICK };

		h->now += 249 * MSEC;
		give(h, e);
		assert_int_equal(detectors_tick(h->d, h->m, &h->list), 0);
	}
}

/* Each sends first and would receive then: of two alike nobody is to blame. */
static void test_both_send_first(void **state)
{
	struct hand h = hand_new();

	(void)state;
	for (int r = 0; r < 2; r++) {
		call(&h, r, OP_SEND, 5, 1 << 24);
		wait_gpu(&h, r, 5);
	}
	ticks(&h, 4.5);
	assert_int_equal(h.list.n, 1);
	assert_int_equal(h.list.items[0].class, HANG_DEADLOCK);
	assert_int_equal(h.list.items[0].n_ranks, 2);
	assert_true(number_of(&h.list.items[0], "n_comms") == 1);
	hand_free(&h);
}

static void wait_over(struct hand *h, int rank, uint64_t stream)
{
	struct event e = job_event(EV_SYNC_END, rank, 0);

	e.sync.handle = stream;
	e.sync.begin_ns = h->now;
	give(h, e);
}

/* Both receive; but one of them used to send first. */
static void test_its_past_shows_who_left_it_out(void **state)
{
	struct hand h = hand_new();

	(void)state;
	for (int step = 0; step < 12; step++)
		for (int half = 0; half < 2; half++)
			for (int r = 0; r < 2; r++) {
				call(&h, r, r == half ? OP_SEND : OP_RECV, 5, 1 << 24);
				wait_gpu(&h, r, 5);
				wait_over(&h, r, 5);
			}
	for (int r = 0; r < 2; r++) {
		call(&h, r, OP_RECV, 5, 1 << 24);
		wait_gpu(&h, r, 5);
	}
	ticks(&h, 4.5);
	assert_int_equal(h.list.n, 1);
	assert_int_equal(h.list.items[0].class, HANG_P2P_UNMATCHED);
	assert_int_equal(h.list.items[0].n_ranks, 1);
	assert_int_equal(h.list.items[0].ranks[0], 0);
	assert_true(h.list.items[0].op == OP_SEND && h.list.items[0].peer == 1);
	hand_free(&h);
}

/* Sends that fit a buffer are over at once; what the hosts wait for then is their own. */
static void test_small_sends_first_are_fine(void **state)
{
	struct hand h = hand_new();

	(void)state;
	for (int r = 0; r < 2; r++) {
		call(&h, r, OP_SEND, 5, 64);
		wait_gpu(&h, r, 5);
	}
	ticks(&h, 20);
	assert_int_equal(h.list.n, 0);
	hand_free(&h);
}

/* Opposite order on streams that have nothing to do with each other blocks nobody. */
static void test_streams_apart_have_no_order(void **state)
{
	struct hand h = hand_new();

	(void)state;
	for (int r = 0; r < 2; r++) {
		call(&h, r, r ? OP_ALLTOALL : OP_ALLREDUCE, r ? 6 : 5, 100);
		call(&h, r, r ? OP_ALLREDUCE : OP_ALLTOALL, r ? 5 : 6, 100);
		wait_gpu(&h, r, r ? 6 : 5);
	}
	ticks(&h, 9);
	assert_int_equal(h.list.n, 0);
	hand_free(&h);
}

/* The same on one stream does. */
static void test_one_stream_has_an_order(void **state)
{
	struct hand h = hand_new();

	(void)state;
	for (int r = 0; r < 2; r++) {
		call(&h, r, r ? OP_ALLTOALL : OP_ALLREDUCE, 5, 100);
		call(&h, r, r ? OP_ALLREDUCE : OP_ALLTOALL, 5, 100);
		wait_gpu(&h, r, 5);
	}
	ticks(&h, 4.5);
	assert_int_equal(h.list.n, 1);
	assert_int_equal(h.list.items[0].class, HANG_DEADLOCK);
	hand_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_behind_the_hosts_back),
		cmocka_unit_test(test_order_with_the_hosts_held),
		cmocka_unit_test(test_order_seen_from_a_late_attach),
		cmocka_unit_test(test_a_transfer_left_out),
		cmocka_unit_test(test_a_transfer_left_out_met_late),
		cmocka_unit_test(test_both_send_first),
		cmocka_unit_test(test_its_past_shows_who_left_it_out),
		cmocka_unit_test(test_small_sends_first_are_fine),
		cmocka_unit_test(test_streams_apart_have_no_order),
		cmocka_unit_test(test_one_stream_has_an_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
