/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_link.c - detector link: each fault of a port is reported once it is one, with the device and who uses it,
 * and names no rank; what healthy ports count, counters that are set back, ports that were never up and those of nobody
 * are no fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/transfer/link_cause.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4
#define PORTS 4
#define STEP_S 0.5 /* between two samples */

struct machine {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now_ns, counters[PORTS][PORT_COUNTERS];
	uint32_t rate_mbps[PORTS];
	uint8_t state[PORTS];
	bool gone[PORTS], silent[PORTS];
	uint64_t per_sample[PORT_COUNTERS]; /* that counters of port 1 grow by */
};

static void give(struct machine *u, struct event e)
{
	e.ts_ns = u->now_ns;
	assert_int_equal(model_apply(u->m, &e), 0);
}

static void users(struct machine *u, uint32_t port, bool known, const uint32_t *pids, uint32_t n)
{
	struct event e = { .kind = EV_PORT_USERS };

	e.port.index = port;
	e.port.users.known = known;
	e.port.users.n = n;
	if (n)
		memcpy(e.port.users.pids, pids, n * sizeof(pids[0]));
	give(u, e);
}

/* Rank r has port r open, rank 0 all of them. */
static struct machine node_new(void)
{
	static const char *const devices[PORTS] = { "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3" };
	struct machine u = { .m = model_new(), .d = detectors_new(), .now_ns = JOB_T0 };

	assert_non_null(u.m);
	assert_non_null(u.d);
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, RANKS, u.now_ns);

		give(&u, e);
	}
	for (int i = 0; i < PORTS; i++) {
		const uint32_t pids[] = { job_pid(0), job_pid(i) };
		struct event e = { .kind = EV_PORT };

		e.port.index = i;
		e.port.id.number = 1;
		e.port.device = devices[i];
		e.port.netdev = "eth0";
		e.port.pci = "0000:1b:00.0";
		e.port.kind = "0x15b3:0x1021";
		e.port.layer = "Ethernet";
		give(&u, e);
		users(&u, i, true, pids, i ? 2 : 1);
		u.state[i] = PORT_STATE_ACTIVE;
		u.rate_mbps[i] = 400000;
		for (int c = 0; c < PORT_COUNTERS; c++)
			u.counters[i][c] = 1000; /* of before the session */
	}
	return u;
}

static void node_free(struct machine *u)
{
	finding_list_free(&u->list);
	detectors_free(u->d);
	model_free(u->m);
}

/* Looks at all ports, and a tick. A gigabyte a second flows each way. */
static void step(struct machine *u)
{
	u->now_ns += (uint64_t)(STEP_S * SEC);
	for (int i = 0; i < PORTS; i++) {
		struct event e = { .kind = EV_PORT_SAMPLE };

		if (u->state[i] == PORT_STATE_ACTIVE) {
			u->counters[i][PORT_SENT_BYTES] += 500000000;
			u->counters[i][PORT_RECEIVED_BYTES] += 500000000;
			u->counters[i][PORT_SENT_PACKETS] += 125000;
			u->counters[i][PORT_RECEIVED_PACKETS] += 125000;
		}
		for (int c = 0; i == 1 && c < PORT_COUNTERS; c++)
			u->counters[i][c] += u->per_sample[c];
		e.port.index = i;
		e.port.sample.taken_ns = u->now_ns;
		e.port.sample.state = u->state[i];
		e.port.sample.flags = (u->gone[i] ? PORT_GONE : 0) | (u->silent[i] ? PORT_SILENT : 0);
		e.port.sample.rate_mbps = u->rate_mbps[i];
		e.port.sample.lanes = 4;
		e.port.sample.n_counters = PORT_COUNTERS;
		e.port.counters = u->counters[i];
		give(u, e);
	}
	give(u, (struct event){ .kind = EV_TICK });
	assert_int_equal(detectors_tick(u->d, u->m, &u->list), 0);
}

static void steps(struct machine *u, double seconds)
{
	for (int i = 0; i < seconds / STEP_S; i++)
		step(u);
}

static void quiet_steps(struct machine *u, double seconds)
{
	for (int i = 0; i < seconds / STEP_S; i++) {
		step(u);
		if (u->list.n)
			printf("%s %s\n", finding_kind_name(u->list.items[0].kind), cause_name(u->list.items[0].cause));
		assert_int_equal(u->list.n, 0);
	}
}

static const struct evidence *evidence(const struct finding *f, const char *name)
{
	return evidence_named(f, name);
}

