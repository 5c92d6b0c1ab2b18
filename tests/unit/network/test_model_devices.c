/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_devices.c - hosts and what is theirs in the model, at its bounds: hosts by number, GPUs and who computes
 * on them, XIDs told twice, ports, TCP connections and which two are the ends of one, posts of an operation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define EINVAL_IS (-22)

static struct model *m;
static uint64_t now;

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	return 0;
}

static int done(void **state)
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

static int refused(struct event e)
{
	e.ts_ns = now;
	return model_apply(m, &e) == EINVAL_IS;
}

/* --- hosts --- */

static void hosts_by_number(void **state)
{
	struct event e = { .kind = EV_NODE };

	(void)state;
	assert_non_null(model_node(m, 0));
	assert_null(model_node(m, 1));
	e.host.name = "far";
	e.node = NODES_MAX - 1;
	give(e);
	assert_string_equal(model_node(m, NODES_MAX - 1)->name, "far");
	assert_true(m->merged);
	assert_true(model_next_node(m, NULL) == model_node(m, 0));
	assert_true(model_next_node(m, model_node(m, 0)) == model_node(m, NODES_MAX - 1));
	assert_null(model_next_node(m, model_node(m, NODES_MAX - 1)));
	e.node = NODES_MAX;
	assert_true(refused(e));
	e.node = 3;
	e.host.name = "near";
	e.host.clock_offset_ns = -5;
	e.host.clock_error_ns = 9;
	give(e);
	e = job_event(EV_TASK, 0, 0);
	e.node = 3;
	give(e);
	assert_int_equal(model_node(m, 3)->n_procs, 1);
	assert_int_equal(model_node(m, 0)->n_procs, 0);
	assert_true(model_node(m, 3)->clock_offset_ns == -5 && model_node(m, 3)->clock_error_ns == 9);
}

/* --- GPUs --- */

static void computes_on(uint32_t gpu, uint32_t n, const uint32_t *pids)
{
	struct event e = { .kind = EV_GPU_PROCS };

	e.gpu_procs.index = gpu;
	e.gpu_procs.n = n;
	memcpy(e.gpu_procs.pids, pids, n * sizeof(*pids));
	give(e);
}

static void answers(uint32_t gpu, enum gpu_answer answer, uint64_t since_ns)
{
	struct event e = { .kind = EV_GPU_STATE };

	e.gpu_state.index = gpu;
	e.gpu_state.answer = answer;
	e.gpu_state.since_ns = since_ns;
	give(e);
}

/* As the driver counts, where its process has one alone; else as the process does. */
static void whose_gpu_it_is(void **state)
{
	const uint32_t both[] = { job_pid(0), job_pid(1) }, first[] = { job_pid(0) }, other[] = { 4711 };
	const struct member *mb[2];

	(void)state;
	for (int r = 0; r < 2; r++) {
		struct event e = job_seen_event(r, 2, 7, 9);

		e.comm_seen.device = r;
		give(e);
		mb[r] = model_proc(m, job_pid(r))->members;
		assert_int_equal(member_gpu(mb[r]), r);
		assert_null(proc_gpu(model_proc(m, job_pid(r))));
	}
	computes_on(2, 1, other);
	computes_on(3, 2, both);
	computes_on(5, 1, other);
	assert_int_equal(member_gpu(mb[0]), 3);
	assert_int_equal(member_gpu(mb[1]), 3);
	assert_true(proc_gpu(mb[1]->proc) == node_gpu(m->nodes[0], 3));
	computes_on(4, 1, first);
	assert_int_equal(member_gpu(mb[0]), 0); /* two: which, is not known */
	assert_int_equal(member_gpu(mb[1]), 3);
	computes_on(3, 0, first); /* nobody does any more, says a GPU that is there */
	assert_int_equal(member_gpu(mb[0]), 4);
	answers(4, GPU_IS_LOST, 7);
	computes_on(4, 0, first); /* a lost one knows nobody: who did is remembered */
	assert_int_equal(member_gpu(mb[0]), 4);
	answers(4, GPU_IS_LOST, 8);
	assert_int_equal(node_gpu(m->nodes[0], 4)->answer_ns, 7); /* lost since then */
	answers(4, GPU_IS_THERE, 9);
	assert_int_equal(node_gpu(m->nodes[0], 4)->answer_ns, 9);
	assert_null(node_gpu(m->nodes[0], 9));
	assert_null(node_gpu_at(m->nodes[0], GPU_PCI_NONE));
	answers(GPU_INDEX_ALL, GPU_NO_ANSWER, 11);
	assert_true(m->nodes[0]->gpus.driver == GPU_NO_ANSWER && m->nodes[0]->gpus.driver_ns == 11);
}

