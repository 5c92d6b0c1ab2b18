/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_outside.c - what samples of a rank's memory show: counters and proxies that move or do not, whole
 * samples and parts of one, communicators that are seen no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"
#include "tests/unit/job/proxy_parts.h"

enum { ADDR = 0x7000, OTHER_ADDR = 0x8000, HASH = 0xa0, OTHER_HASH = 0xb0 };

static struct model *m;
static uint64_t now;

static int setup(void **state)
{
	(void)state;
	m = model_new();
	now = JOB_T0;
	return m ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

static const struct member *member_at(uint64_t addr)
{
	const struct proc *p = model_proc(m, proc_key(0, job_pid(0)));
	const struct member *mb = p ? p->members : NULL;

	while (mb && mb->addr != addr)
		mb = mb->next_in_proc;
	return mb;
}

/* What the session says of itself holds; what it leaves open is as at first. */
static void limits_of_a_session(void **state)
{
	struct event e = { .kind = EV_START };
	uint64_t hang_ns = m->hang_floor_ns, disk_ns = m->dstate_limit_ns, busy_ns = m->busy_limit_ns;

	(void)state;
	give(e);
	assert_true(m->hang_floor_ns == hang_ns && m->dstate_limit_ns == disk_ns && m->busy_limit_ns == busy_ns);
	assert_true(hang_ns && disk_ns && busy_ns);
	e.start.hang_floor_ns = 3 * SEC;
	e.start.dstate_limit_ns = 4 * SEC;
	e.start.busy_limit_ns = 5 * SEC;
	e.start.realtime_offset_ns = 7;
	give(e);
	assert_int_equal(m->hang_floor_ns, 3 * SEC);
	assert_int_equal(m->dstate_limit_ns, 4 * SEC);
	assert_int_equal(m->busy_limit_ns, 5 * SEC);
	assert_int_equal(m->start_realtime_ns, now + 7);
	e = (struct event){ .kind = EV_LIMITS, .start.busy_limit_ns = 9 * SEC }; /* later: one of them, and no start */
	give(e);
	assert_int_equal(m->hang_floor_ns, 3 * SEC);
	assert_int_equal(m->dstate_limit_ns, 4 * SEC);
	assert_int_equal(m->busy_limit_ns, 9 * SEC);
	assert_int_equal(m->start_realtime_ns, now + 7);
}

/* Recordings of before do not say what they are of: a limit below a second was an autopsy's. New limits make no other.
 */
static void who_began_it(void **state)
{
	static const struct {
		bool by_autopsy, by_session;
		uint64_t floor_ns;
		bool is;
	} cases[] = {
		{ true, false, 5 * SEC, true },  { true, false, 250 * MSEC, true }, { false, true, 250 * MSEC, false },
		{ false, true, 5 * SEC, false }, { false, false, SEC - 1, true },   { false, false, SEC, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct event e = { .kind = EV_START };

		e.start.by_autopsy = cases[i].by_autopsy;
		e.start.by_session = cases[i].by_session;
		e.start.hang_floor_ns = cases[i].floor_ns;
		give(e);
		if (model_is_autopsy(m) != cases[i].is)
			fail_msg("case %zu", i);
		give((struct event){ .kind = EV_LIMITS, .start.hang_floor_ns = 500 * MSEC });
		assert_int_equal(model_is_autopsy(m), cases[i].by_autopsy || !cases[i].by_session);
	}
}

/* --- counters --- */

static void sample_of(uint64_t addr, uint64_t hash, uint64_t n, bool valid)
{
	struct event e = job_event(EV_COMM_SAMPLE, 0, 0);

	e.comm_sample.comm = addr;
	e.comm_sample.hash = hash;
	e.comm_sample.nranks = 2;
	e.comm_sample.device = 3;
	e.comm_sample.n_counters = valid ? OP_KINDS_COUNTED : 0;
	e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

static const struct samples *samples(uint64_t n)
{
	now += SEC;
	sample_of(ADDR, HASH, n, true);
	return &member_at(ADDR)->samples;
}

static void counters_move_between_two_samples(void **state)
{
	const struct samples *s = samples(5);

	(void)state;
	assert_int_equal(s->n, 1);
	assert_false(s->moved); /* what is seen first did not move */
	assert_int_equal(s->since_ns, JOB_T0 + SEC);
	assert_int_equal(s->after_ns, 0);
	s = samples(7);
	assert_true(s->moved && s->counted);
	assert_int_equal(s->after_ns, JOB_T0 + SEC);
	assert_int_equal(s->since_ns, JOB_T0 + 2 * SEC);
	assert_int_equal(s->seen_ns, s->since_ns);
	assert_int_equal(s->stood_ns, 0);
	assert_int_equal(s->n, 2);
}

static void counters_that_stood_are_remembered(void **state)
{
	const struct samples *s;

	(void)state;
	samples(5);
	s = samples(5);
	assert_false(s->moved);
	assert_int_equal(s->since_ns, JOB_T0 + SEC);
	assert_int_equal(s->seen_ns, JOB_T0 + 2 * SEC);
	s = samples(6);
	assert_true(s->moved);
	assert_int_equal(s->stood_ns, JOB_T0 + SEC);
	assert_int_equal(s->stood_seq, 5);
	assert_int_equal(s->after_ns, JOB_T0 + 2 * SEC);
}

/* This NCCL keeps none, or they could not be read this time. */
static void counters_that_become_readable_are_others(void **state)
{
	(void)state;
	now += SEC;
	sample_of(ADDR, HASH, 0, false);
	assert_false(member_at(ADDR)->samples.counted);
	now += SEC;
	sample_of(ADDR, HASH, 0, true);
	assert_int_equal(member_at(ADDR)->samples.since_ns, now);
	assert_true(member_at(ADDR)->samples.counted);
}

static void a_sample_says_what_state_it_is_in(void **state)
{
	struct event e = job_event(EV_COMM_SAMPLE, 0, 0);

	(void)state;
	e.comm_sample.comm = ADDR;
	e.comm_sample.hash = HASH;
	e.comm_sample.device = 3;
	e.comm_sample.abort = 1;
	e.comm_sample.async_result = 6;
	e.comm_sample.init_state = 7;
	give(e);
	assert_true(member_at(ADDR)->samples.aborted);
	assert_int_equal(member_at(ADDR)->samples.async_result, 6);
	assert_int_equal(member_at(ADDR)->samples.init_state, 7);
	assert_int_equal(member_at(ADDR)->device, 3);
}

/* One was destroyed and another made at the same address between two samples. */
static void another_communicator_at_that_address(void **state)
{
	const struct member *mb;

	(void)state;
	samples(5);
	now += SEC;
	sample_of(ADDR, OTHER_HASH, 1, true);
	mb = member_at(ADDR);
	assert_int_equal(mb->comm->hash, OTHER_HASH);
	assert_int_equal(mb->samples.n, 1);
	assert_false(mb->gone);
}

/* A page of memory may be absent for a sample or two; what several did not show is no more. */
static void one_that_is_seen_no_more_is_forgotten(void **state)
{
	const struct member *mb;

	(void)state;
	samples(5);
	mb = member_at(ADDR);
	for (int i = 0; i < 3; i++) {
		now += SEC;
		sample_of(OTHER_ADDR, OTHER_HASH, i, true);
	}
	samples(5);
	for (int i = 0; i < 4; i++) {
		now += SEC;
		sample_of(OTHER_ADDR, OTHER_HASH, 9 + i, true);
		assert_false(mb->gone); /* they count from the last that showed it */
	}
	now += SEC;
	sample_of(OTHER_ADDR, OTHER_HASH, 20, true);
	assert_true(mb->gone);
	assert_false(member_at(OTHER_ADDR)->gone);
}

/* Of a communicator that is seen again after it was given up, the first sample counts. */
static void one_that_is_seen_again_is_a_member_anew(void **state)
{
	(void)state;
	samples(5);
	for (int i = 0; i < 4; i++) {
		now += SEC;
		sample_of(OTHER_ADDR, OTHER_HASH, i, true);
	}
	assert_int_equal(samples(7)->n, 1);
	assert_false(member_at(ADDR)->gone);
}

/* Its calls are seen from the first: they say how far it is, whatever its counters show. */
static void of_one_that_calls_no_number_is_changed(void **state)
{
	struct event e = job_call_event(0, OP_ALLREDUCE, ADDR, 1, 10);

	(void)state;
	give(job_proc_event(0, 2, 0));
	give(job_ready_event(0, 2, ADDR, HASH));
	samples(9); /* before its first call */
	assert_int_equal(member_at(ADDR)->next_seq[SEQ_COLL], 0);
	for (int i = 0; i < 3; i++) {
		now += MSEC;
		give(e);
	}
	samples(12);
	assert_int_equal(member_at(ADDR)->next_seq[SEQ_COLL], 3);
	assert_int_equal(member_at(ADDR)->entered_seq[SEQ_COLL], 3);
	assert_int_equal(member_at(ADDR)->samples.n, 2);
}

static void vanished(uint64_t hash)
{
	struct event e = job_event(EV_COMM_VANISHED, 0, 0);

	e.comm_seen.addr = ADDR;
	e.comm_seen.hash = hash;
	give(e);
}

static void one_that_vanished_is_forgotten(void **state)
{
	const struct member *mb;

	(void)state;
	vanished(HASH); /* never seen */
	samples(5);
	mb = member_at(ADDR);
	vanished(OTHER_HASH); /* that was at this address before */
	assert_false(mb->gone);
	vanished(HASH);
	assert_true(mb->gone);
}

/* --- proxies --- */

static void proxy_begin(uint32_t n, bool moving, uint32_t thread)
{
	struct event e = job_event(EV_PROXY, 0, 0);

	now += SEC;
	e.proxy.comm = ADDR;
	e.proxy.flags = PROXY_SAMPLE | (moving ? PROXY_MOVING : 0);
	e.proxy.n = n;
	e.proxy.thread = thread;
	give(e);
}

static void proxy_part_give(struct proxy_part p)
{
	struct event e = job_event(EV_PROXY, 0, 0);

	e.proxy = p;
	e.proxy.comm = ADDR;
	give(e);
}

/* A whole sample of one part each way. */
static const struct proxies *proxy(struct proxy_part one)
{
	proxy_begin(2, false, 0);
	proxy_part_give(receiving(8, 4, 4, 2));
	proxy_part_give(one);
	return &member_at(ADDR)->proxies;
}

static int proxy_setup(void **state)
{
	if (setup(state))
		return -1;
	samples(5);
	return 0;
}

static void a_proxy_stands_still_while_all_is_the_same(void **state)
{
	const struct proxies *p = proxy(sending(8, 4, 2));
	uint64_t first_ns = now;

	(void)state;
	assert_false(p->moved);
	p = proxy(sending(8, 4, 2));
	assert_false(p->moved);
	assert_int_equal(p->n_samples, 2);
	assert_int_equal(p->since_ns, first_ns);
	assert_int_equal(p->seen_ns, now);
	assert_int_equal(p->n, 2);
	assert_int_equal(p->parts[0].received, 4);
	assert_true(proxy_part_sends(&p->parts[1]));
}

/* Each number of it is a sign of life. */
static void a_proxy_moves_if_anything_differs(void **state)
{
	const struct proxy_part was = { .op_count = 40,
					.base = 1,
					.posted = 8,
					.received = 3,
					.flushed = 3,
					.transmitted = 4,
					.done = 2,
					.nsteps = 64,
					.channel = 5,
					.peer = 1,
					.flags = PROXY_SEND,
					.transport = 2,
					.coll = 4,
					.algorithm = 1,
					.protocol = 2,
					.state = 2 };
	struct proxy_part now_is[13];

	(void)state;
	for (size_t i = 0; i < 13; i++)
		now_is[i] = was;
	now_is[0].op_count++;
	now_is[1].base++;
	now_is[2].posted++;
	now_is[3].received++;
	now_is[4].flushed++;
	now_is[5].transmitted++;
	now_is[6].done++;
	now_is[7].nsteps++;
	now_is[8].channel++;
	now_is[9].peer++;
	now_is[10].flags = 0;
	now_is[11].state = 1;
	now_is[12].transport = 1;
	for (size_t i = 0; i < 13; i++) {
		const struct proxies *p = proxy(was);

		proxy(was);
		assert_int_equal(p->since_ns, now - SEC);
		proxy(now_is[i]);
		assert_int_equal(p->since_ns, now);
		assert_true(p->moved);
	}
}

static void a_proxy_with_more_parts_moves(void **state)
{
	const struct proxies *p;

	(void)state;
	proxy(sending(8, 4, 2));
	proxy_begin(1, false, 0);
	proxy_part_give(receiving(8, 4, 4, 2));
	p = &member_at(ADDR)->proxies;
	assert_true(p->moved && p->n == 1 && p->since_ns == now);
	proxy_begin(0, false, 0); /* nothing is under way: a whole sample already */
	assert_true(p->n == 0 && p->n_samples == 3 && p->since_ns == now);
	proxy_begin(0, false, 0);
	assert_true(p->n_samples == 4 && p->since_ns == now - SEC);
}

/* It went on while it was read, so nothing could be read whole. */
static void a_proxy_that_was_caught_moving_moves(void **state)
{
	const struct proxies *p;

	(void)state;
	proxy_begin(0, true, 0);
	p = &member_at(ADDR)->proxies;
	assert_true(p->moved && p->since_ns == now);
	proxy_begin(0, true, 0);
	assert_int_equal(p->since_ns, now);
}

static void parts_beyond_what_was_announced_do_not_count(void **state)
{
	const struct proxies *p = proxy(sending(8, 4, 2));

	(void)state;
	proxy_part_give(sending(9, 4, 2));
	assert_true(p->n == 2 && p->n_samples == 1 && p->parts[1].posted == 8);
	proxy_begin(2, false, 0); /* half a sample, and the next one begins */
	proxy_part_give(receiving(9, 4, 4, 2));
	assert_true(p->n_samples == 1 && p->parts[0].posted == 8);
	proxy(sending(8, 4, 2));
	assert_int_equal(p->since_ns, now - 2 * SEC);
}

static void the_progress_thread_stays_known(void **state)
{
	(void)state;
	proxy_begin(0, false, 77);
	assert_int_equal(member_at(ADDR)->proxies.thread, 77);
	proxy_begin(0, false, 0); /* not told again */
	assert_int_equal(member_at(ADDR)->proxies.thread, 77);
}

static void of_one_that_is_gone_nothing_is_kept(void **state)
{
	(void)state;
	vanished(HASH);
	proxy_begin(0, true, 0);
	assert_int_equal(m->procs->members->proxies.n_samples, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define PROXY(f) cmocka_unit_test_setup_teardown(f, proxy_setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(limits_of_a_session),
		TEST(who_began_it),
		TEST(counters_move_between_two_samples),
		TEST(counters_that_stood_are_remembered),
		TEST(counters_that_become_readable_are_others),
		TEST(a_sample_says_what_state_it_is_in),
		TEST(another_communicator_at_that_address),
		TEST(one_that_is_seen_no_more_is_forgotten),
		TEST(one_that_is_seen_again_is_a_member_anew),
		TEST(one_that_vanished_is_forgotten),
		TEST(of_one_that_calls_no_number_is_changed),
		PROXY(a_proxy_stands_still_while_all_is_the_same),
		PROXY(a_proxy_moves_if_anything_differs),
		PROXY(a_proxy_with_more_parts_moves),
		PROXY(a_proxy_that_was_caught_moving_moves),
		PROXY(parts_beyond_what_was_announced_do_not_count),
		PROXY(the_progress_thread_stays_known),
		PROXY(of_one_that_is_gone_nothing_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