/* The one finding there is: of port 1, and of no rank. */
static const struct finding *only(const struct machine *u, enum finding_kind kind, const char *cause)
{
	const struct finding *f = u->list.n == 1 ? &u->list.items[0] : NULL;

	for (size_t i = 0; i < u->list.n && !f; i++)
		printf("also %s %s\n", finding_kind_name(u->list.items[i].kind), cause_name(u->list.items[i].cause));
	assert_non_null(f);
	assert_int_equal(f->kind, kind);
	assert_string_equal(cause_name(f->cause), cause);
	assert_int_equal(f->n_ranks, 0);
	assert_string_equal(evidence(f, "device")->text, "mlx5_1");
	assert_int_equal(evidence(f, "port")->number, 1);
	assert_string_equal(evidence(f, "netdev")->text, "eth0");
	assert_non_null(evidence(f, "remedy"));
	return f;
}

static void test_down(void **state)
{
	struct machine u = node_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 5);
	u.state[1] = PORT_STATE_DOWN;
	quiet_steps(&u, 1); /* it may be a flap */
	steps(&u, 1);
	f = only(&u, FINDING_LINK, "port_down");
	assert_int_equal(f->since_ns, JOB_T0 + 55 * SEC / 10);
	assert_string_equal(evidence(f, "state")->text, "down");
	assert_string_equal(evidence(f, "ranks_using")->text, "0,1");
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(1))), 0);
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(2))), 0);
	steps(&u, 100);
	only(&u, FINDING_LINK, "port_down");
	u.state[1] = PORT_STATE_ACTIVE;
	steps(&u, 1);
	f = only(&u, FINDING_LINK, "flap");
	assert_int_equal(evidence(f, "times_down")->number, 1);
	steps(&u, 61);
	assert_int_equal(u.list.n, 0);
	node_free(&u);
}

/* Shorter than what lies between two samples: the device's own count tells. */
static void test_flap_by_the_counter(void **state)
{
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 5);
	u.counters[1][PORT_LINK_DOWNED]++;
	steps(&u, STEP_S);
	only(&u, FINDING_LINK, "flap");
	node_free(&u);
}

static void test_a_flap_is_reported_once(void **state)
{
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 5);
	u.state[1] = PORT_STATE_DOWN;
	step(&u);
	u.state[1] = PORT_STATE_ACTIVE;
	step(&u);
	u.counters[1][PORT_LINK_DOWNED]++; /* of the same; and what training counts */
	u.counters[1][PORT_SYMBOL_ERRORS] += 5000;
	step(&u);
	assert_int_equal(evidence(only(&u, FINDING_LINK, "flap"), "times_down")->number, 1);
	steps(&u, 10);
	only(&u, FINDING_LINK, "flap");
	node_free(&u);
}

static void test_device_goes_and_comes(void **state)
{
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 5);
	u.gone[1] = true;
	u.state[1] = PORT_STATE_UNKNOWN;
	step(&u);
	only(&u, FINDING_LINK, "device_gone");
	steps(&u, 20);
	only(&u, FINDING_LINK, "device_gone");
	u.gone[1] = false;
	u.state[1] = PORT_STATE_ACTIVE;
	memset(u.counters[1], 0, sizeof(u.counters[1])); /* a new device counts anew */
	step(&u);
	only(&u, FINDING_LINK, "flap");
	steps(&u, 62);
	assert_int_equal(u.list.n, 0);
	node_free(&u);
}

static void test_no_answer(void **state)
{
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 5);
	u.silent[1] = true;
	step(&u);
	only(&u, FINDING_LINK, "does_not_answer");
	u.silent[1] = false;
	quiet_steps(&u, 5);
	node_free(&u);
}

