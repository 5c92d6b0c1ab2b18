/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slow_link_rules.c - which shares of the time make one way between two ranks the slow one, whether it is a
 * port's, whose, and since when. Five ranks on a ring, a port each, by hand; way i goes from rank i to the next.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 5
#include "tests/unit/job/hand_job.h"
#include "tests/unit/job/proxy_parts.h"

enum { RANKS = HAND_RANKS };
#define STEP_NS (100 * MSEC)

static struct proxy_part parts[RANKS][1];
static struct port ports[RANKS];
static struct finding_list list;
static int n_ranks;
static void *detector;

static int begin(void **state)
{
	hand_setup(state);
	n_ranks = RANKS;
	memset(ports, 0, sizeof(ports));
	for (int r = 0; r < RANKS; r++) {
		parts[r][0] = sending(8, 4, 4);
		members[r].proxies = (struct proxies){ .n_samples = 1, .n = 1, .parts = parts[r] };
		ports[r] = (struct port){ .node = &node,
					  .device = "mlx5_x",
					  .netdev = "eth0",
					  .pci = "1b:00",
					  .next = r + 1 < RANKS ? &ports[r + 1] : NULL };
		ports[r].id.number = 1 + r;
		ports[r].users = (struct port_users){ .known = true, .n = 1, .pids = { HAND_PID(r) } };
	}
	node.ports = ports;
	list = (struct finding_list){ 0 };
	detector = calloc(1, detector_slow_link.state_bytes);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_slow_link.release(detector);
	free(detector);
	finding_list_free(&list);
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

static void tick(void)
{
	list.n = 0;
	assert_int_equal(detector_slow_link.tick(detector, &m, &list), 0);
}

static const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

/* All samples of all ranks are unchanged since then, or move. */
static void stands_since(uint64_t ns)
{
	for (int r = 0; r < RANKS; r++) {
		members[r].samples.seen_ns = ns ? m.now_ns : 0;
		members[r].samples.since_ns = members[r].proxies.since_ns = ns;
	}
}

static void moment(int k, int n, const int *busy)
{
	m.now_ns += STEP_NS;
	for (int r = 0; r < n_ranks; r++) {
		parts[r][0].peer = (r + 1) % n_ranks;
		parts[r][0].done = k * busy[r] % n + busy[r] >= n ? 3 : 4;
		members[r].proxies.seen_ns = m.now_ns;
	}
}

/* In n samples something was on way i in so many of them; what is found at the last one. */
static const struct finding *seen(int n, const int *busy)
{
	for (int k = 0; k < n; k++) {
		moment(k, n, busy);
		stands_since(k + 1 < n);
		tick();
	}
	return only();
}

#define SEEN(n, ...) seen(n, (const int[RANKS]){ __VA_ARGS__ })

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-6;
}

static void how_slow(void **state)
{
	static const struct {
		int busy[RANKS];
		enum finding_cause cause;
	} cases[] = { { { 20, 0, 0, 0, 0 }, CAUSE_SLOW_PATH },  { { 19, 0, 0, 0, 0 }, CAUSE_NONE },
		      { { 75, 0, 25, 0, 0 }, CAUSE_SLOW_PATH }, { { 75, 0, 26, 0, 0 }, CAUSE_NONE },
		      { { 70, 0, 23, 0, 0 }, CAUSE_SLOW_PATH }, { { 69, 0, 23, 0, 0 }, CAUSE_NONE },
		      { { 66, 0, 11, 0, 0 }, CAUSE_SLOW_PATH }, { { 66, 0, 12, 0, 0 }, CAUSE_NONE },
		      { { 96, 0, 30, 0, 0 }, CAUSE_SLOW_PATH }, { { 96, 0, 31, 0, 0 }, CAUSE_NONE },
		      { { 75, 0, 3, 26, 0 }, CAUSE_NONE },      { { 40, 20, 0, 0, 0 }, CAUSE_SLOW_PORT },
		      { { 40, 19, 0, 0, 0 }, CAUSE_SLOW_PATH }, { { 40, 0, 0, 0, 20 }, CAUSE_SLOW_PORT },
		      { { 40, 20, 0, 0, 20 }, CAUSE_NONE },     { { 0, 0, 0, 0, 0 }, CAUSE_NONE } };

	for (size_t i = 0; i < 16; i++) {
		again(state);
		seen(100, cases[i].busy);
		assert_int_equal(only() ? only()->cause : CAUSE_NONE, cases[i].cause);
	}
}

/* Of three ranks all ways have to do with one of the two: one way at least is as it should be. */
static void of_three_ranks(void **state)
{
	for (int i = 0; i < 3; i++) {
		again(state);
		n_ranks = comm.nranks = comm.n_seen = 3;
		members[2].next_in_comm = NULL;
		SEEN(100, 75, i == 0 ? 25 : 30, i == 1 ? 25 : 30);
		assert_int_equal(!!only(), i < 2);
	}
	again(state);
	n_ranks = comm.nranks = comm.n_seen = 2;
	members[1].next_in_comm = NULL;
	assert_null(SEEN(100, 75, 0));
	again(state);
	comm.n_seen = 4;
	assert_null(SEEN(100, 75, 0, 0, 0, 0));
}