static void gpus_by_index(void **state)
{
	static const uint32_t order[] = { 5, 0, GPUS_MAX - 1, 2 };
	struct event e = { .kind = EV_GPU_DEVICE };
	uint32_t last = 0;
	int n = 0;

	(void)state;
	e.gpu_name = e.gpu_uuid = "";
	for (int i = 0; i < 4; i++) {
		e.gpu_device.index = order[i];
		e.gpu_device.pci = 100 + order[i];
		e.gpu_device.n_nvlinks = GPU_NO_VALUE;
		give(e);
	}
	for (const struct gpu *g = m->nodes[0]->gpus.all; g; g = g->next, n++) {
		assert_true(!n || g->device.index > last);
		last = g->device.index;
	}
	assert_int_equal(n, 4);
	assert_int_equal(node_gpu_at(m->nodes[0], 102)->device.index, 2);
	e.gpu_device.index = GPUS_MAX;
	assert_true(refused(e));
	e = (struct event){ .kind = EV_GPU_STATE };
	e.gpu_state.index = GPUS_MAX;
	assert_true(refused(e));
}

/* The most links that there ever were. */
static void links_of_a_gpu(void **state)
{
	static const uint32_t told[] = { GPU_NO_VALUE, 12, 18, 17, GPU_NO_VALUE, 18 },
			      kept[] = { GPU_NO_VALUE, 12, 18, 18, 18, 18 };
	struct event e = { .kind = EV_GPU_DEVICE };

	(void)state;
	e.gpu_name = e.gpu_uuid = "";
	for (int i = 0; i < 6; i++) {
		e.gpu_device.n_nvlinks = told[i];
		give(e);
		assert_int_equal(m->nodes[0]->gpus.all->device.n_nvlinks, kept[i]);
	}
}

static void looks_and_checkups(void **state)
{
	struct event e = { .kind = EV_GPU_HEALTH };
	const struct gpu *g;

	(void)state;
	for (uint32_t i = 0; i < GPU_HEALTHS_KEPT + 1; i++) {
		now += 1;
		e.kind = EV_GPU_HEALTH;
		memset(&e.gpu_health, 0, sizeof(e.gpu_health));
		e.gpu_health.index = 1;
		give(e);
		e.kind = EV_GPU_SAMPLE;
		memset(&e.gpu_sample, 0, sizeof(e.gpu_sample));
		e.gpu_sample.index = 1;
		give(e);
	}
	g = node_gpu(m->nodes[0], 1);
	assert_true(g->n_checkups == GPU_HEALTHS_KEPT + 1 && g->n_samples == GPU_HEALTHS_KEPT + 1);
	assert_int_equal(g->checkups[0].ts_ns, now); /* a ring */
	assert_int_equal(g->checkups[1].ts_ns, now - GPU_HEALTHS_KEPT + 1);
	assert_int_equal(g->samples[0].ts_ns, now - GPU_HEALTHS_KEPT);
	assert_int_equal(g->samples[GPU_HEALTHS_KEPT].ts_ns, now);
}

static void xid(uint32_t number, uint64_t pci, bool of_switch, uint32_t pid)
{
	struct event e = { .kind = EV_XID };

	e.kernel_log.xid = number;
	e.kernel_log.pci = pci;
	e.kernel_log.of_switch = of_switch;
	e.kernel_log.pid = pid;
	e.kernel_log.text = "";
	give(e);
}

/* One error comes by the tracepoint and by the log: within five seconds of the last it is the same. */
static void errors_told_twice(void **state)
{
	const struct gpus *all = &m->nodes[0]->gpus;

	(void)state;
	xid(79, 1, false, 0);
	now += 5 * SEC;
	xid(79, 1, false, 44);
	assert_int_equal(all->n_xids, 1);
	assert_true(all->xids[0].n == 2 && all->xids[0].pid == 44 && all->xids[0].last_ns == now &&
		    all->xids[0].ts_ns == JOB_T0);
	now += 5 * SEC;
	xid(79, 1, false, 55);
	assert_true(all->n_xids == 1 && all->xids[0].pid == 44);
	xid(79, 2, false, 0);
	xid(80, 1, false, 0);
	xid(79, 1, true, 0);
	assert_int_equal(all->n_xids, 4);
	xid(79, 1, false, 0); /* behind others */
	assert_int_equal(all->n_xids, 4);
	assert_int_equal(all->xids[0].n, 4);
	now += 5 * SEC + 1;
	xid(79, 1, false, 0);
	assert_int_equal(all->n_xids, 5);
	for (int i = 0; i < 2 * XIDS_KEPT; i++)
		xid(100 + i, 1, false, 0);
	assert_int_equal(all->n_xids, 5 + 2 * XIDS_KEPT);
	xid(100 + XIDS_KEPT, 1, false, 0); /* the oldest that is kept */
	assert_int_equal(all->n_xids, 5 + 2 * XIDS_KEPT);
	xid(99 + XIDS_KEPT, 1, false, 0);
	assert_int_equal(all->n_xids, 6 + 2 * XIDS_KEPT);
}

