/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_slow_link.c - detector slow_link: a rank's port that is slow both ways, and a link between two that is
 * slow one way, are reported within some seconds, with the device where it is known, and name no rank. All ways slow
 * alike, a busy network, a job that does not move, a proxy without a CPU, two ranks: nothing. A port that others use,
 * too, is an observation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/transfer/link_cause.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/proxy_job.h"

static double busy[RANKS];     /* share of the looks at which what rank r sends is on its way */
static double share_of[RANKS]; /* of the bytes that a port usually moves */
static uint64_t counters[RANKS][PORT_COUNTERS];
static unsigned int nth;
static bool by_chance; /* which looks these are, else spread evenly */
static uint64_t chance;

static void port_new(int r)
{
	static const char *const devices[RANKS] = { "rxe0", "rxe1", "rxe2", "rxe3" };
	const uint32_t pids[] = { job_pid(r) };
	struct event e = { .kind = EV_PORT };

	e.port.index = r;
	e.port.id.number = 1;
	e.port.device = devices[r];
	e.port.netdev = e.port.pci = "";
	e.port.kind = "rxe";
	e.port.layer = "Ethernet";
	give(e);
	e = (struct event){ .kind = EV_PORT_USERS };
	e.port.index = r;
	e.port.users.known = true;
	e.port.users.n = 1;
	memcpy(e.port.users.pids, pids, e.port.users.n * sizeof(pids[0]));
	give(e);
}

static void port_sample_give(int r)
{
	struct event e = { .kind = EV_PORT_SAMPLE };

	counters[r][PORT_SENT_BYTES] += 20000000 * share_of[r];
	counters[r][PORT_RECEIVED_BYTES] += 20000000 * share_of[r];
	e.port.index = r;
	e.port.sample.taken_ns = now;
	e.port.sample.state = PORT_STATE_ACTIVE;
	e.port.sample.rate_mbps = e.port.sample.lanes = PORT_NO_VALUE;
	e.port.sample.n_counters = PORT_COUNTERS;
	e.port.counters = counters[r];
	give(e);
}

static int begin(void **state)
{
	start(state);
	for (int r = 0; r < RANKS; r++) {
		busy[r] = 0.1;
		share_of[r] = 1;
	}
	nth = 0;
	by_chance = false;
	chance = 1;
	memset(counters, 0, sizeof(counters));
	return 0;
}

/* Knuth's linear congruential generator. */
static double chance_next(void)
{
	chance = chance * 6364136223846793005ull + 1442695040888963407ull;
	return (chance >> 11) * 0x1p-53;
}

/* Each share is spread evenly, at other looks on each rank; the job goes on. */
static bool is_on_its_way(int r)
{
	unsigned int at = nth + 3 * r;

	if (by_chance)
		return chance_next() < busy[r];

	return (unsigned int)((at + 1) * busy[r]) > (unsigned int)(at * busy[r]);
}

static void go(double seconds)
{
	for (int i = 0; i < seconds / (sample_ns * 1e-9); i++, nth++) {
		for (int r = 0; r < RANKS; r++) {
			ranks[r].n_entered++;
			ranks[r].send[0] = sending(32, 24, is_on_its_way(r) ? 20 : 24);
			port_sample_give(r);
		}
		look();
	}
}

static void ports_new(void)
{
	for (int r = 0; r < RANKS; r++)
		port_new(r);
}

static const struct evidence *evidence(const struct finding *f, const char *name)
{
	return evidence_named(f, name);
}

static const struct finding *only(enum finding_kind kind, const char *cause)
{
	const struct finding *found = NULL;

	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == FINDING_LINK || list.items[i].kind == FINDING_OBSERVATION) {
			assert_null(found);
			found = &list.items[i];
		}
	assert_non_null(found);
	assert_int_equal(found->kind, kind);
	assert_string_equal(cause_name(found->cause), cause);
	assert_int_equal(found->n_ranks, 0);
	return found;
}

static void silent(double seconds)
{
	for (int i = 0; i < seconds / (sample_ns * 1e-9); i++) {
		go(sample_ns * 1e-9);
		for (size_t k = 0; k < list.n; k++)
			printf("%s %s\n", finding_kind_name(list.items[k].kind), cause_name(list.items[k].cause));
		assert_int_equal(list.n, 0);
	}
}

/* Both what it sends and the acknowledgements of what it receives are late. */
static void test_port(void **state)
{
	const struct finding *f;

	(void)state;
	ports_new();
	silent(20);
	busy[2] = 0.9;
	busy[1] = 0.8;
	go(14);
	f = only(FINDING_LINK, "slow_port");
	assert_string_equal(evidence(f, "device")->text, "rxe2");
	assert_int_equal(evidence(f, "rank_using")->number, 2);
	assert_true(evidence(f, "busy_percent")->number > 70 && evidence(f, "busy_percent_elsewhere")->number < 20);
	assert_int_not_equal(link_cause_key(m, &list, model_proc(m, job_pid(2))), 0);
	assert_int_equal(link_cause_key(m, &list, model_proc(m, job_pid(0))), 0);
	busy[1] = busy[2] = 0.1;
	go(12);
	silent(20);
}

static void test_path(void **state)
{
	const struct finding *f;

	(void)state;
	ports_new();
	silent(20);
	busy[3] = 0.95;
	go(14);
	f = only(FINDING_LINK, "slow_path");
	assert_string_equal(evidence(f, "device")->text, "rxe3");
	assert_string_equal(evidence(f, "far_device")->text, "rxe0");
	assert_int_equal(evidence(f, "sender")->number, 3);
	assert_int_equal(evidence(f, "receiver")->number, 0);
}

