/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_stuck.c - all entered, and it does not end: made-up readings of NCCL's proxies and of their threads. Who
 * is named, which pair, and when nobody may be (detector proxy_starved, and the report of detector hang). The table of
 * single connections: test_detect_links.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job_script.h"
#include "proxy_parts.h"

enum { RANKS = 4, WORLD = 0xa0, OTHER = 0xb0, CHANNELS = 2 };

/* --- a job --- */

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static struct rank { /* what its next look shows */
	uint64_t n_entered, n_other;
	uint64_t op_count;         /* its operation's; 0: none is active */
	bool no_recv[CHANNELS], no_send[CHANNELS];
	struct proxy_part send[CHANNELS], recv[CHANNELS];
	uint32_t queued;
	enum task_state main, proxy;
	double run, wait;          /* of the proxy's thread, a second */
	uint64_t run_ns, wait_ns;
	bool wakes;                /* it does not sleep without a break */
	bool unread, no_proxy;
} ranks[RANKS];

static void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

static void who(int r)
{
	struct event e = job_event(EV_PROC, r, 0);

	e.proc.start_ns = 5;
	e.proc.rank = e.proc.local_rank = r;
	e.proc.world_size = RANKS;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
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
	m = model_new();
	d = detectors_new();
	e.start.hang_floor_ns = e.start.dstate_limit_ns = 250 * MSEC;
	e.start.busy_limit_ns = 90 * SEC;
	e.start.host = "node7";
	give(e);
	memset(ranks, 0, sizeof(ranks));
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct rank){ .n_entered = 21, .n_other = 5, .op_count = OP, .main = TASK_SLEEP, .proxy = TASK_ON_CPU,
					  .run = 0.9, .wait = 0.05, .wakes = true };
		for (int c = 0; c < CHANNELS; c++) {
			ranks[r].send[c] = sending(32, 24, 24);
			ranks[r].recv[c] = receiving(32, 24, 24, 24);
		}
		who(r);
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

	e.comm_sample.addr = e.comm_sample.hash = hash;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = RANKS;
	e.comm_sample.counters_valid = true;
	e.comm_sample.counters_sum = e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

static void part_give(int r, bool send, int c)
{
	struct event e = job_event(EV_PROXY, r, 0);
	struct proxy_part *p = &e.proxy.part;

	e.proxy.addr = WORLD;
	*p = send ? ranks[r].send[c] : ranks[r].recv[c];
	p->op_count = ranks[r].op_count;
	p->channel = c;
	p->peer = (r + (send ? 1 : RANKS - 1)) % RANKS;
	p->queued = ranks[r].queued;
	give(e);
}

static void proxy_look(int r)
{
	struct event e = job_event(EV_PROXY, r, 0);

	e.proxy.addr = WORLD;
	e.proxy.is_look = true;
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

static void thread_look(int r, bool main)
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
			proxy_look(r);
		thread_look(r, true);
		thread_look(r, false);
		ranks[r].run_ns += ranks[r].run * 500 * MSEC;
		ranks[r].wait_ns += ranks[r].wait * 500 * MSEC;
	}
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
	now += 500 * MSEC;
}

static void looks(int n)
{
	while (n--)
		look();
}

static const struct finding *only(void)
{
	assert_int_equal(list.n, 1);
	return &list.items[0];
}

static double number_of(const struct finding *f, const char *name)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (!strcmp(f->evidence[i].name, name))
			return f->evidence[i].number;
	fail_msg("no %s", name);
	return 0;
}

static const char *text_of(const struct finding *f, const char *name)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (!strcmp(f->evidence[i].name, name))
			return f->evidence[i].text;
	return "";
}

/* Channel 1 from `r` to the next: sent, and not come. */
static void eat(int r)
{
	ranks[r].send[1] = sending(32, 32, 32);
	ranks[(r + 1) % RANKS].recv[1] = receiving(32, 24, 24, 24);
}