static void test_counters_that_grow(void **state)
{
	static const struct {
		enum port_counter counter;
		uint64_t fault, usual;
		enum finding_kind kind;
		const char *cause;
	} cases[] = {
		{ PORT_SYMBOL_ERRORS, 20, 1, FINDING_LINK, "link_errors" },
		{ PORT_RECEIVE_ERRORS, 20, 1, FINDING_LINK, "link_errors" },
		{ PORT_NETDEV_RECEIVE_ERRORS, 20, 1, FINDING_LINK, "link_errors" },
		{ PORT_OUT_OF_SEQUENCE, 500, 4, FINDING_LINK, "retransmits" },
		{ PORT_TIMEOUTS, 500, 4, FINDING_LINK, "retransmits" },
		{ PORT_RETRANSMITS, 500, 10, FINDING_LINK, "retransmits" },
		{ PORT_SEQUENCE_NAKS, 500, 4, FINDING_LINK, "retransmits" },
		{ PORT_SEND_DISCARDS, 500, 4, FINDING_LINK, "discards" },
		{ PORT_RECEIVE_DISCARDS, 500, 4, FINDING_LINK, "discards" },
		{ PORT_CNP_HANDLED, 20000, 900, FINDING_OBSERVATION, "congestion" },
		{ PORT_ECN_MARKED, 20000, 900, FINDING_OBSERVATION, "congestion" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine u = node_new();

		u.per_sample[cases[i].counter] = cases[i].usual; /* of a healthy one */
		quiet_steps(&u, 30);
		u.per_sample[cases[i].counter] = cases[i].fault;
		steps(&u, 5);
		only(&u, cases[i].kind, cases[i].cause);
		assert_true(evidence(&u.list.items[0], "per_second")->number >= 1.9 * cases[i].fault);
		assert_true(evidence(&u.list.items[0], port_counter_name(cases[i].counter))->number >=
			    6 * cases[i].fault);
		u.per_sample[cases[i].counter] = 0;
		steps(&u, 65);
		assert_int_equal(u.list.n, 0);
		node_free(&u);
	}
}

/* All that a busy healthy port counts, all the time. */
static void test_noise(void **state)
{
	struct machine u = node_new();

	(void)state;
	for (int i = 0; i < 600; i++) {
		memset(u.per_sample, 0, sizeof(u.per_sample));
		u.per_sample[PORT_SYMBOL_ERRORS] = i % 40 == 0 ? 9 : 0;
		u.per_sample[PORT_OUT_OF_SEQUENCE] =
			i % 10 == 0 ? 2000 : 3; /* a burst now and then: five windows have one of it */
		u.per_sample[PORT_SEND_WAIT] = 100000;
		u.per_sample[PORT_RNR_NAKS] = 50;
		u.per_sample[PORT_CNP_SENT] = 200;
		quiet_steps(&u, STEP_S);
	}
	node_free(&u);
}

/* Nothing flows, as the far end is gone: its process may be, and that is no link's fault. */
static void test_timeouts_without_traffic(void **state)
{
	struct machine u = node_new();

	(void)state;
	for (int i = 0; i < 60; i++) {
		u.counters[1][PORT_SENT_BYTES] -= 500000000;
		u.counters[1][PORT_RECEIVED_BYTES] -= 500000000;
		u.per_sample[PORT_TIMEOUTS] = 100;
		quiet_steps(&u, STEP_S);
	}
	node_free(&u);
}

/* A job that each loss delays for seconds: some hundred packets now and then, and a few of them did not arrive. */
static void trickle(struct machine *u, double seconds, uint64_t packets, uint64_t naks_1, uint64_t gaps_2)
{
	for (int i = 0; i < seconds / STEP_S; i++) {
		for (int p = 0; p < PORTS; p++) { /* less what step() adds */
			u->counters[p][PORT_SENT_BYTES] -= 500000000 - packets * 1000;
			u->counters[p][PORT_RECEIVED_BYTES] -= 500000000 - packets * 1000;
			u->counters[p][PORT_SENT_PACKETS] -= 125000 - (i % 8 ? 0 : packets);
			u->counters[p][PORT_RECEIVED_PACKETS] -= 125000 - (i % 8 ? 0 : packets);
		}
		u->counters[1][PORT_SEQUENCE_NAKS] += i % 8 ? 0 : naks_1;
		u->counters[1][PORT_RETRANSMITS] += i % 8 ? 0 : naks_1 + 2;
		u->counters[2][PORT_OUT_OF_SEQUENCE] += i % 8 ? 0 : gaps_2;
		step(u);
	}
}

static void test_losses_that_hold_a_job_up(void **state)
{
	struct machine u = node_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 15);
	trickle(&u, 14, 200, 7, 7);
	assert_int_equal(u.list.n, 2);
	f = &u.list.items[0];
	assert_string_equal(cause_name(f->cause), "retransmits");
	assert_int_equal(f->kind, FINDING_LINK);
	assert_int_equal(f->n_ranks, 0);
	assert_string_equal(evidence(f, "device")->text, "mlx5_1");
	assert_true(f->since_ns <= JOB_T0 + 28 * SEC);
	assert_int_equal(f->caused_by_key, 0);
	assert_string_equal(evidence(&u.list.items[1], "device")->text, "mlx5_2"); /* it got what the other one sent */
	assert_true(u.list.items[1].caused_by_key == f->key);
	node_free(&u);
	u = node_new();
	quiet_steps(&u, 15);
	trickle(&u, 30, 5000, 3, 3); /* one in thousands: as busy links do */
	assert_int_equal(u.list.n, 0);
	node_free(&u);
	u = node_new();
	quiet_steps(&u, 15);
	trickle(&u, 2, 200, 40, 40); /* once */
	trickle(&u, 2, 200, 0, 0);
	assert_int_equal(u.list.n, 0);
	node_free(&u);
	u = node_new();
	quiet_steps(&u, 15);
	trickle(&u, 30, 200, 0, 0); /* timeouts alone: the far end's process may be gone */
	assert_int_equal(u.list.n, 0);
	node_free(&u);
}