static void pressure_of_a_host_and_of_a_process(void **state)
{
	struct event e = { .kind = EV_PRESSURE };

	(void)state;
	for (uint64_t i = 1; i <= 2; i++) {
		now += SEC;
		e.tgid = 0;
		e.pressure.throttled_ns = i;
		give(e);
		e.tgid = job_pid(0);
		e.pressure.throttled_ns = 10 * i;
		give(e);
	}
	assert_true(m->nodes[0]->pressure.now.throttled_ns == 2 && m->nodes[0]->pressure.prev.throttled_ns == 1);
	assert_true(m->nodes[0]->pressure.ts_ns == now && m->nodes[0]->pressure.prev_ns == now - SEC);
	assert_int_equal(model_proc(m, job_pid(0))->pressure.now.throttled_ns, 20);
	assert_int_equal(model_proc(m, job_pid(0))->pressure.prev.throttled_ns, 10);
}

/* --- ports --- */

static void ports_by_index(void **state)
{
	static const uint32_t order[] = { 4, 1, PORTS_MAX - 1 };
	uint64_t counters[PORT_COUNTERS] = { 5, 6 };
	struct event e = { .kind = EV_PORT };
	const struct port *p;

	(void)state;
	for (int i = 0; i < 3; i++) {
		e.port.id = (struct port_id){ .index = order[i], .numa_node = 1 };
		e.port.device = "mlx5_0";
		e.port.netdev = e.port.pci = e.port.kind = e.port.layer = "";
		give(e);
	}
	p = model_next_port(m, NULL);
	assert_true(p->id.index == 1 && p->next->id.index == 4 && p->next->next->id.index == PORTS_MAX - 1);
	for (uint64_t i = 0; i <= PORT_SAMPLES_KEPT; i++) {
		e = (struct event){ .kind = EV_PORT_SAMPLE };
		counters[0] = 50 + i;
		e.port.sample = (struct port_status){ .index = 1, .n_counters = 2 };
		e.port.counters = counters;
		now += MSEC;
		give(e);
	}
	assert_int_equal(p->first.counters[0], 50);
	assert_int_equal(p->n_samples, PORT_SAMPLES_KEPT + 1);
	assert_true(port_sample(p, 0)->counters[1] == 6 && port_sample(p, 0)->counters[2] == PORT_NOT_COUNTED);
	assert_int_equal(port_grown(port_sample(p, 0), port_sample(p, 3), 0), 3);
	assert_int_equal(port_grown(port_sample(p, 3), port_sample(p, 0), 0), 0);
	assert_int_equal(port_grown(port_sample(p, 0), port_sample(p, 3), 2), 0);
	assert_null(port_sample(p, PORT_SAMPLES_KEPT));
	e = (struct event){ .kind = EV_PORT_USERS };
	e.port.users = (struct port_users){ .index = 1, .n = 2, .pids = { 4711, job_pid(0) } };
	give(e);
	give(job_event(EV_TASK, 0, 0));
	give(job_event(EV_TASK, 1, 0));
	assert_true(port_has_proc(p, model_proc(m, job_pid(0))));
	assert_false(port_has_proc(p, model_proc(m, job_pid(1))));
	assert_false(port_has_proc(p->next, model_proc(m, job_pid(0))));
	e.port.index = PORTS_MAX;
	assert_true(refused(e));
}

/* --- TCP --- */

static void connects(uint32_t node, uint32_t index, uint16_t from, uint16_t to, uint64_t netns)
{
	struct event e = job_event(EV_TCP, 0, 0);

	e.node = node;
	e.tcp.id = (struct tcp_id){ .index = index, .local_port = from, .remote_port = to, .netns = netns };
	e.tcp.local = e.tcp.remote = "10.0.0.1";
	e.tcp.netdev = "eth0";
	give(e);
}