static void check_pair(const struct finding *f, const char *side, int sender, int receiver, int channel)
{
	assert_int_equal(f->kind, FINDING_HANG);
	assert_string_equal(text_of(f, "side"), side);
	assert_int_equal(number_of(f, "sender"), sender);
	assert_int_equal(number_of(f, "receiver"), receiver);
	if (channel >= 0)
		assert_int_equal(number_of(f, "channel"), channel);
}

static void the_network_between_two(void **state)
{
	const struct finding *f;

	(void)state;
	eat(2);
	looks(2);
	f = only();
	assert_int_equal(f->class, HANG_INSIDE_NETWORK);
	assert_int_equal(f->n_ranks, 0);
	check_pair(f, "network", 2, 3, 1);
	assert_string_equal(f->cause, "network");
	assert_int_equal(f->comm, WORLD);
	assert_int_equal(f->op, OP_ALLREDUCE);
	assert_int_equal(f->seq, 20);
	assert_string_equal(text_of(f, "sent"), "posted 32, transmitted 32, done 32 of 64");
	assert_string_equal(text_of(f, "received"), "posted 32, received 24, transmitted 24, done 24 of 64");
}

/* The sender is through with it, and one or two operations further: nobody lacks anything. */
static void the_sender_went_on(void **state)
{
	const struct finding *f;

	(void)state;
	ranks[2].op_count = OP + 2;
	ranks[2].n_entered = ranks[1].n_entered = 23;
	ranks[2].n_other = ranks[1].n_other = 9; /* in the other communicator 0 and 3 would look late */
	ranks[1].op_count = 0;
	for (int c = 0; c < CHANNELS; c++)
		ranks[2].send[c] = ranks[2].recv[c] = queued(false);
	ranks[2].send[0].is_send = ranks[2].send[1].is_send = true;
	ranks[3].no_recv[0] = true;
	ranks[0].no_recv[0] = ranks[0].no_send[0] = ranks[0].no_send[1] = true;
	ranks[0].recv[1] = receiving(32, 24, 24, 24);
	ranks[3].no_send[0] = true;
	looks(2);
	f = only();
	check_pair(f, "network", 2, 3, 1);
	assert_int_equal(f->seq, 20);
}

/* Hosts run ahead: what is queued behind the operation was entered, too. */
static void queued_ones_are_counted_off(void **state)
{
	(void)state;
	eat(0);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].queued = 3;
		ranks[r].n_entered = 24;
	}
	looks(2);
	assert_int_equal(only()->seq, 20);
}

/* Nothing is concluded while anything moves, or from one look. */
static void moving_is_not_stuck(void **state)
{
	(void)state;
	eat(2);
	look();
	assert_int_equal(list.n, 0);
	for (int i = 0; i < 5; i++) {
		ranks[0].recv[0].done = ranks[0].recv[0].transmitted = ranks[0].recv[0].received = 25 + i;
		look();
		assert_int_equal(list.n, 0);
	}
	for (int i = 0; i < 5; i++) {
		ranks[0].n_entered++; /* a host goes on */
		look();
		assert_int_equal(list.n, 0);
	}
}

static void quiet_links_accuse_nobody(void **state)
{
	(void)state;
	looks(5);
	assert_int_equal(list.n, 0);
}

/* Somebody has not entered: that is another story, and not the network's. */
static void a_late_rank_is_late(void **state)
{
	const struct finding *f;

	(void)state;
	ranks[1].n_entered = 20;
	ranks[1].n_other = 5;
	ranks[1].op_count = 0;
	ranks[0].send[0] = ranks[0].send[1] = sending(32, 32, 32);
	looks(3);
	f = only();
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->ranks[0], 1);
}

/* Who only seem to be late, sitting where the others sit, are told when transfers had time to prove that they stand still. */
static void doubtful_roots_wait_for_proof(void **state)
{
	(void)state;
	ranks[3].no_proxy = true;
	for (int r = 0; r < RANKS; r++)
		ranks[r].run = ranks[r].wait = 0.01;
	looks(1);
	ranks[2].n_other++;
	ranks[3].n_other++;
	looks(2);
	assert_int_equal(list.n, 0);
	looks(2);
	assert_int_equal(list.n, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(list.items[i].class, HANG_UNKNOWN);
}

static void an_unread_rank_leaves_it_open(void **state)
{
	(void)state;
	eat(2);
	ranks[0].unread = true;
	looks(4);
	assert_int_equal(list.n, 0);
}

static void check_culprit(int rank, const char *cause)
{
	const struct finding *f = only();

	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_INSIDE_NETWORK);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal(f->pids[0], job_pid(rank));
	assert_string_equal(f->cause, cause);
}

