/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_tcp_past.c - detector tcp, what it knows of a path's own past and of others' traffic: slow against how it
 * was, on two hosts, capped high, in a job of few bytes; what is lost beside others' traffic; and what of all that is
 * the job's own doing.
 */
#include "tests/unit/job/tcp_ring.h"

/* What filled the link is gone, and so are the signs: for as long as they are reported still, it was that. */
static void test_background_traffic_ends(void **state)
{
	struct ring u = ring_new();
	int n = 0;

	(void)state;
	u.others = 1e8;
	slow(&u, 0, 100000);
	slow(&u, 3, 100000);
	steps(&u, 8);
	only_host(&u, 0, FINDING_OBSERVATION, "congestion");
	u.others = 0;
	slow(&u, 0, 200);
	slow(&u, 3, 200);
	for (int i = 0; i < 15; i++) {
		step(&u);
		if (!u.list.n)
			continue;
		only_host(&u, 0, FINDING_OBSERVATION, "congestion");
		n++;
	}
	assert_in_range(n, 8, 11);
	assert_int_equal(u.list.n, 0);
	ring_free(&u);
}

/* Hosts have always something to say to each other, and a job that creeps says little. */
static void test_chatter(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	for (int i = 0; i < 6; i++) {
		all_wait(&u);
		u.others = 1000;
		for (int r = 0; r < RANKS; r++)
			for (int k = 0; k < CHANNELS; k++)
				u.counters[2 * (r * CHANNELS + k)][TCP_DATA_SEGMENTS_SENT] += 10;
		slow(&u, 1, 100000);
		slow(&u, 2, 100000);
		step(&u);
	}
	only_host(&u, 2, FINDING_LINK, "slow_path");
	ring_free(&u);
}

/* Others fill half of the netdev and more, and queue nowhere: what is lost there is not theirs. */
static void test_loss_beside_others(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	u.others = 1e8;
	quiet_steps(&u, 15);
	lose(&u, 0, 50);
	lose(&u, 1, 50);
	steps(&u, 4);
	f = only_host(&u, 1, FINDING_LINK, "retransmits");
	assert_true(evidence(f, "other_traffic_percent")->number > 90);
	ring_free(&u);
	u = ring_new();
	u.others = 1e8;
	quiet_steps(&u, 15);
	lose(&u, 0, 50);
	lose(&u, 1, 50);
	slow(&u, 0, 2000); /* a queue */
	slow(&u, 1, 2000);
	steps(&u, 8);
	only_host(&u, 1, FINDING_OBSERVATION, "congestion");
	for (int r = 0; r < RANKS; r++) /* a machine that is busy: on all paths alike */
		slow(&u, r, 2000);
	steps(&u, 30);
	only_host(&u, 1, FINDING_LINK, "retransmits");
	ring_free(&u);
}

/* A job that each loss delays loses few, of few. */
static void test_few_lost(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	for (int i = 0; i < 8; i++) {
		lose(&u, 1, 1);
		lose(&u, 2, 1);
		for (int k = 0; k < CONNECTIONS; k += 2)
			u.counters[k][TCP_DATA_SEGMENTS_SENT] -= 950;
		step(&u);
	}
	only_host(&u, 2, FINDING_LINK, "retransmits");
	ring_free(&u);
}

/* All answers come late, as in a job of few small messages; one host's still later. */
static void test_later_than_before(void **state)
{
	struct ring u = ring_new();

	(void)state;
	for (int r = 0; r < RANKS; r++)
		slow(&u, r, 20000 + 1000 * r);
	quiet_steps(&u, 15);
	slow(&u, 2, 140000);
	slow(&u, 3, 140000);
	steps(&u, 6);
	only_host(&u, 3, FINDING_LINK, "slow_path");
	assert_int_equal(evidence(&u.list.items[0], "round_trip_before_ms")->number, 23);
	steps(&u, 200); /* it is never how the path usually is */
	only_host(&u, 3, FINDING_LINK, "slow_path");
	ring_free(&u);
}

/* The job sends otherwise than before: that is so on all its paths. */
static void test_other_phase(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 15);
	for (int r = 0; r < RANKS; r++)
		slow(&u, r, r % 2 ? 40000 : 60000);
	for (int i = 0; i < CONNECTIONS; i++)
		u.busy_us[i] = 900000;
	quiet_steps(&u, 15);
	ring_free(&u);
}

