/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_tcp.c - detector tcp, on the connections of a ring of hosts: each row of docs/findings.md is reported as
 * what it is, at the host or the path it is at, of no rank; healthy, busy and idle connections, other traffic and what
 * a kernel does not say are no fault.
 */
#include <errno.h>

#include "detect/transfer/link_cause.h"
#include "tests/unit/job/tcp_ring.h"

static void test_healthy(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 20);
	all_wait(&u);
	quiet_steps(&u, 20);
	u.others = 1e9;
	quiet_steps(&u, 10);
	ring_free(&u);
}

/* Both ways of a host: it is the host. */
static void test_stalled_host(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 5);
	all_wait(&u);
	silence(&u, 1);
	silence(&u, 2);
	step(&u); /* it may be one lost segment */
	assert_int_equal(u.list.n, 0);
	step(&u);
	f = only_host(&u, 2, FINDING_LINK, "stalled");
	assert_int_equal(f->since_ns, JOB_T0 + 6 * SEC);
	assert_int_equal(evidence(f, "paths")->number, 2);
	assert_int_equal(evidence(f, "backoff")->number, 4);
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(1))), 0);
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(2))), 0);
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(0))), 0); /* has nothing to do with it */
	memset(u.silent, 0, sizeof(u.silent));
	memset(u.idle, 0, sizeof(u.idle));
	steps(&u, 1);
	assert_int_equal(u.list.n, 0);
	ring_free(&u);
}

static void test_stalled_path(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	silence(&u, 1);
	quiet_steps(&u, 3);
	steps(&u, 3);
	only_path(&u, 1, FINDING_LINK, "stalled");
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(1))), 0);
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(2))), 0);
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(3))), 0);
	ring_free(&u);
}

/* An overfull link loses what was sent again, too; when nothing comes back for long, it is no link any more. */
static void test_stalled_beside_others(void **state)
{
	struct ring u = ring_new();

	(void)state;
	u.others = 1e8;
	quiet_steps(&u, 15);
	all_wait(&u);
	silence(&u, 1);
	silence(&u, 2);
	step(&u);
	for (int i = 0; i < 8; i++) {
		step(&u);
		only_host(&u, 2, FINDING_OBSERVATION, "congestion");
	}
	step(&u);
	only_host(&u, 2, FINDING_LINK, "stalled");
	ring_free(&u);
	u = ring_new();
	quiet_steps(&u, 15);
	u.others = 1e8; /* more than ever came: it is full, and no dead link */
	all_wait(&u);
	silence(&u, 1);
	silence(&u, 2);
	for (int i = 0; i < 30; i++) {
		u.others = i < 15 ? 1e8 : 0; /* the timers go on */
		step(&u);
		if (i)
			only_host(&u, 2, FINDING_OBSERVATION, "congestion");
	}
	ring_free(&u);
}

static void test_stalled_everywhere(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 5);
	for (int r = 0; r < RANKS; r++)
		silence(&u, r);
	steps(&u, 3);
	f = only(&u, FINDING_LINK, "stalled");
	assert_null(evidence(f, "address"));
	assert_null(evidence(f, "address_a"));
	assert_int_equal(evidence(f, "paths")->number, RANKS);
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(3))), 0);
	ring_free(&u);
}

/* Known at once, and why the rest does not move. */
static void test_no_carrier(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	u.down[3] = true;
	all_wait(&u);
	silence(&u, 2);
	silence(&u, 3);
	steps(&u, 2);
	only_host(&u, 3, FINDING_LINK, "netdev_down");
	steps(&u, 20);
	only_host(&u, 3, FINDING_LINK, "netdev_down");
	ring_free(&u);
}

/* All waits for others: nothing to send, nothing came, or a sender that has nothing. */
static void test_nobody_sends(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	all_wait(&u);
	for (int i = 0; i < CONNECTIONS; i++)
		u.counters[i][TCP_SINCE_SENT] = u.counters[i][TCP_SINCE_RECEIVED] = 600000;
	quiet_steps(&u, 60);
	ring_free(&u);
}

