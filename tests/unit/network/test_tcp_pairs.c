/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tcp_pairs.c - what samples of TCP connections add up to, by pair of addresses and round: what is a sign, how
 * many rounds make a fault, since when, and when it is over. Connections by hand, looked at once a second.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/network/tcp_pairs.h"
#define HAND_RANKS 1
#include "tests/unit/job/hand_job.h"

enum { CONNECTIONS = 3 };

static struct tcp_connection connections[CONNECTIONS], *at[CONNECTIONS];
static uint64_t counters[CONNECTIONS][TCP_COUNTERS];
static uint32_t state_of, flags;
static struct tcp_pairs pairs;

static void sample(int i)
{
	struct tcp_sample *l = &connections[i].samples[connections[i].n_samples++ % TCP_SAMPLES_KEPT];

	*l = (struct tcp_sample){ .ts_ns = m.now_ns };
	l->now.taken_ns = m.now_ns;
	l->now.state = state_of;
	l->now.flags = flags;
	memcpy(l->counters, counters[i], sizeof(counters[i]));
}

static void update(void)
{
	assert_int_equal(tcp_pairs_update(&pairs, &m), 0);
}

/* A second later, with what the counters are by now. */
static void round_of(int n)
{
	m.now_ns += SEC;
	for (int i = 0; i < n; i++)
		sample(i);
	update();
}

static void rounds(int n)
{
	while (n-- > 0)
		round_of(1);
}

