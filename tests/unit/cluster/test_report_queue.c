/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report_queue.c - which report of a host a newer one may take the place of: where that loses nothing, and no
 * other.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/report_queue.h"

#define MSEC 1000000ull
#define SEC 1000000000ull

static struct report_queue queue;
static int hosts[REPORT_QUEUE_MAX + 1]; /* by address */

static struct sample { /* what a report says; a second passes between each two of them, or `step_ns` */
	uint64_t now_ns, agent, sequence;
	bool has_process, dead, paused, has_gpu;
	const char *finding; /* its id; NULL none */
	uint32_t state;      /* of its thread */
	uint64_t since_ns;
	bool has_stack;
	int async_result;
	uint64_t hash; /* of its communicator */
	uint64_t signatures_to;
} is;

static void member_fill(Cluster__Member *mb)
{
	*mb = (Cluster__Member)CLUSTER__MEMBER__INIT;
	mb->has_addr = mb->has_hash = mb->has_ended = mb->has_ended_ns = mb->has_ended_error_ns = 1;
	mb->has_transfers_ended = mb->has_transfers_ended_ns = mb->has_async_result = 1;
	mb->addr = 0x1000;
	mb->hash = is.hash;
	mb->async_result = is.async_result;
	mb->ended = 3;
	mb->ended_ns = 30 * MSEC;
	mb->ended_error_ns = MSEC;
	mb->transfers_ended = 2;
	mb->transfers_ended_ns = 5 * MSEC;
	mb->has_signatures_to = mb->has_signatures_hash = is.signatures_to != 0;
	mb->signatures_to = is.signatures_to;
}

static void thread_fill(Cluster__Thread *t)
{
	*t = (Cluster__Thread)CLUSTER__THREAD__INIT;
	t->has_tid = t->has_state = t->has_state_age_ns = 1;
	t->tid = 7;
	t->state = is.state;
	t->state_age_ns = is.now_ns - is.since_ns;
	t->has_stack_age_ns = is.has_stack;
	t->native = (char *)(is.has_stack ? "train.c:7" : NULL);
}

/* The next one of the host, as it came over the bus. */
static Cluster__NodeReport *report(uint64_t step_ns)
{
	static char bytes[REPORT_BYTES_MAX];
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT, *back;
	Cluster__Process p = CLUSTER__PROCESS__INIT, *procs[] = { &p };
	Cluster__Member mb, *members[] = { &mb };
	Cluster__Thread t, *threads[] = { &t };
	Cluster__Finding f = CLUSTER__FINDING__INIT, *findings[] = { &f };
	Cluster__Gpu g = CLUSTER__GPU__INIT, *gpus[] = { &g };

	is.now_ns += step_ns;
	r.has_version = r.has_agent = r.has_sequence = r.has_now_ns = r.has_paused = 1;
	r.version = REPORT_VERSION;
	r.host = (char *)"node-a";
	r.boot_id = (char *)"boot";
	r.agent = is.agent;
	r.sequence = ++is.sequence;
	r.now_ns = is.now_ns;
	r.paused = is.paused;
	member_fill(&mb);
	thread_fill(&t);
	p.has_pid = p.has_start_ns = p.has_dead = 1;
	p.pid = 7;
	p.start_ns = 5;
	p.dead = is.dead;
	p.comms = members;
	p.threads = threads;
	p.n_comms = p.n_threads = 1;
	r.processes = procs;
	r.n_processes = is.has_process;
	f.id = (char *)is.finding;
	f.kind = (char *)"xid";
	r.findings = findings;
	r.n_findings = is.finding != NULL;
	g.has_index = 1;
	r.gpus = gpus;
	r.n_gpus = is.has_gpu;
	assert_int_equal(report_unpack(bytes, report_pack(&r, bytes), &back), REPORT_GOOD);
	return back;
}

/* The next one of that host: 0, -EAGAIN. */
static int put_of(int host, uint64_t step_ns)
{
	struct queued_report one = { .r = report(step_ns), .of = &hosts[host], .ns = is.now_ns };
	int err = report_queue_put(&queue, &one, 100);

	if (err)
		report_free(one.r);
	return err;
}

static int put(void)
{
	return put_of(0, 100 * MSEC);
}