/* Eight samples, and no luck. */
static void how_sure(void **state)
{
	(void)state;
	assert_null(SEEN(7, 7, 0, 0, 0, 0));
	again(state);
	assert_non_null(SEEN(8, 8, 0, 0, 0, 0));
	again(state);
	assert_null(SEEN(20, 7, 0, 0, 0, 0));
	again(state);
	assert_non_null(SEEN(20, 8, 0, 0, 0, 0));
	again(state);
	assert_null(SEEN(10, 5, 4, 0, 0, 0)); /* of a port both ways count */
	again(state);
	assert_non_null(SEEN(14, 7, 6, 0, 0, 0));
}

/* What was reported stays so for less. */
static void what_was_slow(void **state)
{
	static const int less[] = { 16, 13 };

	for (int i = 0; i < 2; i++) {
		again(state);
		assert_non_null(SEEN(100, 25, 0, 0, 0, 0));
		for (int k = 0; k < 130; k++) {
			moment(k, 100, (const int[RANKS]){ less[i] });
			tick();
		}
		assert_int_equal(!!only(), i == 0);
	}
}

static void what_is_said(void **state)
{
	uint64_t first = NOW + STEP_NS * 3, key;
	const struct finding *f = SEEN(100, 25, 0, 4, 0, 0); /* of four the first is over */

	(void)state;
	assert_int_equal(f->kind, FINDING_LINK);
	assert_int_equal(f->cause, CAUSE_SLOW_PATH);
	assert_int_equal(f->n_ranks, 0);
	assert_int_equal(f->comm, comm.hash);
	assert_int_equal(f->peer, -1);
	assert_true(near(f->confidence, 0.7));
	assert_int_equal(f->since_ns, first + STEP_NS);
	assert_true(number_named(f, "sender", -1) == 0 && number_named(f, "receiver", -1) == 1);
	assert_true(near(number_named(f, "busy_percent", -1), 25));
	assert_true(near(number_named(f, "busy_percent_elsewhere", -1), 4));
	assert_string_equal(text_named(f, "device", ""), "mlx5_x");
	assert_true(number_named(f, "port", -1) == 1);
	assert_string_equal(text_named(f, "netdev", ""), "eth0");
	assert_string_equal(text_named(f, "pci", ""), "1b:00");
	assert_string_equal(text_named(f, "far_device", ""), "mlx5_x");
	assert_null(evidence_named(f, "rank_using"));
	assert_non_null(evidence_named(f, "remedy"));
	key = f->key;
	assert_true(key);
	tick(); /* the same as long as it lasts */
	assert_int_equal(only()->key, key);
	ports[0].netdev = ports[0].pci = "";
	tick();
	assert_null(evidence_named(only(), "netdev"));
	assert_null(evidence_named(only(), "pci"));
	again(state);
	f = SEEN(100, 40, 30, 0, 0, 0);
	assert_int_equal(f->cause, CAUSE_SLOW_PORT);
	assert_true(near(f->confidence, 0.8));
	assert_true(number_named(f, "rank_using", -1) == 1);
	assert_string_equal(f->subject.device, "mlx5_x");
	assert_int_equal(f->subject.port, 2);
	assert_true(number_named(f, "port", -1) == 2);
	assert_null(evidence_named(f, "far_device"));
	again(state);
	f = SEEN(100, 40, 0, 0, 0, 30);
	assert_true(number_named(f, "rank_using", -1) == 0);
	assert_true(number_named(f, "port", -1) == 1);
}

/* A job that stands for two seconds is a hang's. */
static void one_that_stands(void **state)
{
	(void)state;
	assert_non_null(SEEN(100, 50, 0, 0, 0, 0));
	stands_since(m.now_ns - 2 * SEC + 1);
	tick();
	assert_non_null(only());
	stands_since(m.now_ns - 2 * SEC);
	tick();
	assert_null(only());
	stands_since(0);
	tick();
	assert_non_null(only());
}

/* A thread that does not look is no slow way. */
static void threads_that_do_not_look(void **state)
{
	for (int end = 0; end < 2; end++)
		for (int i = 0; i < 5; i++) {
			struct task *t = &proxies[end];

			again(state);
			for (int r = 0; r < RANKS; r++) {
				proxies[r].prev_seen_ns = NOW;
				proxies[r].seen_ns = NOW + SEC;
				proxies[r].run_ns = SEC;
				proxies[r].state = TASK_ON_CPU;
			}
			assert_non_null(SEEN(100, 50, 0, 0, 0, 0));
			t->state = i == 0 ? TASK_SLEEP : i == 1 ? TASK_STOPPED : TASK_ON_CPU;
			t->blocked = i == 2;
			procs[end].dead = i == 3;
			t->run_ns = i == 4 ? 0 : SEC;
			t->wait_ns = i == 4 ? SEC : 0;
			tick();
			assert_null(only());
		}
}