/* What is sent to it lies there: by the counters alone that would be the network. */
static void a_proxy_asleep(void **state)
{
	(void)state;
	eat(0);
	ranks[1].proxy = TASK_SLEEP;
	ranks[1].wakes = false;
	ranks[1].run = ranks[1].wait = 0;
	looks(2);
	check_culprit(1, "proxy_asleep");
	check_pair(only(), "receiver", 0, 1, 1);
}

static void a_proxy_in_d_state(void **state)
{
	(void)state;
	ranks[3].proxy = TASK_DISK;
	ranks[3].wakes = false;
	ranks[3].run = ranks[3].wait = 0;
	ranks[3].send[0] = sending(24, 24, 24); /* could post */
	looks(2);
	check_culprit(3, "proxy_blocked");
	check_pair(only(), "sender", 3, 0, 0);
}

static void idle_rank(int r)
{
	eat(2);
	ranks[r].op_count = 0;
	ranks[r].proxy = TASK_SLEEP;
	ranks[r].wakes = false;
	ranks[r].run = ranks[r].wait = 0;
	looks(2);
	assert_int_equal(only()->n_ranks, 0);
}

/* It has no operation active, and so it may sleep; also the one that is through with what its peer waits for. */
static void an_idle_proxy_may_sleep(void **state)
{
	(void)state;
	idle_rank(0);
}

static void the_sender_is_idle(void **state)
{
	(void)state;
	idle_rank(2);
	check_pair(only(), "network", 2, 3, -1);
}

static void starve(int r)
{
	ranks[r].proxy = TASK_RUNNABLE;
	ranks[r].run = 0.003;
	ranks[r].wait = 0.97;
}

/* Others sleep between their polls, or spin: either way they have what they want. */
static void a_starved_proxy(void **state)
{
	(void)state;
	starve(2);
	ranks[1].run = 0.01;
	ranks[1].proxy = TASK_SLEEP;
	looks(4);
	assert_int_equal(list.n, 0);
	looks(2);
	check_culprit(2, "proxy_starved");
}

/* Not once did it get the CPU: the kernel has not counted its wait yet. */
static void a_proxy_that_never_ran(void **state)
{
	(void)state;
	starve(2);
	ranks[2].run = ranks[2].wait = 0;
	ranks[2].wakes = false;
	looks(6);
	check_culprit(2, "proxy_starved");
	assert_true(number_of(only(), "runqueue_wait_share") == 1);
}

/* It creeps, so its counters move; the hosts stand. */
static void a_starved_proxy_creeps(void **state)
{
	(void)state;
	starve(2);
	for (int i = 0; i < 6; i++) {
		ranks[3].recv[0].posted++;
		look();
	}
	check_culprit(2, "proxy_starved");
}

/* A machine on which all wait for CPUs: no rank is at fault for that. */
static void all_proxies_wait(void **state)
{
	(void)state;
	eat(2);
	for (int r = 0; r < RANKS; r++) {
		starve(r);
		ranks[r].wait = 0.9 - 0.05 * r;
		ranks[r].run = 0.003 * (r + 1);
	}
	looks(6);
	check_pair(only(), "network", 2, 3, 1); /* they did look, late */
	assert_int_equal(only()->n_ranks, 0);
}

/* The receiver had no CPU to look: what is in front of it proves nothing. When it has looked at last, after some more looks. */
static void a_receiver_that_could_not_look(void **state)
{
	(void)state;
	eat(2);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].proxy = TASK_RUNNABLE;
		ranks[r].wait = 0.6;
		ranks[r].run = r == 3 ? 0.0002 : 0.0006;
	}
	looks(6);
	assert_int_equal(list.n, 0);
	ranks[3].run = 0.001;
	looks(2);
	check_pair(only(), "network", 2, 3, 1);
}