/* What scatters is the answers'. */
static void test_scattered(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 15);
	for (int r = 1; r < 3; r++) {
		slow(&u, r, 15000);
		for (int k = 0; k < CHANNELS; k++)
			u.counters[2 * (r * CHANNELS + k)][TCP_RTT_VARIATION] = 14000;
	}
	quiet_steps(&u, 15);
	ring_free(&u);
}

/* A link that is capped high: nothing queues for long, but each byte takes longer. */
static void test_capped(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 15);
	for (int i = 0; i < 2 * 2 * CHANNELS; i++) /* what ranks 0 and 1 send */
		u.busy_us[i] = 900000;
	quiet_steps(&u, 3);
	steps(&u, 8);
	f = only_host(&u, 1, FINDING_LINK, "slow_path");
	assert_true(evidence(f, "busy_ms_per_mb")->number > 6 * evidence(f, "busy_ms_per_mb_before")->number);
	ring_free(&u);
}

/* It holds nobody up: there is hardly anything on its way. */
static void test_capped_idle(void **state)
{
	struct ring u = ring_new();

	(void)state;
	for (int i = 0; i < CONNECTIONS; i++)
		u.busy_us[i] = 500;
	quiet_steps(&u, 15);
	for (int i = 0; i < 2 * 2 * CHANNELS; i++)
		u.busy_us[i] = 10000;
	quiet_steps(&u, 15);
	ring_free(&u);
}

/* Two hosts have one path: by its own past, and both addresses. */
static void test_two_hosts(void **state)
{
	struct ring u = ring_on(2);
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 15);
	for (int r = 0; r < RANKS; r++)
		slow(&u, r, 40000); /* answers that come late */
	quiet_steps(&u, 10);
	for (int r = 0; r < RANKS; r++)
		slow(&u, r, 200000);
	quiet_steps(&u, 3);
	steps(&u, 6);
	f = only_path(&u, 0, FINDING_LINK, "slow_path");
	assert_true(f->confidence < 0.7);
	ring_free(&u);
}

/* Too short for answers that come late, and too steady for a mixture of such. */
static void test_two_hosts_little_slower(void **state)
{
	struct ring u = ring_on(2);

	(void)state;
	quiet_steps(&u, 15);
	for (int r = 0; r < RANKS; r++)
		slow(&u, r, 13000);
	steps(&u, 8);
	only_path(&u, 0, FINDING_LINK, "slow_path");
	ring_free(&u);
}

static void test_two_hosts_busy(void **state)
{
	struct ring u = ring_on(2);

	(void)state;
	quiet_steps(&u, 15);
	u.others = 1e8;
	for (int r = 0; r < RANKS; r++)
		slow(&u, r, 200000);
	steps(&u, 10);
	only_path(&u, 0, FINDING_OBSERVATION, "congestion");
	ring_free(&u);
}

static void test_two_hosts_lossy(void **state)
{
	struct ring u = ring_on(2);

	(void)state;
	quiet_steps(&u, 15);
	lose(&u, 0, 50);
	steps(&u, 8);
	only_path(&u, 0, FINDING_LINK, "retransmits");
	ring_free(&u);
}

/* Between steps nothing is sent, and nothing shown. */
static void test_slow_in_bursts(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 15);
	slow(&u, 1, 100000);
	slow(&u, 2, 100000);
	for (int i = 0; i < 9; i++) {
		for (int r = 0; r < RANKS; r++)
			u.idle[r] = i % 3;
		step(&u);
	}
	only_host(&u, 2, FINDING_LINK, "slow_path");
	ring_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_background_traffic_ends),
		cmocka_unit_test(test_chatter),
		cmocka_unit_test(test_loss_beside_others),
		cmocka_unit_test(test_few_lost),
		cmocka_unit_test(test_later_than_before),
		cmocka_unit_test(test_other_phase),
		cmocka_unit_test(test_scattered),
		cmocka_unit_test(test_capped),
		cmocka_unit_test(test_capped_idle),
		cmocka_unit_test(test_two_hosts),
		cmocka_unit_test(test_two_hosts_busy),
		cmocka_unit_test(test_two_hosts_little_slower),
		cmocka_unit_test(test_two_hosts_lossy),
		cmocka_unit_test(test_slow_in_bursts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