static void tcp_sampled(uint32_t node, uint32_t index, uint8_t flags, uint64_t first)
{
	uint64_t counters[TCP_COUNTERS] = { first, 7 };
	struct event e = job_event(EV_TCP_SAMPLE, 0, 0);

	e.node = node;
	e.tcp.sample = (struct tcp_status){ .index = index, .flags = flags, .n_counters = 2 };
	e.tcp.counters = counters;
	give(e);
}

static void both_ends(void **state)
{
	const struct tcp_connection *a, *b, *c;

	(void)state;
	connects(0, 5, 1000, 2000, 1);
	a = tcp_connection_of(m, 0, 5);
	assert_true(a && a->index == 5 && !a->peer && m->tcp.n == 6);
	connects(0, 3, 2000, 1000, 2);
	b = tcp_connection_of(m, 0, 3);
	assert_true(a->peer == b && b->peer == a); /* the only one that fits */
	connects(0, 7, 2000, 1000, 3);
	c = tcp_connection_of(m, 0, 7);
	assert_true(!a->peer && b->peer == a && c->peer == a); /* two do */
	connects(0, 8, 2000, 1000, 1);
	assert_true(a->peer == tcp_connection_of(m, 0, 8)); /* one is in its own namespace */
	connects(0, 9, 2000, 1000, 1);
	assert_true(a->peer == tcp_connection_of(m, 0, 9)); /* the number that was given later */
	tcp_sampled(0, 9, TCP_GONE, 0);
	assert_null(tcp_connection_of(m, 0, 9));
	assert_int_equal(m->tcp.n, 9);
	assert_true(a->peer == tcp_connection_of(m, 0, 8));
	tcp_sampled(0, 8, TCP_GONE, 0);
	tcp_sampled(0, 7, TCP_GONE, 0);
	assert_true(a->peer == b);
	assert_int_equal(m->tcp.n, 6);
	connects(0, 3, 2001, 1000, 2); /* the number is given again */
	assert_null(a->peer);
	assert_true(tcp_connection_of(m, 0, 3)->id != 2);
	tcp_sampled(0, 100, 0, 1); /* never told of */
	assert_null(tcp_connection_of(m, 0, 100));
}

static void places_of_other_hosts(void **state)
{
	struct event e = job_event(EV_TCP, 0, 0);
	uint32_t first;

	(void)state;
	connects(0, TCP_CONNECTIONS_MAX - 1, 1, 2, 1);
	assert_int_equal(tcp_connection_of(m, 0, TCP_CONNECTIONS_MAX - 1)->index, TCP_CONNECTIONS_MAX - 1);
	for (uint32_t i = 0; i < 3; i++)
		connects(1 + i % 2, i, 10 + i, 20 + i, 1);
	first = tcp_connection_of(m, 1, 0)->index;
	assert_int_equal(first, TCP_CONNECTIONS_MAX);
	assert_int_equal(tcp_connection_of(m, 2, 1)->index, first + 1);
	assert_int_equal(tcp_connection_of(m, 1, 2)->index, first + 2);
	assert_null(tcp_connection_of(m, 2, 0));
	assert_null(tcp_connection_of(m, 0, 0));
	assert_null(tcp_connection_of(m, 7, 0));
	tcp_sampled(2, 1, TCP_GONE, 0);
	tcp_sampled(1, 0, TCP_GONE, 0);
	connects(2, 50, 30, 40, 1); /* the first place that is free */
	assert_int_equal(tcp_connection_of(m, 2, 50)->index, first);
	connects(2, 51, 31, 41, 1);
	assert_int_equal(tcp_connection_of(m, 2, 51)->index, first + 1);
	connects(2, 52, 32, 42, 1);
	assert_int_equal(tcp_connection_of(m, 2, 52)->index, first + 3);
	assert_int_equal(m->tcp.n, first + 4);
	assert_null(tcp_connection_at(m, first + 4));
	for (uint32_t i = 0; i < 1000; i++)
		connects(3, i, 100 + i, 5, 1);
	assert_int_equal(tcp_connection_of(m, 3, 999)->index, first + 4 + 999);
	assert_true(tcp_connection_of(m, 0, TCP_CONNECTIONS_MAX - 1)->local_port == 1);
	e.tcp.index = TCP_CONNECTIONS_MAX;
	assert_true(refused(e));
	assert_null(tcp_connection_of(m, 0, TCP_CONNECTIONS_MAX));
}