/* So many gaps a step at each of these ports. */
static void gaps(struct machine *u, double seconds, const int *at, int n, uint64_t each)
{
	for (int i = 0; i < seconds / STEP_S; i++) {
		for (int k = 0; k < n; k++)
			u->counters[at[k]][PORT_OUT_OF_SEQUENCE] += each + 100 * k;
		step(u);
	}
}

/* Adaptive routing: packets overtake each other at most ports, one in ten. A port that alone has gaps loses packets. */
static void test_a_fabric_that_reorders(void **state)
{
	static const int most[] = { 1, 0, 3 };
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 15);
	gaps(&u, 30, most, 3, 500);
	assert_int_equal(u.list.n, 0);
	gaps(&u, 30, most, 3, 12500);
	assert_int_equal(u.list.n, 0);
	u.per_sample[PORT_SEQUENCE_NAKS] = 500; /* what it sends is lost, too */
	gaps(&u, 5, most, 3, 500);
	only(&u, FINDING_LINK, "retransmits");
	u.per_sample[PORT_SEQUENCE_NAKS] = 0;
	gaps(&u, 65, most, 3, 500);
	assert_int_equal(u.list.n, 0);
	gaps(&u, 5, most, 1, 500);
	only(&u, FINDING_LINK, "retransmits");
	node_free(&u);
}

static void test_set_back_and_not_reported(void **state)
{
	struct machine u = node_new();

	(void)state;
	u.counters[1][PORT_RECEIVE_ERRORS] = PORT_NOT_COUNTED;
	u.counters[1][PORT_SYMBOL_ERRORS] = 1000000;
	quiet_steps(&u, 5);
	u.counters[1][PORT_SYMBOL_ERRORS] = 0; /* somebody reset them */
	u.counters[1][PORT_LINK_DOWNED] = 0;
	u.counters[1][PORT_RECEIVE_ERRORS] = 77777; /* reported for the first time */
	quiet_steps(&u, 5);
	u.counters[1][PORT_RECEIVE_ERRORS] = PORT_NOT_COUNTED;
	quiet_steps(&u, 5);
	node_free(&u);
}

static void test_rate(void **state)
{
	struct machine u = node_new();
	const struct finding *f;

	(void)state;
	quiet_steps(&u, 5);
	u.rate_mbps[1] = 100000; /* below what it had */
	quiet_steps(&u, 2);
	steps(&u, 1);
	f = only(&u, FINDING_LINK, "low_rate");
	assert_true(evidence(f, "rate_gbps")->number == 100 && evidence(f, "rate_before_gbps")->number == 400);
	assert_true(evidence(f, "rate_of_peers_gbps")->number == 400);
	u.rate_mbps[1] = 400000;
	step(&u);
	assert_int_equal(u.list.n, 0);
	node_free(&u);
	u = node_new();
	u.rate_mbps[1] = 200000; /* always: below its peers' */
	steps(&u, 5);
	f = only(&u, FINDING_LINK, "low_rate");
	assert_null(evidence(f, "rate_before_gbps"));
	node_free(&u);
	u = node_new();
	u.rate_mbps[1] = 200000;
	u.state[0] = PORT_STATE_DOWN; /* never up: two of three are faster, */
	steps(&u, 5);
	assert_non_null(only(&u, FINDING_LINK, "low_rate"));
	node_free(&u);
	u = node_new();
	u.rate_mbps[1] = 200000;
	u.state[0] = u.state[2] = PORT_STATE_DOWN; /* and one of two, which says nothing */
	quiet_steps(&u, 10);
	node_free(&u);
	u = node_new();
	u.rate_mbps[0] = u.rate_mbps[1] = 200000; /* half of them: how the host is made */
	quiet_steps(&u, 10);
	node_free(&u);
}