/* Without a port of an RDMA device it is TCP's; where it cannot be known who has it open it may be one. */
static void ways_over_tcp(void **state)
{
	(void)state;
	assert_non_null(SEEN(100, 50, 0, 0, 0, 0));
	ports[0].users.n = 0;
	tick();
	assert_null(only());
	ports[4].users.known = false;
	tick();
	assert_non_null(only());
	assert_null(evidence_named(only(), "device"));
	ports[0].users.n = 1;
	ports[3].users.pids[0] = HAND_PID(0); /* two are open: which it is is not known */
	tick();
	assert_null(evidence_named(only(), "device"));
	node.ports = NULL;
	tick();
	assert_null(only());
}

/* --- others' traffic --- */

static void moved(int r, uint64_t bytes)
{
	for (int i = 0; i < 2; i++) {
		struct port_sample *l = &ports[r].samples[i];

		l->now.taken_ns = NOW + i * 2 * SEC;
		l->counters[PORT_SENT_BYTES] = i * bytes / 2;
		l->counters[PORT_RECEIVED_BYTES] = i * bytes / 2;
	}
	ports[r].n_samples = 2;
}

/* Half as much again as any other's, and a megabyte a second. */
static void a_port_that_others_use(void **state)
{
	static const struct {
		uint64_t mine, most;
		bool shared;
	} cases[] = { { 3000000, 2000000, true },
		      { 2999998, 2000000, false },
		      { 2000000, 1000000, true },
		      { 1999998, 1000000, false },
		      { 3000000, 0, false } };

	for (int end = 0; end < 2; end++)
		for (int i = 0; i < 5; i++) {
			again(state);
			moved(end, cases[i].mine);
			moved(1 - end, 9000000); /* the far end's is no measure */
			if (end)
				moved(0, 2000);
			else
				moved(1, 2000);
			moved(2, cases[i].most / 2);
			moved(3, cases[i].most);
			assert_non_null(SEEN(100, 50, 0, 0, 0, 0));
			assert_int_equal(only()->kind, cases[i].shared ? FINDING_OBSERVATION : FINDING_LINK);
			assert_int_equal(only()->cause, cases[i].shared ? CAUSE_SHARED_PORT : CAUSE_SLOW_PATH);
			members[3].gone = true;
			tick();
			if (cases[i].most && only())
				assert_int_equal(only()->kind == FINDING_OBSERVATION, cases[i].mine >= 2000000);
		}
}

/* --- what explains it, and of which communicator --- */

static void what_explains_it(void **state)
{
	for (int end = 0; end < 3; end++) {
		struct finding *f;
		uint64_t key;

		again(state);
		assert_non_null(SEEN(100, 50, 0, 0, 0, 0));
		list.n = 0;
		f = finding_list_add(&list);
		f->kind = FINDING_LINK;
		f->subject = subject_port(0, "mlx5_x", 1 + end, -1, 0);
		finding_identify(f, "link", 0, 0);
		key = f->key;
		assert_int_equal(detector_slow_link.tick(detector, &m, &list), 0);
		assert_int_equal(list.n, 2);
		assert_int_equal(list.items[1].caused_by_key, end < 2 ? key : 0);
	}
}

static void one_at_a_time(void **state)
{
	static struct comm second_comm;
	static struct member second[RANKS], *second_by_rank[RANKS];

	(void)state;
	assert_non_null(SEEN(100, 50, 0, 0, 0, 0));
	second_comm = comm;
	second_comm.hash = 0xb0;
	second_comm.members = second;
	second_comm.by_rank = second_by_rank;
	for (int r = 0; r < RANKS; r++) {
		second[r] = members[r];
		second[r].comm = &second_comm;
		second[r].next_in_comm = r + 1 < RANKS ? &second[r + 1] : NULL;
		second_by_rank[r] = &second[r];
	}
	comm.next = &second_comm;
	for (int k = 0; k < 40; k++) {
		moment(k, 100, (const int[RANKS]){ 50 });
		for (int r = 0; r < RANKS; r++)
			second[r].proxies.seen_ns = m.now_ns;
		tick();
		assert_non_null(only());
		assert_int_equal(only()->comm, 0xa0);
	}
	m.comms = &second_comm; /* the first is gone */
	tick();
	assert_non_null(only());
	assert_int_equal(only()->comm, 0xb0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(how_slow),
		TEST(of_three_ranks),
		TEST(how_sure),
		TEST(what_was_slow),
		TEST(what_is_said),
		TEST(one_that_stands),
		TEST(threads_that_do_not_look),
		TEST(ways_over_tcp),
		TEST(a_port_that_others_use),
		TEST(what_explains_it),
		TEST(one_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