static void test_not_read(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	all_wait(&u);
	for (int i = 0; i < 2 * CHANNELS; i += 2) {
		u.counters[i][TCP_SEND_WINDOW] = 0;
		u.counters[i][TCP_NOT_SENT] = 100000;
		u.counters[i][TCP_OUT_QUEUE] = 100000;
		u.counters[i][TCP_BACKOFF] = 6; /* of probes of the window, which are answered */
		u.counters[i][TCP_PROBES] = 1;
	}
	quiet_steps(&u, 3);
	steps(&u, 4);
	only_path(&u, 0, FINDING_OBSERVATION, "receiver_does_not_read");
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(0))), 0);
	ring_free(&u);
}

static void test_buffer(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 2 * CHANNELS; k += 2)
			u.counters[k][TCP_BUFFER_LIMITED] += 800000;
		step(&u);
	}
	only_path(&u, 0, FINDING_OBSERVATION, "send_buffer");
	ring_free(&u);
}

static void test_loss_of_a_host(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 5);
	lose(&u, 0, 50);
	lose(&u, 1, 50);
	steps(&u, 3);
	f = only_host(&u, 1, FINDING_LINK, "retransmits");
	assert_int_equal(f->since_ns, JOB_T0 + 6 * SEC);
	assert_true(evidence(f, "lost_percent")->number > 4.9 && evidence(f, "lost_percent")->number < 5.1);
	lose(&u, 0, 0);
	lose(&u, 1, 0);
	steps(&u, 15);
	assert_int_equal(u.list.n, 0);
	ring_free(&u);
}

static void test_loss_of_a_path(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	lose(&u, 2, 50);
	quiet_steps(&u, 4); /* it may turn out to be a host's */
	steps(&u, 2);
	only_path(&u, 2, FINDING_LINK, "retransmits");
	ring_free(&u);
}

/* Sent again without need, or seldom: no loss. */
static void test_no_loss(void **state)
{
	struct ring u = ring_new();

	(void)state;
	lose(&u, 1, 50);
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < CHANNELS; k++)
			u.counters[2 * (1 * CHANNELS + k)][TCP_DSACKS] += 50;
		quiet_steps(&u, 1);
	}
	lose(&u, 1, 0);
	for (int i = 0; i < 20; i++) {
		lose(&u, 1, i % 3 == 0 ? 1 : 0);
		quiet_steps(&u, 1);
	}
	ring_free(&u);
}

static void test_slow_host(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 5);
	slow(&u, 0, 100000);
	slow(&u, 3, 100000);
	lose(&u, 0, 30); /* a queue that runs over as well */
	lose(&u, 3, 30);
	steps(&u, 6);
	f = only_host(&u, 0, FINDING_LINK, "slow_path");
	assert_int_equal(evidence(f, "round_trip_ms")->number, 100);
	assert_true(evidence(f, "quickest_path_ms")->number < 1);
	ring_free(&u);
}

/* One connection whose answers come late, beside one that is quick: not the path. */
static void test_late_answers(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	for (int r = 0; r < RANKS; r++)
		u.counters[2 * (r * CHANNELS)][TCP_RTT] = 40000;
	quiet_steps(&u, 20);
	ring_free(&u);
}

/* Between two alone a queue is traffic's: reported, and no rank's fault. */
static void test_slow_path(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	slow(&u, 1, 50000);
	lose(&u, 1, 30);
	steps(&u, 8);
	only_path(&u, 1, FINDING_OBSERVATION, "congestion");
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(1))),
			     0); /* it holds them up all the same */
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(3))), 0);
	ring_free(&u);
}

static void test_background_traffic(void **state)
{
	struct ring u = ring_new();
	const struct finding *f;

	(void)state;
	u.others = 1e8;
	quiet_steps(&u, 10);
	slow(&u, 0, 100000);
	slow(&u, 3, 100000);
	steps(&u, 6);
	f = only_host(&u, 0, FINDING_OBSERVATION, "congestion");
	assert_true(evidence(f, "other_traffic_percent")->number > 90);
	lose(&u, 0, 30);
	lose(&u, 3, 30);
	steps(&u, 6);
	only_host(&u, 0, FINDING_OBSERVATION, "congestion");
	ring_free(&u);
}

