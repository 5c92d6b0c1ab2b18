/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_tcp.c - detector tcp, on the connections of a ring of hosts: each row of docs/tcp.md is told as what it is, at the host or the
 * path it is at, of no rank; healthy, busy and idle connections, other traffic and what a kernel does not tell are no fault.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/link_cause.h"
#include "job_script.h"

#define RANKS 4
#define CHANNELS 2
#define CONNECTIONS (RANKS * CHANNELS * 2) /* 2 * (rank * CHANNELS + channel): it sends to the next; + 1: the next's end of it */

static const char *const addresses[RANKS] = { "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4" };

struct ring {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now_ns, counters[CONNECTIONS][TCP_COUNTERS];
	bool down[RANKS], idle[RANKS], silent[CONNECTIONS]; /* idle: of what rank r sends; silent: nothing is acknowledged */
	uint64_t lost[CONNECTIONS];    /* segments a second */
	double others;                 /* bytes a second on all netdevs */
	int n_told;                    /* counters, as an old kernel tells them; 0 all */
};

static void give(struct ring *u, struct event e)
{
	e.ts_ns = u->now_ns;
	assert_int_equal(model_apply(u->m, &e), 0);
}

static int owner(int i) { return i % 2 ? (i / 2 / CHANNELS + 1) % RANKS : i / 2 / CHANNELS; }
static int other(int i) { return i % 2 ? i / 2 / CHANNELS : (i / 2 / CHANNELS + 1) % RANKS; }
static bool sends(int i) { return i % 2 == 0; }

static void identity(struct ring *u, int i)
{
	struct event e = { .kind = EV_TCP, .tgid = job_pid(owner(i)) };

	e.tcp.index = i;
	e.tcp.id.inode = 1000 + i;
	e.tcp.id.cookie = 2000 + i;
	e.tcp.id.netns = 1 + owner(i);
	e.tcp.id.local = addresses[owner(i)];
	e.tcp.id.remote = addresses[other(i)];
	e.tcp.id.netdev = "eth0";
	e.tcp.id.local_port = sends(i) ? 40000 + i / 2 : 5000 + i / 2;
	e.tcp.id.remote_port = sends(i) ? 5000 + i / 2 : 40000 + i / 2;
	give(u, e);
}

static struct ring ring_new(void)
{
	struct ring u = { .m = model_new(), .d = detectors_new(), .now_ns = JOB_T0 };

	assert_non_null(u.m);
	assert_non_null(u.d);
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_event(EV_PROC, r, u.now_ns);

		e.proc = (typeof(e.proc)){ .start_ns = 1, .rank = r, .local_rank = r, .world_size = RANKS, .job = "job",
					   .name = "train", .container = "", .pod = "" };
		give(&u, e);
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		identity(&u, i);
		u.counters[i][TCP_RTT] = 200 + i;
		u.counters[i][TCP_SEND_WINDOW] = 1000000;
	}
	return u;
}

static void ring_free(struct ring *u)
{
	finding_list_free(&u->list);
	detectors_free(u->d);
	model_free(u->m);
}

/* A thousand segments of a kilobyte, each way round. */
static void flow(struct ring *u, int i)
{
	uint64_t *c = u->counters[i];
	bool moves = !u->silent[i] && !u->idle[sends(i) ? owner(i) : other(i)];

	c[TCP_NETDEV_SENT] += CHANNELS * 1100000 + 150000 + (uint64_t)u->others;
	c[TCP_NETDEV_RECEIVED] += CHANNELS * 1100000 + 150000 + (uint64_t)u->others;
	if (!moves)
		return;
	c[TCP_SEGMENTS_SENT] += 1000;
	c[TCP_SEGMENTS_RECEIVED] += 1000;
	if (!sends(i)) {
		c[TCP_BYTES_RECEIVED] += 1000000;
		return;
	}
	c[TCP_BYTES_SENT] += 1000000;
	c[TCP_BYTES_ACKED] += 1000000;
	c[TCP_DATA_SEGMENTS_SENT] += 1000;
	c[TCP_DELIVERED] += 1000;
	c[TCP_BUSY] += 100000;
	c[TCP_RETRANSMITS] += u->lost[i];
}

static void step(struct ring *u)
{
	u->now_ns += SEC;
	for (int i = 0; i < CONNECTIONS; i++) {
		struct event e = { .kind = EV_TCP_LOOK };

		flow(u, i);
		e.tcp.index = i;
		e.tcp.look.taken_ns = u->now_ns;
		e.tcp.look.state = TCP_STATE_ESTABLISHED;
		e.tcp.look.netdev_known = true;
		e.tcp.look.netdev_up = !u->down[owner(i)];
		e.tcp.look.n_counters = u->n_told ? u->n_told : TCP_COUNTERS;
		e.tcp.look.counters = u->counters[i];
		give(u, e);
	}
	give(u, (struct event){ .kind = EV_TICK });
	assert_int_equal(detectors_tick(u->d, u->m, &u->list), 0);
}

static void steps(struct ring *u, int seconds)
{
	for (int i = 0; i < seconds; i++)
		step(u);
}

static void quiet_steps(struct ring *u, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		step(u);
		for (size_t f = 0; f < u->list.n; f++)
			printf("after %d s: %s %s\n", i, finding_kind_name(u->list.items[f].kind), u->list.items[f].cause);
		assert_int_equal(u->list.n, 0);
	}
}

static const struct evidence *evidence(const struct finding *f, const char *name)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (!strcmp(f->evidence[i].name, name))
			return &f->evidence[i];
	return NULL;
}

