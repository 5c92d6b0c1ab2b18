/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_qp_error.c - detector qp_error: a transport that gave up names device, queue pair and far end, and no
 * rank; a refused request is no link's; after a rank died, and where its port is known to be down, it is a consequence;
 * flushes count as the first one's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static const uint8_t gids[2][16] = { { [10] = 0xff, 0xff, 10, 0, 0, 1 }, { [10] = 0xff, 0xff, 10, 0, 0, 2 } };
static const char *const devices[2] = { "mlx5_0", "mlx5_1" };

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static struct event of_qp(enum event_kind kind, int r, uint32_t qpn)
{
	struct event e = job_event(kind, r, 0);

	e.qp.context = 0x10;
	e.qp.device = devices[r];
	e.qp.qpn = qpn;
	return e;
}

static void state_set(int r, uint32_t qpn, uint8_t to)
{
	struct event e = of_qp(EV_QP, r, qpn);

	e.qp.now.change = QP_CHANGED;
	e.qp.now.state = to;
	e.qp.now.port = 1;
	e.qp.now.dest_qpn = qpn;
	e.qp.now.has_gid = true;
	memcpy(e.qp.now.gid, gids[!r], 16);
	give(e);
}

static void port_new(int r, uint8_t state)
{
	const uint32_t pids[] = { job_pid(r) };
	uint64_t counters[PORT_COUNTERS] = { 0 };
	struct event e = { .kind = EV_PORT };

	e.port.index = r;
	e.port.id.number = 1;
	e.port.device = devices[r];
	e.port.netdev = r ? "eth1" : "eth0";
	e.port.pci = e.port.layer = "";
	e.port.kind = "mlx5";
	give(e);
	e = (struct event){ .kind = EV_PORT_USERS };
	e.port.index = r;
	e.port.users.known = true;
	e.port.users.n = 1;
	memcpy(e.port.users.pids, pids, e.port.users.n * sizeof(pids[0]));
	give(e);
	e = (struct event){ .kind = EV_PORT_SAMPLE };
	e.port.index = r;
	e.port.sample.taken_ns = now;
	e.port.sample.state = state;
	e.port.sample.rate_mbps = e.port.sample.lanes = PORT_NO_VALUE;
	e.port.sample.n_counters = PORT_COUNTERS;
	e.port.counters = counters;
	give(e);
}

/* Two ranks, two connections between them. */
static int begin(void **state)
{
	(void)state;
	m = model_new();
	d = detectors_new();
	now = JOB_T0;
	for (int r = 0; r < 2; r++) {
		struct event e = job_event(EV_PROC, r, 0);
		struct event g = { .kind = EV_GIDS };

		e.proc = (typeof(e.proc)){ .start_ns = 1,
					   .rank = r,
					   .local_rank = r,
					   .world_size = 2,
					   .job = "job",
					   .name = "train",
					   .container = "",
					   .pod = "" };
		give(e);
		port_new(r, PORT_STATE_ACTIVE);
		g.qp.device = devices[r];
		g.qp.own.port = g.qp.own.n = 1;
		g.qp.own.gids = &gids[r];
		give(g);
	}
	for (int r = 0; r < 2; r++)
		for (uint32_t qpn = 17; qpn < 19; qpn++)
			state_set(r, qpn, QP_RTS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
	return 0;
}

static void tick(double seconds)
{
	now += (uint64_t)(seconds * SEC);
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(detectors_tick(d, m, &list), 0);
}

static void fail_with(int r, uint32_t qpn, uint32_t status, const char *name)
{
	struct event e = of_qp(EV_QP_ERROR, r, qpn);

	e.qp.error.status = status;
	e.qp.error.name = name;
	give(e);
}

static const struct evidence *evidence(const struct finding *f, const char *name)
{
	return evidence_named(f, name);
}

static const struct finding *reported(enum finding_kind kind, const char *cause)
{
	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == kind && !strcmp(cause_name(list.items[i].cause), cause)) {
			assert_int_equal(list.items[i].n_ranks, 0);
			return &list.items[i];
		}
	for (size_t i = 0; i < list.n; i++)
		printf("there is %s %s\n", finding_kind_name(list.items[i].kind), cause_name(list.items[i].cause));
	fail();
	return NULL;
}

static void test_transport(void **state)
{
	const struct finding *f;

	(void)state;
	tick(1);
	assert_int_equal(list.n, 0);
	fail_with(0, 17, 12, "transport retry exceeded");
	fail_with(0, 18, 12, "transport retry exceeded");
	tick(0.1);
	assert_int_equal(list.n, 1);
	f = reported(FINDING_LINK, "transport_retries");
	assert_string_equal(evidence(f, "device")->text, "mlx5_0");
	assert_string_equal(evidence(f, "netdev")->text, "eth0");
	assert_int_equal(evidence(f, "rank_using")->number, 0);
	assert_int_equal(evidence(f, "peer_rank")->number, 1);
	assert_string_equal(evidence(f, "peer_address")->text, "10.0.0.2");
	assert_int_equal(evidence(f, "queue_pair")->number, 17);
	assert_int_equal(evidence(f, "n_queue_pairs")->number, 2);
	assert_string_equal(evidence(f, "status")->text, "transport retry exceeded");
	tick(61);
	assert_int_equal(list.n, 0);
}

static void test_software(void **state)
{
	(void)state;
	fail_with(0, 17, 10, "remote access error");
	fail_with(1, 18, 13, "RNR retry exceeded");
	fail_with(1, 17, 4, "local protection error");
	tick(0.1);
	assert_int_equal(list.n, 3);
	reported(FINDING_OBSERVATION, "request_refused");
	reported(FINDING_OBSERVATION, "receiver_not_ready");
	reported(FINDING_OBSERVATION, "bad_request");
}

static void test_state(void **state)
{
	(void)state;
	state_set(1, 18, QP_ERR);
	tick(0.1);
	assert_string_equal(evidence(reported(FINDING_LINK, "queue_pair_error"), "device")->text, "mlx5_1");
	state_set(1, 18, QP_RTS); /* made anew */
	tick(0.1);
	assert_int_equal(list.n, 0);
}

static void test_a_rank_died(void **state)
{
	struct event e = job_event(EV_EXIT, 1, 0);

	(void)state;
	tick(1);
	e.exit.last = true;
	give(e);
	tick(30);
	fail_with(0, 17, 12, "transport retry exceeded");
	tick(0.1);
	assert_int_equal(evidence(reported(FINDING_OBSERVATION, "peer_gone"), "rank_dead")->number, 1);
	for (size_t i = 0; i < list.n; i++)
		assert_int_not_equal(list.items[i].kind, FINDING_LINK);
}

static void test_its_port_is_down(void **state)
{
	const struct finding *f, *down;

	(void)state;
	tick(1);
	port_new(0, PORT_STATE_DOWN);
	tick(2);
	fail_with(0, 17, 12, "transport retry exceeded");
	tick(0.1);
	down = reported(FINDING_LINK, "port_down");
	f = reported(FINDING_LINK, "transport_retries");
	assert_true(down->key && f->caused_by_key == down->key);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_transport),   TEST(test_software),         TEST(test_state),
		TEST(test_a_rank_died), TEST(test_its_port_is_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
