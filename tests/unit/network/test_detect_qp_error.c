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
#include "tests/unit/job/finding_text.h"
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
	e.qp.now.by_kernel = to == QP_ERR;
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

/* As UCX does before it destroys one; what fails before its program closes it stays a fault. */
static void a_program_closes_it(void **state)
{
	struct event e = of_qp(EV_QP, 1, 18);

	(void)state;
	e.qp.now.change = QP_CHANGED;
	e.qp.now.state = QP_ERR;
	give(e);
	tick(0.1);
	assert_int_equal(list.n, 0);
	state_set(1, 18, QP_ERR); /* the kernel lists what the program asked for */
	tick(0.1);
	assert_int_equal(list.n, 0);
	state_set(1, 18, QP_RTS);
	state_set(1, 18, QP_ERR);
	give(e);
	tick(0.1);
	reported(FINDING_LINK, "queue_pair_error");
}

static void program_closes(int r, uint32_t qpn)
{
	struct event e = of_qp(EV_QP, r, qpn);

	e.qp.now.change = QP_CHANGED;
	e.qp.now.state = QP_ERR;
	give(e);
}

/* The device, or a completion, says that it is dead, and its library answers by putting it into error, to flush what is
 * posted. What was said before it last worked is no reason. */
static void what_failed_before_it_was_closed(void **state)
{
	struct event e = of_qp(EV_QP_ASYNC, 1, 18);

	e.qp.async.type = 1;
	e.qp.async.name = "QP fatal error";
	give(e);
	program_closes(1, 18);
	tick(0.1);
	assert_string_equal(evidence(reported(FINDING_LINK, "queue_pair_error"), "event")->text, "QP fatal error");
	end(state);
	begin(state);
	fail_with(1, 18, 12, "transport retry exceeded");
	program_closes(1, 18);
	tick(0.1);
	reported(FINDING_LINK, "transport_retries");
	end(state);
	begin(state);
	give(e);
	state_set(1, 18, QP_ERR);
	state_set(1, 18, QP_RTS);
	program_closes(1, 18);
	tick(0.1);
	assert_int_equal(list.n, 0);
}

/* What is no failure: all connections have these. */
static void what_is_said_of_a_healthy_one(void **state)
{
	static const uint32_t types[] = { 0, 4, 5, 6, 16 };
	struct event e = of_qp(EV_QP_ASYNC, 1, 18);

	(void)state;
	e.qp.async.name = "communication established";
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		e.qp.async.type = types[i];
		give(e);
	}
	program_closes(1, 18);
	fail_with(1, 18, 5, "flushed");
	tick(0.1);
	assert_int_equal(list.n, 0);
}