static int begin(void **state)
{
	(void)state;
	is = (struct sample){ .now_ns = 100 * SEC,
			      .agent = 1,
			      .has_process = true,
			      .state = 3,
			      .since_ns = 50 * SEC,
			      .hash = 0xa0,
			      .signatures_to = 64 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	report_queue_free(&queue);
	memset(&queue, 0, sizeof(queue));
	return 0;
}

static void assert_joined(void)
{
	assert_int_equal(put(), 0);
	assert_int_equal(queue.n, 1);
}

static void the_newest_takes_the_place_of_all(void **state)
{
	const Cluster__Member *mb;

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_joined();
	assert_int_equal(queue.n_carried, 9);
	assert_int_equal(queue.all[0].r->sequence, 10);
	assert_int_equal(queue.all[0].ns, is.now_ns);
	mb = queue.all[0].r->processes[0]->comms[0];
	assert_int_equal(mb->ended, 30);
	assert_int_equal(mb->ended_ns, 300 * MSEC);
	assert_int_equal(mb->ended_error_ns, 10 * MSEC);
	assert_int_equal(mb->transfers_ended, 20);
	assert_int_equal(mb->transfers_ended_ns, 50 * MSEC);
}

/* What is in hand after one that says something more than the next. */
static void assert_is_kept(void)
{
	assert_int_equal(put(), -EAGAIN);
	assert_int_equal(queue.n, 1);
	assert_int_equal(queue.n_carried, 0);
	assert_int_equal(queue.all[0].r->sequence, 1);
	assert_int_equal(queue.all[0].r->processes ? queue.all[0].r->processes[0]->comms[0]->ended : 3, 3);
	report_queue_clear(&queue);
	assert_joined();
}

static void a_finding_that_is_over(void **state)
{
	(void)state;
	is.finding = "node-a-1";
	assert_joined();
	is.finding = NULL;
	assert_is_kept();
	report_queue_clear(&queue);
	is.finding = "node-a-2";
	assert_joined();
	is.finding = "node-a-3"; /* another one */
	assert_int_equal(put(), -EAGAIN);
}

static void a_finding_that_goes_on_or_begins(void **state)
{
	(void)state;
	assert_joined();
	is.finding = "node-a-1";
	assert_joined();
	assert_joined();
	assert_int_equal(queue.all[0].r->n_findings, 1);
}

static void a_death_that_is_told_once(void **state)
{
	(void)state;
	is.dead = true;
	assert_joined();
	is.has_process = false;
	assert_is_kept();
}

static void a_death_that_the_newer_one_tells(void **state)
{
	(void)state;
	assert_joined();
	is.dead = true;
	assert_joined();
	assert_true(queue.all[0].r->processes[0]->dead);
}

static void a_stop_that_is_over(void **state)
{
	(void)state;
	is.state = 5;
	is.since_ns = is.now_ns;
	assert_joined();
	assert_joined(); /* the same one */
	report_queue_clear(&queue);
	queue.n_carried = is.sequence = 0;
	assert_joined();
	is.state = 3;
	assert_is_kept();
	report_queue_clear(&queue);
	is.state = 5;
	assert_joined();
	is.since_ns = is.now_ns; /* another one */
	assert_int_equal(put(), -EAGAIN);
}

static void a_stack_that_only_it_has(void **state)
{
	(void)state;
	is.has_stack = true;
	assert_joined();
	is.has_stack = false;
	assert_is_kept();
}

static void an_error_and_a_communicator_that_go(void **state)
{
	(void)state;
	is.async_result = 3;
	assert_joined();
	is.async_result = 0;
	assert_is_kept();
	is.hash = 0xb0;
	assert_int_equal(put(), -EAGAIN);
}

static void signatures_of_other_operations(void **state)
{
	(void)state;
	assert_joined();
	is.signatures_to = 128;
	assert_is_kept();
}

static void a_gpu_that_is_gone_and_a_pause(void **state)
{
	(void)state;
	is.has_gpu = true;
	assert_joined();
	is.has_gpu = false;
	assert_is_kept();
	is.paused = true;
	assert_int_equal(put(), -EAGAIN);
}

static void another_run_of_the_agent(void **state)
{
	(void)state;
	assert_joined();
	is.agent = 2;
	assert_is_kept();
}

/* What a host kept while it was cut off comes at once, a second apart. */
static void not_for_longer_than_detectors_allow(void **state)
{
	(void)state;
	assert_int_equal(put_of(0, SEC), 0);
	assert_int_equal(put_of(0, SEC), 0);
	assert_int_equal(put_of(0, SEC), -EAGAIN);
	assert_int_equal(queue.all[0].r->sequence, 2);
}

static void each_host_has_its_own_and_no_more_than_fit(void **state)
{
	(void)state;
	for (int i = 0; i < REPORT_QUEUE_MAX; i++)
		assert_int_equal(put_of(i, 0), 0);
	assert_int_equal(put_of(REPORT_QUEUE_MAX, 0), -EAGAIN);
	assert_int_equal(put_of(5, 0), 0);
	assert_int_equal(queue.n, REPORT_QUEUE_MAX);
	report_queue_clear(&queue);
	assert_int_equal(put_of(REPORT_QUEUE_MAX, 0), 0);
	assert_int_equal(put_of(5, 0), 0);
	assert_int_equal(queue.n, 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_newest_takes_the_place_of_all),
		CASE(a_finding_that_is_over),
		CASE(a_finding_that_goes_on_or_begins),
		CASE(a_death_that_is_told_once),
		CASE(a_death_that_the_newer_one_tells),
		CASE(a_stop_that_is_over),
		CASE(a_stack_that_only_it_has),
		CASE(an_error_and_a_communicator_that_go),
		CASE(signatures_of_other_operations),
		CASE(a_gpu_that_is_gone_and_a_pause),
		CASE(another_run_of_the_agent),
		CASE(not_for_longer_than_detectors_allow),
		CASE(each_host_has_its_own_and_no_more_than_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