static void test_marks(void **state)
{
	struct ring u = ring_new();

	(void)state;
	for (int i = 0; i < 12; i++) {
		for (int k = 0; k < CHANNELS; k++)
			u.counters[2 * k][TCP_DELIVERED_CE] += 100;
		step(&u);
	}
	only_path(&u, 0, FINDING_OBSERVATION, "congestion");
	ring_free(&u);
}

/* A kernel that says of nothing but what stands before BACKOFF: no sign is no fault, and no crash. */
static void test_old_kernel(void **state)
{
	struct ring u = ring_new();

	(void)state;
	u.n_given = 2;
	lose(&u, 1, 500);
	slow(&u, 1, 500000);
	all_wait(&u);
	silence(&u, 1);
	quiet_steps(&u, 10);
	ring_free(&u);
}

/* A number that is given again is another connection: what the first one counted is not the second's. */
static void test_numbers_again(void **state)
{
	struct ring u = ring_new();
	const struct tcp_connection *c;
	struct event e = { .kind = EV_TCP_SAMPLE };

	(void)state;
	quiet_steps(&u, 5);
	c = tcp_connection_of(u.m, 0, 0);
	assert_ptr_equal(c->peer, tcp_connection_of(u.m, 0, 1));
	assert_ptr_equal(c->peer->peer, c);
	e.tcp.index = 0;
	e.tcp.sample.flags = TCP_GONE;
	give(&u, e);
	assert_null(tcp_connection_of(u.m, 0, 0));
	assert_null(tcp_connection_of(u.m, 0, 1)->peer);
	give(&u, e); /* of one that is not known: of a recording that begins late */
	u.counters[0][TCP_RETRANSMITS] = 100000;
	identity(&u, 0);
	assert_ptr_equal(tcp_connection_of(u.m, 0, 1)->peer, tcp_connection_of(u.m, 0, 0));
	quiet_steps(&u, 10);
	e.tcp.index = TCP_CONNECTIONS_MAX;
	assert_int_equal(model_apply(u.m, &e), -EINVAL);
	ring_free(&u);
}

/* The same addresses in two namespaces that do not see each other: no peer is better than a wrong one. */
static void test_ambiguous_peer(void **state)
{
	struct ring u = ring_new();
	struct event e = { .kind = EV_TCP, .tgid = job_pid(3) };

	(void)state;
	e.tcp.index = 100;
	e.tcp.id.netns = 77;
	e.tcp.local = addresses[1];
	e.tcp.remote = addresses[0];
	e.tcp.netdev = "";
	e.tcp.id.local_port = 5000;
	e.tcp.id.remote_port = 40000;
	give(&u, e);
	assert_null(tcp_connection_of(u.m, 0, 0)->peer);
	assert_ptr_equal(tcp_connection_of(u.m, 0, 1)->peer, tcp_connection_of(u.m, 0, 0));
	ring_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_stalled_host),
		cmocka_unit_test(test_stalled_path),
		cmocka_unit_test(test_stalled_everywhere),
		cmocka_unit_test(test_stalled_beside_others),
		cmocka_unit_test(test_no_carrier),
		cmocka_unit_test(test_nobody_sends),
		cmocka_unit_test(test_not_read),
		cmocka_unit_test(test_buffer),
		cmocka_unit_test(test_loss_of_a_host),
		cmocka_unit_test(test_loss_of_a_path),
		cmocka_unit_test(test_no_loss),
		cmocka_unit_test(test_slow_host),
		cmocka_unit_test(test_late_answers),
		cmocka_unit_test(test_slow_path),
		cmocka_unit_test(test_background_traffic),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_old_kernel),
		cmocka_unit_test(test_numbers_again),
		cmocka_unit_test(test_ambiguous_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
