/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_job.h - a job of PROXY_RANKS ranks (4) on a ring over the network, as samples of NCCL's counters, its proxies
 * and their threads show it: `ranks` is what the next sample tells. Of one test program.
 */
#ifndef RANKTRACE_PROXY_JOB_H
#define RANKTRACE_PROXY_JOB_H

#include "tests/unit/job/job_script.h"
#include "tests/unit/job/proxy_parts.h"

#ifndef PROXY_RANKS
#define PROXY_RANKS 4
#endif

enum { RANKS = PROXY_RANKS, WORLD = 0xa0, OTHER = 0xb0, CHANNELS = 2 };

/* --- a job --- */

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static uint64_t sample_ns; /* from one sample to the next; start(): half a second */
static struct rank {       /* what its next sample shows */
	uint64_t n_entered, n_other;
	uint64_t op_count; /* its operation's; 0: none is active */
	bool no_recv[CHANNELS], no_send[CHANNELS];
	struct proxy_part send[CHANNELS], recv[CHANNELS];
	uint32_t queued;
	enum task_state main, proxy;
	double run, wait; /* of the proxy's thread, a second */
	uint64_t run_ns, wait_ns;
	bool wakes;            /* it does not sleep without a break */
	bool at_rest;          /* nothing more is reported of it */
	bool unread, no_proxy; /* unread: dead, too */
} ranks[RANKS];

static void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

static void who(int r)
{
	struct event e = job_proc_event(r, RANKS, 0);

	e.proc.job = "";
	give(e);
	e = job_event(EV_THREAD, r, 0);
	e.tid = e.tgid + 1000;
	e.thread.name = "NCCL Progress 0";
	give(e);
}

/* A ring in full swing: everywhere the same steps, all that was sent has come. */
static int start(void **state)
{
	struct event e = { .kind = EV_START, .ts_ns = now = JOB_T0 };

	(void)state;
	sample_ns = 500 * MSEC;
	m = model_new();
	d = detectors_new();
	e.start.hang_floor_ns = e.start.dstate_limit_ns = 250 * MSEC;
	e.start.busy_limit_ns = 90 * SEC;
	e.start.host = "node7";
	give(e);
	memset(ranks, 0, sizeof(ranks));
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct rank){ .n_entered = 21,
					  .n_other = 5,
					  .op_count = OP,
					  .main = TASK_SLEEP,
					  .proxy = TASK_ON_CPU,
					  .run = 0.9,
					  .wait = 0.05,
					  .wakes = true };
		for (int c = 0; c < CHANNELS; c++) {
			ranks[r].send[c] = sending(32, 24, 24);
			ranks[r].recv[c] = receiving(32, 24, 24, 24);
		}
		who(r);
		give(job_event(EV_COMM_SCAN, r, 0));
	}
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

static void sample_one(int r, uint64_t hash, uint64_t n)
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0);

	e.comm_sample.comm = e.comm_sample.hash = hash;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = RANKS;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

static void part_give(int r, bool send, int c)
{
	struct event e = job_event(EV_PROXY, r, 0);
	struct proxy_part *p = &e.proxy;

	*p = send ? ranks[r].send[c] : ranks[r].recv[c];
	p->comm = WORLD;
	p->op_count = ranks[r].op_count;
	p->channel = c;
	p->peer = (r + (send ? 1 : RANKS - 1)) % RANKS;
	p->queued = ranks[r].queued;
	give(e);
}

static void proxy_sample(int r)
{
	struct event e = job_event(EV_PROXY, r, 0);

	e.proxy.comm = WORLD;
	e.proxy.flags = PROXY_SAMPLE;
	e.proxy.thread = job_pid(r) + 1000;
	for (int c = 0; ranks[r].op_count && c < CHANNELS; c++)
		e.proxy.n += !ranks[r].no_send[c] + !ranks[r].no_recv[c];
	give(e);
	for (int c = 0; ranks[r].op_count && c < CHANNELS; c++) {
		if (!ranks[r].no_send[c])
			part_give(r, true, c);
		if (!ranks[r].no_recv[c])
			part_give(r, false, c);
	}
}

static void thread_sample(int r, bool main)
{
	struct event t = job_event(EV_TASK, r, 0);
	enum task_state state = main ? ranks[r].main : ranks[r].proxy;

	t.tid = t.tgid + (main ? 0 : 1000);
	t.task.state = state;
	t.task.since_ns = main || !ranks[r].wakes ? JOB_T0 : now;
	t.task.run_ns = main ? 0 : ranks[r].run_ns;
	t.task.wait_ns = main ? 0 : ranks[r].wait_ns;
	give(t);
	if (!main)
		return;
	t = job_event(EV_TASK_AT, r, 0);
	t.tid = t.tgid;
	t.task_at.wchan = t.task_at.file = "";
	t.task_at.syscall = "futex";
	give(t);
}

static void look(void)
{
	struct event e = { .kind = EV_TICK };

	for (int r = 0; r < RANKS; r++) {
		if (ranks[r].unread)
			continue;
		sample_one(r, WORLD, ranks[r].n_entered);
		sample_one(r, OTHER, ranks[r].n_other);
		if (!ranks[r].no_proxy)
			proxy_sample(r);
		thread_sample(r, true);
		if (!ranks[r].at_rest)
			thread_sample(r, false);
		ranks[r].run_ns += ranks[r].run * sample_ns;
		ranks[r].wait_ns += ranks[r].wait * sample_ns;
	}
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
	now += sample_ns;
}

static inline void looks(int n)
{
	while (n--)
		look();
}

#endif