static void starved_by_chance(void **state)
{
	(void)state;
	eat(2);
	ranks[0].wait = 0.7;
	ranks[0].run = 0.01;
	ranks[0].proxy = TASK_RUNNABLE;
	looks(2);
	check_pair(only(), "network", 2, 3, 1);
	assert_int_equal(only()->n_ranks, 0);
}

static void of_two_nobody(void **state)
{
	(void)state;
	eat(0);
	for (int r = 1; r < 3; r++) {
		ranks[r].proxy = TASK_SLEEP;
		ranks[r].wakes = false;
	}
	looks(3);
	assert_int_equal(list.n, 0);
}

static void a_rank_stopped_inside(void **state)
{
	const struct finding *f = NULL, *stopped;

	(void)state;
	eat(0);
	ranks[1].main = ranks[1].proxy = TASK_STOPPED;
	ranks[1].run = ranks[1].wait = 0;
	ranks[1].wakes = false;
	looks(3);
	for (size_t i = 0; i < list.n; i++)
		f = list.items[i].kind == FINDING_HANG ? &list.items[i] : f;
	stopped = finding_list_of(&list, FINDING_STOPPED, job_pid(1));
	assert_non_null(f);
	assert_int_equal(f->class, HANG_STOPPED);
	assert_int_equal(f->ranks[0], 1);
	check_pair(f, "receiver", 0, 1, 1);
	assert_int_equal(f->caused_by_key, stopped ? stopped->key : 0);
}

/* The hosts go on, slowly: after four scans that is cpu_starved, and before them nothing. */
static void a_job_that_creeps(void **state)
{
	const struct finding *f;

	(void)state;
	starve(2);
	for (int i = 0; i < 6; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		look();
		assert_true(i >= 4 || list.n == 0);
	}
	f = only();
	assert_int_equal(f->kind, FINDING_CPU_STARVED);
	assert_string_equal(f->cause, "proxy_thread");
	assert_int_equal(f->ranks[0], 2);
	assert_true(number_of(f, "runqueue_wait_share") > 0.9);
	assert_true(number_of(f, "peers_wait_share") < 0.1);
	assert_string_equal(text_of(f, "side"), "sender");
}

static void a_scan_without_a_cpu(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		ranks[2].wait = i % 3 ? 0.97 : 0.02;
		ranks[2].run = i % 3 ? 0.003 : 0.9;
		look();
		assert_int_equal(list.n, 0);
	}
}

static void half_a_look(void **state)
{
	struct event e = job_event(EV_PROXY, 0, 0);

	(void)state;
	look();
	e.proxy.addr = WORLD;
	e.proxy.is_look = true;
	e.proxy.n = 5;
	give(e);
	part_give(0, true, 0);
	for (const struct member *mb = m->procs->members; mb; mb = mb->next_in_proc)
		assert_int_equal(mb->proxies.n_looks, mb->comm->hash == WORLD);
}

#define A_JOB(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_JOB(the_network_between_two), A_JOB(the_sender_went_on),
		A_JOB(queued_ones_are_counted_off), A_JOB(moving_is_not_stuck), A_JOB(quiet_links_accuse_nobody),
		A_JOB(a_late_rank_is_late), A_JOB(doubtful_roots_wait_for_proof), A_JOB(an_unread_rank_leaves_it_open), A_JOB(a_proxy_asleep), A_JOB(a_proxy_in_d_state),
		A_JOB(an_idle_proxy_may_sleep), A_JOB(the_sender_is_idle), A_JOB(a_starved_proxy), A_JOB(a_proxy_that_never_ran), A_JOB(a_starved_proxy_creeps), A_JOB(all_proxies_wait),
		A_JOB(a_receiver_that_could_not_look), A_JOB(starved_by_chance), A_JOB(of_two_nobody), A_JOB(a_rank_stopped_inside), A_JOB(a_job_that_creeps),
		A_JOB(a_scan_without_a_cpu), A_JOB(half_a_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
