/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_large.c - what grows with the job takes time that grows with it, and not with its square: processes with
 * children, communicators that come and go, TCP connections. Each would take minutes if every one walked all others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "model/model.h"
#include "tests/unit/job/job_script.h"

#define LONGEST_S 10.0

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* what others do on the machine is not counted */
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void apply(struct model *m, struct event e)
{
	e.ts_ns = JOB_T0;
	assert_int_equal(model_apply(m, &e), 0);
}

static void proc_add(struct model *m, uint32_t node, uint32_t tgid, uint32_t parent, int rank, bool child)
{
	struct event e = { .kind = EV_PROC, .node = node, .tgid = tgid, .tid = tgid };

	e.proc.parent_tgid = parent;
	e.proc.rank = rank;
	e.proc.local_rank = rank % 8;
	e.proc.world_size = 100000;
	e.proc.job = "large";
	e.proc.is_child = child;
	apply(m, e);
}

/* Children given before their rank, and behind it from a parent that is not known. */
static void test_ranks(void **state)
{
	const int n = 100000;
	struct model *m = model_new();
	double begin = now_s();

	(void)state;
	for (int r = 0; r < n; r++) {
		proc_add(m, r / 8, 100 + 10 * (r % 8), 1, r, true);
		proc_add(m, r / 8, 101 + 10 * (r % 8), 1, r, false);
		proc_add(m, r / 8, 102 + 10 * (r % 8), 99, r, true);
	}
	for (int r = 0; r < n; r++) {
		const struct proc *own = model_proc(m, proc_key(r / 8, 101 + 10 * (r % 8)));

		assert_ptr_equal(model_rank(m, NULL, r), own);
		assert_ptr_equal(model_proc(m, proc_key(r / 8, 100 + 10 * (r % 8)))->leader, own);
		assert_ptr_equal(model_proc(m, proc_key(r / 8, 102 + 10 * (r % 8)))->leader, own);
	}
	assert_null(model_rank(m, NULL, n));
	assert_true(now_s() - begin < LONGEST_S);
	model_free(m);
}

/* Of two of one rank the living one, else the newest; a process whose rank is another now is that one's. */
static void test_one_rank(void **state)
{
	struct model *m = model_new();
	struct event e = { .kind = EV_EXIT, .tgid = 101, .tid = 101 };

	(void)state;
	proc_add(m, 0, 101, 1, 3, false);
	proc_add(m, 0, 102, 1, 3, false);
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 102);
	proc_add(m, 0, 102, 1, 4, false);
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 101);
	assert_int_equal(model_rank(m, NULL, 4)->tgid, 102);
	proc_add(m, 0, 103, 1, 3, false);
	e.exit.last = true;
	e.tgid = e.tid = 103;
	apply(m, e);
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 101); /* the newer one is dead */
	e.tgid = e.tid = 101;
	apply(m, e);
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 103);
	model_free(m);
}

/* Each member is met in a communicator of its own, and joins another once that is known. */
static void test_communicators(void **state)
{
	const int n = 100000, n_procs = 200; /* on two hosts: one process, and one host, has a bound */
	struct model *m = model_new();
	double begin = now_s();

	(void)state;
	for (int i = 0; i < n_procs; i++)
		proc_add(m, i % 2, 100 + i, 1, i, false);
	for (int i = 0; i < n; i++) {
		uint32_t proc = i / 2 % n_procs;
		struct event e = { .kind = EV_COMM_SAMPLE, .node = proc % 2, .tgid = 100 + proc, .tid = 100 + proc };

		e.comm_sample.comm = 0x1000 * (uint64_t)(i + 1);
		e.comm_sample.hash = 7 + i / 2; /* two of each */
		e.comm_sample.rank = i % 2;
		e.comm_sample.nranks = 2;
		apply(m, e);
	}
	assert_int_equal(m->n_comms, n / 2);
	assert_true(now_s() - begin < LONGEST_S);
	model_free(m);
}

static void connect_to(struct model *m, uint32_t node, uint32_t index, const char *local, const char *remote,
		       uint16_t local_port, uint16_t remote_port)
{
	struct event e = { .kind = EV_TCP, .node = node, .tgid = 101, .tid = 101 };

	e.tcp.index = index;
	e.tcp.id.netns = node + 1;
	e.tcp.local = local;
	e.tcp.remote = remote;
	e.tcp.netdev = "eth0";
	e.tcp.id.local_port = local_port;
	e.tcp.id.remote_port = remote_port;
	apply(m, e);
}

#define HOSTS 1000
#define PER_HOST 100
static char addresses[HOSTS][16];

/* A ring: each host has so many connections to the next one. */
static void test_tcp(void **state)
{
	struct model *m = model_new();
	struct event gone = { .kind = EV_TCP_SAMPLE, .tgid = 101 };
	double begin = now_s();
	int n_peers = 0;

	(void)state;
	for (int h = 0; h < HOSTS; h++)
		snprintf(addresses[h], sizeof(addresses[h]), "10.0.%d.%d", h / 250, h % 250);
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < PER_HOST; i++) {
			int next = (h + 1) % HOSTS;

			connect_to(m, h, 2 * i, addresses[h], addresses[next], 1000 + i, 5000);
			connect_to(m, next, 2 * i + 1, addresses[next], addresses[h], 5000, 1000 + i);
		}
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < PER_HOST; i++) {
			const struct tcp_connection *c = tcp_connection_of(m, h, 2 * i), *o;

			o = tcp_connection_of(m, (h + 1) % HOSTS, 2 * i + 1);
			n_peers += c->peer == o && o->peer == c;
		}
	assert_int_equal(n_peers, HOSTS * PER_HOST);
	gone.tcp.sample.flags = TCP_GONE;
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < PER_HOST; i++) {
			gone.node = h;
			gone.tcp.index = 2 * i;
			apply(m, gone);
			assert_null(tcp_connection_of(m, (h + 1) % HOSTS, 2 * i + 1)->peer);
		}
	connect_to(m, 3, 0, addresses[3], addresses[4], 1000, 5000); /* takes a place that is free again */
	assert_ptr_equal(tcp_connection_of(m, 3, 0)->peer, tcp_connection_of(m, 4, 1));
	assert_true(m->tcp.n <= TCP_CONNECTIONS_MAX + 2 * HOSTS * PER_HOST);
	assert_true(now_s() - begin < LONGEST_S);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_communicators),
		cmocka_unit_test(test_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