/* A job that computes most of the time: little is under way even on the slow port, next to nothing elsewhere. */
static void test_mostly_computing(void **state)
{
	const struct finding *f;

	(void)state;
	ports_new();
	by_chance = true;
	sample_ns = 250 * MSEC;
	for (int r = 0; r < RANKS; r++)
		busy[r] = 0.01;
	silent(30);
	busy[2] = 0.35;
	busy[1] = 0.3;
	go(12);
	f = only(FINDING_LINK, "slow_port");
	assert_string_equal(evidence(f, "device")->text, "rxe2");
	assert_true(evidence(f, "busy_percent")->number > 20 && evidence(f, "busy_percent_elsewhere")->number < 5);
	busy[1] = 0.01;
	go(14);
	only(FINDING_LINK, "slow_path");
	busy[2] = 0.01;
	go(14);
	silent(30);
}

/* Hours of a network that is as it should be. */
static void test_chance(void **state)
{
	static const double shares[] = { 0.02, 0.05, 0.1, 0.2, 0.3, 0.5 };

	(void)state;
	ports_new();
	by_chance = true;
	sample_ns = 250 * MSEC;
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		for (int r = 0; r < RANKS; r++)
			busy[r] = shares[i];
		silent(1800);
	}
	busy[0] = 0.18; /* half as much again as the others */
	busy[1] = busy[2] = busy[3] = 0.12;
	go(12);
	silent(1800);
}

/* Which of its ports it uses is not known: the pair is reported. */
static void test_path_of_many_ports(void **state)
{
	const struct finding *f;

	(void)state;
	ports_new();
	for (uint32_t i = 0; i < RANKS; i++) { /* as NCCL opens all */
		const uint32_t pids[] = { job_pid(0), job_pid(1), job_pid(2), job_pid(3) };
		struct event e = { .kind = EV_PORT_USERS };

		e.port.index = i;
		e.port.users.known = true;
		e.port.users.n = RANKS;
		memcpy(e.port.users.pids, pids, e.port.users.n * sizeof(pids[0]));
		give(e);
	}
	busy[0] = 0.95;
	go(14);
	f = only(FINDING_LINK, "slow_path");
	assert_null(evidence(f, "device"));
	assert_int_equal(evidence(f, "sender")->number, 0);
	assert_int_equal(evidence(f, "receiver")->number, 1);
	for (int r = 0; r < RANKS; r++) { /* until the queue pairs say it */
		static const char *const devices[RANKS] = { "rxe0", "rxe1", "rxe2", "rxe3" };
		struct event e = job_event(EV_QP, r, 0);

		e.qp.device = devices[r];
		e.qp.qpn = 17;
		e.qp.now.change = QP_CHANGED;
		e.qp.now.state = QP_RTS;
		e.qp.now.port = 1;
		e.qp.now.dest_qpn = 18;
		give(e);
	}
	go(1);
	f = only(FINDING_LINK, "slow_path");
	assert_string_equal(evidence(f, "device")->text, "rxe0");
	assert_string_equal(evidence(f, "far_device")->text, "rxe1");
}

/* No RDMA: it is TCP's to say. */
static void test_no_ports(void **state)
{
	(void)state;
	busy[0] = 0.95;
	for (int i = 0; i < 60; i++, nth++) {
		for (int r = 0; r < RANKS; r++) {
			ranks[r].n_entered++;
			ranks[r].send[0] = sending(32, 24, is_on_its_way(r) ? 20 : 24);
		}
		look();
		assert_int_equal(list.n, 0);
	}
}

static void test_all_alike(void **state)
{
	static const double shares[] = { 0.2, 0.5, 0.95, 1 };

	(void)state;
	ports_new();
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		for (int r = 0; r < RANKS; r++)
			busy[r] = shares[i];
		silent(30);
	}
	busy[0] = busy[2] = 0.95; /* a shared way that two pairs go: no rank's port, no one link */
	busy[1] = busy[3] = 0.1;
	go(12);
	silent(30);
	busy[0] = 0.6; /* slower than others, and not by far */
	busy[1] = busy[2] = busy[3] = 0.4;
	go(12);
	silent(30);
}

static void test_shared_port(void **state)
{
	const struct finding *f;

	(void)state;
	ports_new();
	silent(20);
	busy[2] = 0.9;
	share_of[2] = share_of[3] = 3; /* somebody else's data, from the one to the other */
	go(14);
	f = only(FINDING_OBSERVATION, "shared_port");
	assert_string_equal(evidence(f, "device")->text, "rxe2");
}

static void test_starved_proxy(void **state)
{
	(void)state;
	ports_new();
	busy[2] = 1;
	ranks[2].run = 0.0001;
	ranks[2].wait = 0.95;
	go(30);
	for (size_t i = 0; i < list.n; i++)
		assert_int_not_equal(list.items[i].kind, FINDING_LINK);
}

static void test_stands_still(void **state)
{
	(void)state;
	ports_new();
	silent(10);
	for (int i = 0; i < 60; i++) {
		ranks[2].send[0] = sending(32, 24, 20);
		look();
	}
	for (size_t i = 0; i < list.n; i++)
		assert_int_not_equal(list.items[i].kind, FINDING_LINK);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_port),
		TEST(test_path),
		TEST(test_mostly_computing),
		TEST(test_chance),
		TEST(test_path_of_many_ports),
		TEST(test_no_ports),
		TEST(test_all_alike),
		TEST(test_shared_port),
		TEST(test_starved_proxy),
		TEST(test_stands_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