static int begin(void **state)
{
	hand_setup(state);
	memset(connections, 0, sizeof(connections));
	memset(counters, 0, sizeof(counters));
	memset(&pairs, 0, sizeof(pairs));
	for (int i = 0; i < CONNECTIONS; i++) {
		connections[i].index = i;
		connections[i].id = 70 + i;
		connections[i].local = i == 1 ? "10.0.0.2" : "10.0.0.1";
		connections[i].remote = i == 1 ? "10.0.0.1" : "10.0.0.2";
		connections[i].netdev = "";
		connections[i].proc = procs[0].key;
		at[i] = &connections[i];
	}
	m.tcp = (struct tcp_connections){ .at = at, .n = CONNECTIONS };
	state_of = TCP_STATE_ESTABLISHED;
	flags = 0;
	round_of(1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tcp_pairs_free(&pairs);
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

static const struct tcp_pair *pair(void)
{
	return pairs.table.all;
}

/* --- one sample --- */

struct setting {
	enum tcp_counter counter;
	uint64_t value;
};

static void set(const struct setting *s)
{
	for (; s->value != ~1ull; s++)
		counters[0][s->counter] = s->value;
}

#define SET(...) \
	(const struct setting[]) \
	{ \
		__VA_ARGS__, \
		{ \
			0, ~1ull \
		} \
	}

static void what_is_a_stall(void **state)
{
	const struct setting *const cases[] = {
		SET({ TCP_UNACKED, 1 }, { TCP_BACKOFF, 2 }),
		SET({ TCP_PROBES, 2 }, { TCP_BACKOFF, 2 }),
		SET({ TCP_UNACKED, 1 }, { TCP_BACKOFF, 1 }),
		SET({ TCP_PROBES, 1 }, { TCP_BACKOFF, 2 }),
		SET({ TCP_UNACKED, 1 }, { TCP_BACKOFF, 2 }, { TCP_BYTES_ACKED, 1 }),
		SET({ TCP_UNACKED, 1 }, { TCP_BACKOFF, 2 }, { TCP_SEGMENTS_RECEIVED, 1 }),
		SET({ TCP_UNACKED, 1 }, { TCP_BACKOFF, 2 }, { TCP_BYTES_ACKED, TCP_NO_VALUE }),
		SET({ TCP_TIMEOUTS, 9 }),
	};

	for (int i = 0; i < 8; i++) {
		again(state);
		set(cases[i]);
		round_of(1);
		assert_int_equal(pair()->is[TCP_FAULT_STALL], i < 2);
	}
	for (int timeouts = 2; timeouts <= 3; timeouts++) {
		again(state);
		state_of = TCP_STATE_SYN_SENT;
		counters[0][TCP_TIMEOUTS] = timeouts;
		round_of(1);
		assert_int_equal(pair()->is[TCP_FAULT_STALL], timeouts == 3);
	}
}

static void what_is_not_read(void **state)
{
	const struct setting *const cases[] = {
		SET({ TCP_SEND_WINDOW, 0 }, { TCP_NOT_SENT, 1 }, { TCP_PROBES, 1 }),
		SET({ TCP_SEND_WINDOW, 0 }, { TCP_NOT_SENT, 1 }, { TCP_PROBES, 2 }),
		SET({ TCP_SEND_WINDOW, 1 }, { TCP_NOT_SENT, 1 }),
		SET({ TCP_SEND_WINDOW, 0 }, { TCP_NOT_SENT, 0 }),
		SET({ TCP_SEND_WINDOW, 0 }, { TCP_NOT_SENT, 1 }, { TCP_UNACKED, 1 }),
		SET({ TCP_SEND_WINDOW, 0 }, { TCP_NOT_SENT, 1 }, { TCP_UNACKED, TCP_NO_VALUE }),
		SET({ TCP_SEND_WINDOW, 0 }, { TCP_NOT_SENT, 1 }, { TCP_BYTES_ACKED, 1 }),
		SET({ TCP_SEND_WINDOW, TCP_NO_VALUE }, { TCP_NOT_SENT, 1 }),
	};

	for (int i = 0; i < 8; i++) {
		again(state);
		set(cases[i]);
		round_of(1);
		assert_int_equal(pair()->is[TCP_FAULT_NOT_READ], i < 1);
	}
}

static void whose_netdev_is_down(void **state)
{
	static const uint32_t cases[] = { 0, TCP_NETDEV_UP, TCP_NETDEV_KNOWN | TCP_NETDEV_UP, TCP_NETDEV_KNOWN };

	for (int i = 0; i < 4; i++)
		for (int end = 0; end < 2; end++) {
			again(state);
			connections[0].local = end ? "10.0.0.2" : "10.0.0.1";
			connections[0].remote = end ? "10.0.0.1" : "10.0.0.2";
			flags = cases[i];
			round_of(1);
			assert_int_equal(pair()->is[TCP_FAULT_NETDEV], i == 3);
			assert_int_equal(pair()->netdev_down[end], i == 3);
			assert_false(pair()->netdev_down[1 - end]);
			assert_string_equal(pair()->a, "10.0.0.1");
			assert_string_equal(pair()->b, "10.0.0.2");
			flags = 0;
			round_of(1);
			assert_false(pair()->netdev_down[end] || pair()->is[TCP_FAULT_NETDEV]);
		}
}

/* Half of the time. */
static void a_small_buffer(void **state)
{
	(void)state;
	counters[0][TCP_BUFFER_LIMITED] += 500000;
	round_of(1);
	assert_true(pair()->is[TCP_FAULT_BUFFER]);
	counters[0][TCP_BUFFER_LIMITED] += 499999;
	round_of(1);
	assert_false(pair()->is[TCP_FAULT_BUFFER]);
	m.now_ns += SEC;
	counters[0][TCP_BUFFER_LIMITED] += 999999;
	round_of(1);
	assert_false(pair()->is[TCP_FAULT_BUFFER]);
	assert_true(pair()->seconds == 2);
}

/* --- what connections of a pair add up to --- */

static void sums_of_a_round(void **state)
{
	(void)state;
	round_of(3);
	for (int i = 0; i < 3; i++) {
		counters[i][TCP_RETRANSMITS] = 10 * (i + 1);
		counters[i][TCP_DSACKS] = 1;
		counters[i][TCP_DATA_SEGMENTS_SENT] = 1000;
		counters[i][TCP_BUSY] = 500;
		counters[i][TCP_WINDOW_LIMITED] = i == 2 ? 600 : 100;
		counters[i][TCP_DELIVERED_CE] = 3;
		counters[i][TCP_DELIVERED] = 200;
		counters[i][TCP_BYTES_ACKED] = i == 1 ? 0 : 5000;
		counters[i][TCP_RTT] = 300 - 100 * (i % 2);
		counters[i][TCP_RTT_VARIATION] = 20;
	}
	round_of(3);
	assert_int_equal(pairs.table.n, 1);
	assert_int_equal(pair()->n_connections, 3);
	assert_int_equal(pair()->n_moving, 2);
	assert_int_equal(pair()->lost, 57);
	assert_int_equal(pair()->segments, 3000);
	assert_int_equal(pair()->busy_us, 800);
	assert_int_equal(pair()->marked, 9);
	assert_int_equal(pair()->delivered, 600);
	assert_int_equal(pair()->bytes, 10000);
	assert_int_equal(pair()->rtt_us, 200);
	assert_int_equal(pair()->rtt_low_us, 160);
	assert_int_equal(pair()->worst[TCP_FAULT_SLOW], 1);
	assert_int_equal(pair()->seen_ns, m.now_ns);
	assert_int_equal(pairs.rtt_best_us, 200);
	round_of(3);
	assert_int_equal(pair()->lost + pair()->segments + pair()->busy_us + pair()->marked + pair()->delivered +
				 pair()->bytes + pair()->rtt_us + pair()->rtt_low_us + pair()->n_moving,
			 0);
	assert_int_equal(pair()->n_connections, 3);
	assert_int_equal(pairs.rtt_best_us, 0);
}

/* Four segments at least, and what of a round trip is no scatter. */
static void whose_round_trip_counts(void **state)
{
	static const struct {
		uint64_t segments, rtt, variation, low;
	} cases[] = { { 4, 300, 20, 260 }, { 3, 300, 20, 0 }, { 4, 0, 20, 0 }, { 4, 300, 150, 0 }, { 4, 300, 149, 2 } };

	for (int i = 0; i < 5; i++) {
		again(state);
		counters[0][TCP_DATA_SEGMENTS_SENT] = cases[i].segments;
		counters[0][TCP_RTT] = cases[i].rtt;
		counters[0][TCP_RTT_VARIATION] = cases[i].variation;
		round_of(1);
		assert_int_equal(pair()->rtt_us, i == 1 ? 0 : cases[i].rtt);
		assert_int_equal(pair()->rtt_low_us, cases[i].low);
	}
}

/* The best is that of two hosts. */
static void the_best_round_trip(void **state)
{
	(void)state;
	connections[1].local = connections[1].remote = "10.0.0.3";
	connections[2].remote = "10.0.0.4";
	round_of(3);
	for (int i = 0; i < 3; i++) {
		counters[i][TCP_DATA_SEGMENTS_SENT] = 100;
		counters[i][TCP_RTT] = i == 1 ? 10 : 300 + i;
	}
	round_of(3);
	assert_int_equal(pairs.rtt_best_us, 300);
	assert_int_equal(pairs.table.n, 3);
	counters[0][TCP_RTT] = 400;
	for (int i = 0; i < 3; i++)
		counters[i][TCP_DATA_SEGMENTS_SENT] += 100;
	round_of(3);
	assert_int_equal(pairs.rtt_best_us, 302);
}

/* Which one shows it: the first of them; of losses the one that added most to what was there. */
static void the_one_that_shows_it(void **state)
{
	(void)state;
	connections[1].local = "10.0.0.1";
	connections[1].remote = "10.0.0.2";
	round_of(3);
	for (int i = 1; i < 3; i++) {
		counters[i][TCP_UNACKED] = 1;
		counters[i][TCP_BACKOFF] = 2;
	}
	counters[1][TCP_RETRANSMITS] = 5;
	counters[2][TCP_RETRANSMITS] = 4;
	round_of(3);
	assert_int_equal(pair()->worst[TCP_FAULT_STALL], 1);
	assert_int_equal(pair()->worst[TCP_FAULT_LOSS], 1);
	counters[1][TCP_RETRANSMITS] += 4;
	counters[2][TCP_RETRANSMITS] += 5;
	round_of(3);
	assert_int_equal(pair()->worst[TCP_FAULT_LOSS], 2);
}

/* --- rounds --- */

static void mark(uint64_t marked, uint64_t delivered)
{
	counters[0][TCP_DELIVERED_CE] += marked;
	counters[0][TCP_DELIVERED] += delivered;
	round_of(1);
}

/* Ten marks, one in a hundred; in three of the newest rounds that delivered anything. */
static void marks_of_congestion(void **state)
{
	uint64_t first;

	(void)state;
	mark(10, 1000);
	assert_true(pair()->is[TCP_FAULT_MARKS]);
	first = m.now_ns;
	mark(9, 100);
	assert_false(pair()->is[TCP_FAULT_MARKS]);
	mark(10, 1001);
	assert_false(pair()->is[TCP_FAULT_MARKS]);
	mark(50, 100);
	assert_int_equal(pair()->since_ns[TCP_FAULT_MARKS], 0);
	rounds(3); /* nothing was delivered: that shows nothing */
	mark(50, 100);
	assert_int_equal(pair()->since_ns[TCP_FAULT_MARKS], first);
	assert_int_equal(pair()->last_ns[TCP_FAULT_MARKS], m.now_ns);
	rounds(10);
	assert_int_equal(pair()->since_ns[TCP_FAULT_MARKS], first);
	rounds(1);
	assert_int_equal(pair()->since_ns[TCP_FAULT_MARKS], 0);
}

/* A state counts when it is so in two rounds running, and is over with one in which it is not. */
static void a_state_is_so_twice(void **state)
{
	uint64_t first;

	(void)state;
	flags = TCP_NETDEV_KNOWN;
	rounds(1);
	first = m.now_ns;
	assert_int_equal(pair()->since_ns[TCP_FAULT_NETDEV], 0);
	rounds(1);
	assert_int_equal(pair()->since_ns[TCP_FAULT_NETDEV], first);
	rounds(4);
	assert_int_equal(pair()->since_ns[TCP_FAULT_NETDEV], first);
	flags = 0;
	rounds(1);
	assert_int_equal(pair()->since_ns[TCP_FAULT_NETDEV], 0);
	flags = TCP_NETDEV_KNOWN;
	rounds(1);
	assert_int_equal(pair()->since_ns[TCP_FAULT_NETDEV], 0);
	flags = 0;
	rounds(1);
	flags = TCP_NETDEV_KNOWN;
	rounds(1);
	assert_int_equal(pair()->since_ns[TCP_FAULT_NETDEV], 0);
}

static void lose(int64_t lost, uint64_t segments)
{
	counters[0][TCP_RETRANSMITS] += lost > 0 ? lost : 0;
	counters[0][TCP_DSACKS] += lost < 0 ? -lost : 0;
	counters[0][TCP_DATA_SEGMENTS_SENT] += segments;
	round_of(1);
}

/* Three, and one in a thousand; fewer are one in a hundred. */
static void what_is_a_loss(void **state)
{
	static const struct {
		int64_t lost;
		uint64_t segments;
		bool is;
	} cases[] = { { 3, 3000, true }, { 3, 3001, false }, { 2, 200, true }, { 2, 201, false },
		      { 0, 0, false },   { 1, 100, true },   { -2, 0, false }, { 100, 100001, false } };

	for (int i = 0; i < 8; i++) {
		again(state);
		lose(cases[i].lost, cases[i].segments);
		assert_int_equal(pair()->is[TCP_FAULT_LOSS], cases[i].is);
	}
}

/* Five in all; what had come after all is taken off. */
static void five_losses_in_all(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		lose(1, 50);
	assert_int_equal(tcp_pair_lost(pair()), 4);
	assert_int_equal(pair()->since_ns[TCP_FAULT_LOSS], 0);
	lose(1, 50);
	assert_true(pair()->since_ns[TCP_FAULT_LOSS] > 0);
	again(state);
	lose(20, 50);
	lose(-18, 50);
	assert_int_equal(tcp_pair_lost(pair()), 2);
	lose(1, 50);
	lose(1, 50);
	assert_int_equal(pair()->since_ns[TCP_FAULT_LOSS], 0);
	lose(-50, 50);
	assert_int_equal(tcp_pair_lost(pair()), 0);
}

/* --- which samples count --- */

static void a_sample_counts_once(void **state)
{
	(void)state;
	counters[0][TCP_DELIVERED] = 100;
	round_of(1);
	assert_int_equal(pair()->delivered, 100);
	update();
	assert_int_equal(pair()->delivered, 100); /* no new round */
	counters[1][TCP_DELIVERED] = 7;
	m.now_ns += SEC;
	sample(1);
	update(); /* a first sample of another: it shows nothing yet */
	assert_int_equal(pair()->delivered, 100);
	m.now_ns += SEC;
	counters[1][TCP_DELIVERED] = 9;
	sample(1);
	update();
	assert_int_equal(pair()->delivered, 2);
	assert_int_equal(pair()->n_connections, 1);
	m.now_ns -= SEC;
	sample(1); /* read before the last one */
	update();
	assert_int_equal(pair()->delivered, 2);
}

/* Another connection at the same place. */
static void a_place_that_is_given_again(void **state)
{
	(void)state;
	round_of(1);
	connections[0].id = 99;
	connections[0].remote = "10.0.0.9";
	connections[0].n_samples = 0;
	m.now_ns -= SEC / 2;
	sample(0);
	m.now_ns += 1;
	sample(0);
	update();
	assert_int_equal(pairs.table.n, 2);
	assert_string_equal(pair()->b, "10.0.0.9");
	assert_int_equal(pair()->n_connections, 1);
}

/* A minute after its last sample a pair is forgotten. */
static void what_is_forgotten(void **state)
{
	(void)state;
	round_of(1);
	m.now_ns += 60 * SEC - 1;
	update();
	assert_int_equal(pairs.table.n, 1);
	m.now_ns++;
	update();
	assert_int_equal(pairs.table.n, 0);
	round_of(1); /* it is found again */
	assert_int_equal(pairs.table.n, 1);
	assert_int_equal(pair()->n_connections, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(what_is_a_stall),      TEST(what_is_not_read),
		TEST(whose_netdev_is_down), TEST(a_small_buffer),
		TEST(sums_of_a_round),      TEST(whose_round_trip_counts),
		TEST(the_best_round_trip),  TEST(the_one_that_shows_it),
		TEST(marks_of_congestion),  TEST(a_state_is_so_twice),
		TEST(what_is_a_loss),       TEST(five_losses_in_all),
		TEST(a_sample_counts_once), TEST(a_place_that_is_given_again),
		TEST(what_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