static void samples_of_a_connection(void **state)
{
	const struct tcp_connection *c;

	(void)state;
	connects(0, 0, 1, 2, 1);
	c = tcp_connection_of(m, 0, 0);
	for (uint64_t i = 0; i <= TCP_SAMPLES_KEPT; i++)
		tcp_sampled(0, 0, 0, 100 + i);
	assert_int_equal(c->n_samples, TCP_SAMPLES_KEPT + 1);
	assert_int_equal(tcp_sample_at(c, 0)->counters[0], 100 + TCP_SAMPLES_KEPT);
	assert_int_equal(tcp_value(tcp_sample_at(c, 0), 1, 9), 7);
	assert_int_equal(tcp_value(tcp_sample_at(c, 0), 2, 9), 9);
	assert_int_equal(tcp_grown(tcp_sample_at(c, 0), tcp_sample_at(c, 2), 0), 2);
	assert_int_equal(tcp_grown(tcp_sample_at(c, 2), tcp_sample_at(c, 0), 0), 0);
	assert_int_equal(tcp_grown(tcp_sample_at(c, 0), tcp_sample_at(c, 2), 2), 0);
	assert_null(tcp_sample_at(c, TCP_SAMPLES_KEPT));
}

/* --- posts of an operation --- */

static const struct op *posts(uint64_t first_ns, uint64_t last_ns)
{
	struct event e = job_event(EV_QP_BURST, 0, 0);

	e.qp.qpn = 17;
	e.qp.device = "";
	e.qp.burst.posts = 1;
	e.qp.burst.bytes = 10;
	e.qp.burst.first_ns = first_ns;
	e.qp.burst.last_ns = last_ns;
	give(e);
	return model_proc(m, job_pid(0))->last_op;
}

/* It was enqueued before the first of them, and was not over before. */
static void posts_at_the_ends_of_an_operation(void **state)
{
	struct event e = job_event(EV_SYNC_END, 0, 0);
	uint64_t called_ns = now;
	const struct op *op;

	(void)state;
	give(job_call_event(0, OP_ALLREDUCE, 7, 100, 5));
	assert_int_equal(posts(called_ns - 20, called_ns - 1)->net.posts, 0);
	assert_false(posts(called_ns - 20, called_ns - 1)->net.shared);
	assert_int_equal(posts(called_ns, called_ns)->net.posts, 1);
	assert_int_equal(posts(called_ns - 1, called_ns)->net.posts, 1);
	assert_true(posts(called_ns - 1, called_ns)->net.shared);
	now += SEC;
	e.sync.handle = 100;
	e.sync.begin_ns = now;
	now += SEC;
	give(e);
	op = posts(now, now + 5);
	assert_int_equal(op->net.posts, 2);
	assert_int_equal(posts(now + 1, now + 5)->net.posts, 2);
	assert_true(op->net.first_ns == called_ns && op->net.last_ns == now + 5 && op->net.bytes == 20);
}

/* One of the last 256 operations of its process. */
static void posts_of_long_ago(void **state)
{
	uint64_t called_ns = now;
	struct event e = job_event(EV_SYNC_END, 0, 0);

	(void)state;
	give(job_call_event(0, OP_ALLREDUCE, 7, 100, 5));
	now += MSEC;
	e.sync.handle = 100;
	e.sync.begin_ns = now;
	now += MSEC;
	give(e);
	now += SEC;
	for (int i = 0; i < 255; i++)
		give(job_call_event(0, OP_ALLREDUCE, 8, 100, 5));
	posts(called_ns, called_ns + 1);
	assert_int_equal(model_proc(m, job_pid(0))->members->next_in_proc->ops->net.posts, 1);
	give(job_call_event(0, OP_ALLREDUCE, 8, 100, 5));
	posts(called_ns, called_ns + 1);
	assert_int_equal(model_proc(m, job_pid(0))->members->next_in_proc->ops->net.posts, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(hosts_by_number),
		TEST(whose_gpu_it_is),
		TEST(gpus_by_index),
		TEST(links_of_a_gpu),
		TEST(looks_and_checkups),
		TEST(errors_told_twice),
		TEST(pressure_of_a_host_and_of_a_process),
		TEST(ports_by_index),
		TEST(both_ends),
		TEST(places_of_other_hosts),
		TEST(samples_of_a_connection),
		TEST(posts_at_the_ends_of_an_operation),
		TEST(posts_of_long_ago),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