static void test_never_up(void **state)
{
	struct machine u = node_new();

	(void)state;
	u.state[1] = PORT_STATE_DOWN; /* no cable in it */
	quiet_steps(&u, 20);
	u.gone[1] = true;
	quiet_steps(&u, 5);
	u.gone[1] = false;
	u.state[1] = PORT_STATE_UNKNOWN;
	quiet_steps(&u, 5);
	node_free(&u);
}

static void test_whose_it_is(void **state)
{
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 5);
	users(&u, 1, true, NULL, 0); /* nobody's of the job */
	u.state[1] = PORT_STATE_DOWN;
	steps(&u, 2);
	assert_null(evidence(only(&u, FINDING_OBSERVATION, "port_down"), "ranks_using"));
	assert_int_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(1))), 0);
	users(&u, 1, false, NULL, 0); /* not known */
	step(&u);
	assert_string_equal(evidence(only(&u, FINDING_LINK, "port_down"), "ranks_may")->text, "0,1,2,3");
	assert_true(u.list.items[0].confidence < 0.8);
	assert_int_not_equal(link_cause_key(u.m, &u.list, model_proc(u.m, job_pid(3))), 0);
	node_free(&u);
}

/* A queue pair of a rank on the device of that port. */
static void qp(struct machine *u, int r, const char *device, uint32_t qpn, enum qp_change change)
{
	struct event e = job_event(EV_QP, r, 0);

	e.qp.context = 0x10;
	e.qp.device = device;
	e.qp.qpn = qpn;
	e.qp.now.change = change;
	e.qp.now.state = QP_RTS;
	e.qp.now.port = 1;
	e.qp.now.dest_qpn = 7;
	give(u, e);
}

static void down_of(struct machine *u, enum finding_kind kind, const char *ranks)
{
	u->state[1] = PORT_STATE_DOWN;
	steps(u, 2);
	if (ranks)
		assert_string_equal(evidence(only(u, kind, "port_down"), "ranks_using")->text, ranks);
	else
		assert_null(evidence(only(u, kind, "port_down"), "ranks_using"));
	assert_int_equal(!link_cause_key(u->m, &u->list, model_proc(u->m, job_pid(0))), !ranks || *ranks != '0');
}

/* NCCL opens each device that has a port up, that of the storage, too. Where a rank has its queue pairs, it is. */
static void test_open_and_not_used(void **state)
{
	struct machine u = node_new();

	(void)state;
	quiet_steps(&u, 5);
	qp(&u, 0, "mlx5_0", 20, QP_CHANGED); /* it has all open */
	down_of(&u, FINDING_LINK, "1");
	qp(&u, 1, "mlx5_3", 21, QP_CHANGED);
	down_of(&u, FINDING_OBSERVATION, NULL);
	qp(&u, 0, "mlx5_1", 22, QP_CHANGED);
	down_of(&u, FINDING_LINK, "0");
	qp(&u, 0, "mlx5_1", 22, QP_GONE); /* with a device that is lost all of its own go */
	down_of(&u, FINDING_LINK, "0");
	qp(&u, 2, "", 23, QP_CHANGED); /* of what device is not known */
	down_of(&u, FINDING_LINK, "0");
	node_free(&u);
}

static void test_bad_index(void **state)
{
	struct machine u = node_new();
	struct event e = { .kind = EV_PORT_SAMPLE };

	(void)state;
	e.port.index = PORTS_MAX;
	assert_int_not_equal(model_apply(u.m, &e), 0);
	node_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_down),
		cmocka_unit_test(test_flap_by_the_counter),
		cmocka_unit_test(test_a_flap_is_reported_once),
		cmocka_unit_test(test_device_goes_and_comes),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_counters_that_grow),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_timeouts_without_traffic),
		cmocka_unit_test(test_losses_that_hold_a_job_up),
		cmocka_unit_test(test_a_fabric_that_reorders),
		cmocka_unit_test(test_set_back_and_not_reported),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_never_up),
		cmocka_unit_test(test_whose_it_is),
		cmocka_unit_test(test_open_and_not_used),
		cmocka_unit_test(test_bad_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