/* Flushed because it failed, as far as seen: then its program may do what it likes. */
static void what_is_flushed_before_it_is_closed(void **state)
{
	(void)state;
	fail_with(1, 18, 5, "flushed");
	program_closes(1, 18);
	tick(0.1);
	reported(FINDING_LINK, "queue_pair_error");
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

/* --- rule by rule: the detector alone --- */

extern const struct detector detector_qp_error;

static size_t look(uint64_t at_ns)
{
	m->now_ns = at_ns;
	list.n = 0;
	assert_int_equal(detector_qp_error.tick(NULL, m, &list), 0);
	return list.n;
}

static void what_a_status_means(void **state)
{
	static const char *const causes[] = {
		[9] = "request_refused",     [10] = "request_refused",
		[11] = "request_refused",    [12] = "transport_retries",
		[13] = "receiver_not_ready", [19] = "device_error",
		[20] = "transport_retries",  [21] = "device_error",
		[5] = "queue_pair_error",    [23] = NULL,
	};

	for (uint32_t status = 1; status < 24; status++) {
		const char *cause = causes[status] ? causes[status] : "bad_request";
		bool link = status == 5 || status == 12 || status > 18;

		fail_with(0, 17, status, "name");
		assert_int_equal(look(now), 1);
		if (strcmp(cause_name(list.items[0].cause), cause))
			fail_msg("%u: %s", status, cause_name(list.items[0].cause));
		assert_int_equal(list.items[0].kind,
				 link && strcmp(cause, "bad_request") ? FINDING_LINK : FINDING_OBSERVATION);
		assert_true(list.items[0].confidence == (status == 5 ? 0.6 : 0.8));
		end(state);
		begin(state);
	}
}

static void how_long_it_is_said(void **state)
{
	uint64_t error_ns, state_ns;

	(void)state;
	fail_with(0, 17, 12, "retry");
	error_ns = now;
	state_set(1, 17, QP_ERR);
	state_ns = now;
	assert_int_equal(look(error_ns + 60 * SEC - 1), 2);
	assert_int_equal(look(error_ns + 60 * SEC), 1);
	assert_int_equal(look(state_ns + 60 * SEC - 1), 1);
	assert_int_equal(look(state_ns + 60 * SEC), 0);
}

static void what_is_one_finding(void **state)
{
	(void)state;
	fail_with(0, 18, 12, "second");
	fail_with(0, 17, 20, "first");
	((struct qp *)qp_find(m, model_proc(m, job_pid(0)), 0, 17))->error_ns -= 5 * MSEC;
	assert_int_equal(look(now), 1);
	assert_int_equal((int)finding_number(&list.items[0], EVIDENCE_N_QUEUE_PAIRS), 2);
	assert_int_equal((int)finding_number(&list.items[0], EVIDENCE_QUEUE_PAIR), 17); /* the first that failed */
	assert_true(list.items[0].since_ns == now - 5 * MSEC);
	fail_with(1, 17, 12, "another rank's");
	assert_int_equal(look(now), 2);
	((struct qp *)qp_find(m, model_proc(m, job_pid(0)), 0, 17))->device = "mlx5_9";
	assert_int_equal(look(now), 3);
	((struct proc *)model_proc(m, job_pid(1)))->rank = -1;
	assert_int_equal(look(now), 2);
}

static void words(void **state)
{
	struct event e = of_qp(EV_QP_ASYNC, 0, 17);

	(void)state;
	fail_with(0, 17, 12, "transport retry exceeded");
	assert_int_equal(look(now), 1);
	assert_non_null(strstr(finding_text_of(&list.items[0]),
			       "\ndevice mlx5_0\nport 1\nnetdev eth0\nrank_using 0\nqueue_pair 17\nn_queue_pairs 1\n"));
	assert_non_null(strstr(finding_text_of(&list.items[0]), "\npeer_address 10.0.0.2\npeer_queue_pair 17\n"
								"status transport retry exceeded\nremedy "));
	e.qp.async.name = "QP fatal error";
	give(e);
	look(now);
	assert_non_null(strstr(finding_text_of(&list.items[0]), "\nevent QP fatal error\nremedy "));
	assert_int_equal(list.items[0].subject.port, 1);
}

static void what_is_not_known_of_it(void **state)
{
	struct qp *q = (struct qp *)qp_find(m, model_proc(m, job_pid(0)), 0, 17);

	(void)state;
	fail_with(0, 17, 12, "retry");
	q->has_gid = false;
	q->dest_qpn = 0;
	q->error_name = NULL;
	q->port = 2; /* of which nothing is known */
	look(now);
	assert_null(finding_evidence(&list.items[0], EVIDENCE_PORT));
	assert_null(finding_evidence(&list.items[0], EVIDENCE_NETDEV));
	assert_null(finding_evidence(&list.items[0], EVIDENCE_PEER_ADDRESS));
	assert_null(finding_evidence(&list.items[0], EVIDENCE_PEER_QUEUE_PAIR));
	assert_null(finding_evidence(&list.items[0], EVIDENCE_STATUS));
	q->port = 0; /* then it is the device's */
	look(now);
	assert_int_equal((int)finding_number(&list.items[0], EVIDENCE_PORT), 1);
	q->device = "";
	look(now);
	assert_string_equal(finding_text(&list.items[0], EVIDENCE_DEVICE), "unknown");
	assert_null(finding_evidence(&list.items[0], EVIDENCE_PORT));
}

/* A rank of its job that died before, or within a moment of it. */
static void whose_death_explains_it(void **state)
{
	struct proc *other = (struct proc *)model_proc(m, job_pid(1));
	uint64_t failed_ns;

	(void)state;
	now += 300 * SEC;
	fail_with(0, 17, 12, "retry");
	failed_ns = now;
	other->dead = true;
	other->exit_ns = failed_ns;
	look(now);
	assert_int_equal(list.items[0].cause, CAUSE_PEER_GONE);
	assert_int_equal(list.items[0].kind, FINDING_OBSERVATION);
	other->exit_ns = failed_ns - 120 * SEC + 1;
	look(now);
	assert_int_equal(list.items[0].cause, CAUSE_PEER_GONE);
	other->exit_ns--;
	look(now);
	assert_int_equal(list.items[0].cause, CAUSE_TRANSPORT_RETRIES);
	other->exit_ns = failed_ns;
	other->is_child = true;
	look(now);
	assert_int_equal(list.items[0].cause, CAUSE_TRANSPORT_RETRIES);
	other->is_child = false;
	other->job = NULL;
	look(now);
	assert_int_equal(list.items[0].cause, CAUSE_TRANSPORT_RETRIES);
}

/* Where all devices of a host fail, 64 findings say it, and what comes on top of these is left out. */
static void of_many_so_many_are_said(void **state)
{
	static char names[66][8];

	(void)state;
	for (int i = 0; i < 66; i++) {
		struct event e = of_qp(EV_QP_ERROR, 0, 100 + i);

		snprintf(names[i], sizeof(names[i]), "dev%d", i);
		e.qp.device = names[i];
		e.qp.error.status = 12;
		e.qp.error.name = "transport retry exceeded";
		give(e);
		look(now);
		assert_int_equal(list.n, i < 64 ? i + 1 : 64);
	}
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_transport),
		TEST(test_software),
		TEST(test_state),
		TEST(test_a_rank_died),
		TEST(test_its_port_is_down),
		TEST(what_a_status_means),
		TEST(how_long_it_is_said),
		TEST(what_is_one_finding),
		TEST(words),
		TEST(what_is_not_known_of_it),
		TEST(whose_death_explains_it),
		TEST(of_many_so_many_are_said),
		TEST(a_program_closes_it),
		TEST(what_failed_before_it_was_closed),
		TEST(what_is_said_of_a_healthy_one),
		TEST(what_is_flushed_before_it_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