/* The one finding there is; of no rank. */
static const struct finding *only(const struct ring *u, enum finding_kind kind, const char *cause)
{
	for (size_t i = 0; i < u->list.n && u->list.n > 1; i++)
		printf("also %s %s\n", finding_kind_name(u->list.items[i].kind), u->list.items[i].cause);
	assert_int_equal(u->list.n, 1);
	assert_int_equal(u->list.items[0].kind, kind);
	assert_string_equal(u->list.items[0].cause, cause);
	assert_int_equal(u->list.items[0].n_ranks, 0);
	assert_string_equal(evidence(&u->list.items[0], "transport")->text, "tcp");
	assert_non_null(evidence(&u->list.items[0], "remedy"));
	return &u->list.items[0];
}

static const struct finding *only_host(const struct ring *u, int host, enum finding_kind kind, const char *cause)
{
	const struct finding *f = only(u, kind, cause);
	char rank[8];

	snprintf(rank, sizeof(rank), "%d", host);
	assert_string_equal(evidence(f, "address")->text, addresses[host]);
	assert_string_equal(evidence(f, "ranks_using")->text, rank);
	assert_string_equal(evidence(f, "netdev")->text, "eth0");
	return f;
}

static const struct finding *only_path(const struct ring *u, int from, enum finding_kind kind, const char *cause)
{
	const struct finding *f = only(u, kind, cause);

	assert_null(evidence(f, "address"));
	assert_string_equal(evidence(f, "address_a")->text, addresses[from]);
	assert_string_equal(evidence(f, "address_b")->text, addresses[from + 1]);
	assert_int_equal(evidence(f, "sender_rank")->number, from);
	assert_int_equal(evidence(f, "receiver_rank")->number, from + 1);
	return f;
}

/* What rank `r` sends is sent again and again. */
static void silence(struct ring *u, int r)
{
	for (int k = 0; k < CHANNELS; k++) {
		uint64_t *c = u->counters[2 * (r * CHANNELS + k)];

		u->silent[2 * (r * CHANNELS + k)] = u->silent[2 * (r * CHANNELS + k) + 1] = true;
		c[TCP_UNACKED] = 4;
		c[TCP_OUT_QUEUE] = 4000;
		c[TCP_BACKOFF] = 4;
		c[TCP_TIMEOUTS] = 4;
		c[TCP_SINCE_ACKED] = 3000;
	}
}

static void all_wait(struct ring *u)
{
	for (int r = 0; r < RANKS; r++)
		u->idle[r] = true;
}

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

/* Known at once, and why the rest stands still. */
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

static void lose(struct ring *u, int r, uint64_t n)
{
	for (int k = 0; k < CHANNELS; k++)
		u->lost[2 * (r * CHANNELS + k)] = n;
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

static void slow(struct ring *u, int r, uint64_t rtt_us)
{
	for (int k = 0; k < CHANNELS; k++)
		u->counters[2 * (r * CHANNELS + k)][TCP_RTT] = rtt_us;
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

/* Between two alone a queue is traffic's: told, and nobody's fault. */
static void test_slow_path(void **state)
{
	struct ring u = ring_new();

	(void)state;
	quiet_steps(&u, 5);
	slow(&u, 1, 50000);
	lose(&u, 1, 30);
	steps(&u, 8);
	only_path(&u, 1, FINDING_OBSERVATION, "congestion");
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(1))), 0);
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

/* A kernel that tells of nothing but what stands before BACKOFF: no sign is no fault, and no crash. */
static void test_old_kernel(void **state)
{
	struct ring u = ring_new();

	(void)state;
	u.n_told = 2;
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
	struct event e = { .kind = EV_TCP_LOOK };

	(void)state;
	quiet_steps(&u, 5);
	c = tcp_connection_of(u.m, 0);
	assert_ptr_equal(c->peer, tcp_connection_of(u.m, 1));
	assert_ptr_equal(c->peer->peer, c);
	e.tcp.index = 0;
	e.tcp.look.gone = true;
	give(&u, e);
	assert_null(tcp_connection_of(u.m, 0));
	assert_null(tcp_connection_of(u.m, 1)->peer);
	give(&u, e); /* of one that is not known: of a recording that begins late */
	u.counters[0][TCP_RETRANSMITS] = 100000;
	identity(&u, 0);
	assert_ptr_equal(tcp_connection_of(u.m, 1)->peer, tcp_connection_of(u.m, 0));
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
	e.tcp.id.local = addresses[1];
	e.tcp.id.remote = addresses[0];
	e.tcp.id.netdev = "";
	e.tcp.id.local_port = 5000;
	e.tcp.id.remote_port = 40000;
	give(&u, e);
	assert_null(tcp_connection_of(u.m, 0)->peer);
	assert_ptr_equal(tcp_connection_of(u.m, 1)->peer, tcp_connection_of(u.m, 0));
	ring_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy), cmocka_unit_test(test_stalled_host), cmocka_unit_test(test_stalled_path),
		cmocka_unit_test(test_stalled_everywhere), cmocka_unit_test(test_no_carrier), cmocka_unit_test(test_nobody_sends),
		cmocka_unit_test(test_not_read), cmocka_unit_test(test_buffer), cmocka_unit_test(test_loss_of_a_host),
		cmocka_unit_test(test_loss_of_a_path), cmocka_unit_test(test_no_loss), cmocka_unit_test(test_slow_host),
		cmocka_unit_test(test_late_answers), cmocka_unit_test(test_slow_path), cmocka_unit_test(test_background_traffic),
		cmocka_unit_test(test_marks), cmocka_unit_test(test_old_kernel), cmocka_unit_test(test_numbers_again),
		cmocka_unit_test(test_ambiguous_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
