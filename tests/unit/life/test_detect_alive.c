/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_alive.c - a session that sees only NCCL's counters, twice a second: what it takes for a habit and for a
 * sign of life, and what it forgets. Hosts sleep all the time, as those of a healthy job with long steps do.
 */
#include "tests/unit/job/model_copy.h"
#include "tests/unit/job/outside_samples.h"

#define STILL_S 4.0 /* a rank of an ordinary job that hangs is named by then */

static int n_open; /* findings of the last tick that are hangs */
static double open_s;

/* A session: it came when the job was an hour old, and every process had started just now. */
static void session(void)
{
	m->hang_floor_ns = 1500 * MSEC;
	ranks_appear();
	n_open = 0;
}

static int hangs(void)
{
	int n = 0;

	for (size_t i = 0; i < list.n; i++)
		n += list.items[i].kind == FINDING_HANG;
	return n;
}

/* So long nothing changes. How long until a hang was named, within that; -1: none was. */
static double stands(const uint64_t n[RANKS], double seconds)
{
	uint64_t begin = now;

	open_s = -1;
	while (now - begin < (uint64_t)(seconds * SEC)) {
		world(n);
		tick();
		n_open = hangs();
		if (n_open && open_s < 0)
			open_s = (now - begin) / 1e9;
	}
	return open_s;
}

/* All enter so many, a second; it goes on for some seconds. */
static void runs(uint64_t n[RANKS], int a_second, int seconds)
{
	for (int i = 0; i < 2 * seconds; i++) {
		for (int r = 0; r < RANKS; r++)
			n[r] += a_second / 2;
		world(n);
		tick();
		assert_int_equal(hangs(), 0);
	}
}

/* One operation: rank 2 comes `late` seconds after the others, and then the step takes `seconds`. */
static double step(uint64_t n[RANKS], double late, double seconds)
{
	double named;

	for (int r = 0; r < RANKS; r++)
		n[r] += r != 2;
	named = stands(n, late);
	n[2]++;
	stands(n, seconds);
	return named;
}

static void what_is_not_known_is_judged_with_care(void **state)
{
	uint64_t n[] = { 2, 2, 1, 2 };
	double s;

	(void)state;
	session();
	s = stands(n, 14);
	assert_true(s > 10 && s < 12.5);
}

static void a_quick_job_is_judged_at_once(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	session();
	runs(n, 20, 2);
	n[0]++, n[1]++, n[3]++;
	s = stands(n, 8);
	assert_true(s > 1.5 && s < STILL_S);
	assert_int_equal(only()->ranks[0], 2);
}

/* Nothing moves while the session is there; but it did, by what was launched since the processes were started. */
static void a_quick_job_that_hangs_already(void **state)
{
	const uint64_t n[] = { 4001, 4001, 4000, 4001 };
	double s;

	(void)state;
	session();
	for (struct proc *p = m->procs; p; p = p->next)
		p->start_ns = now - 90 * SEC;
	s = stands(n, 8);
	assert_true(s > 1.5 && s < STILL_S);
}

/* A pipeline: the first stage comes to the loss after the last one, in each step. */
static void a_bubble_in_every_step_is_a_habit(void **state)
{
	uint64_t n[] = { 1, 1, 1, 1 };
	double s;

	(void)state;
	session();
	stands(n, 1);
	for (int i = 0; i < 6; i++)
		assert_true(step(n, 2.5, 12) < 0);
	n[0]++, n[1]++, n[3]++;
	s = stands(n, 20);
	assert_true(s > 2.5 && s < 2.5 + 3 + 2.5);
}

/* Of steps of two minutes the first may be reported; who learns is silent from the second on. */
static void steps_of_two_minutes(void **state)
{
	uint64_t n[] = { 1, 1, 1, 1 };

	(void)state;
	session();
	stands(n, 1);
	assert_true(step(n, 22, 98) > 10);
	for (int i = 0; i < 5; i++)
		assert_true(step(n, 20 + i, 98) < 0);
}

/* Whoever is late by that much once in a hundred steps has a pause, not a habit: a rank that hangs is named as fast. */
static void a_rare_pause_is_no_habit(void **state)
{
	uint64_t n[] = { 500, 500, 500, 500 };
	double s;

	(void)state;
	session();
	runs(n, 20, 6);
	for (int i = 0; i < 4; i++) {
		assert_true(step(n, 8, 0.5) < STILL_S);
		runs(n, 20, 5);
	}
	n[0]++, n[1]++, n[3]++;
	s = stands(n, 8);
	assert_true(s > 1.5 && s < STILL_S);
}

static void habits_are_in_a_snapshot(void **state)
{
	uint64_t n[] = { 1, 1, 1, 1 };
	struct model_copy c;

	(void)state;
	session();
	stands(n, 1);
	for (int i = 0; i < 3; i++)
		step(n, 2.5, 12);
	model_copy(m, &c);
	assert_true(comm_lag_limit_ns(m, m->comms) > 4 * SEC);
	assert_int_equal(comm_lag_limit_ns(c.m, c.m->comms), comm_lag_limit_ns(m, m->comms));
	assert_int_equal(c.m->comms->members->samples.after_ns, m->comms->members->samples.after_ns);
	model_free(c.m);
	model_copy_free(&c);
}

/* --- signs of life --- */

/* Rank 2 is late in WORLD. Its counters in LEFT, where it is with rank 0, move with every sample, `moves` times. */
static double late_but_moving(uint64_t n[RANKS], int moves, double seconds)
{
	uint64_t begin = now, left = 700;

	open_s = -1;
	while (now - begin < (uint64_t)(seconds * SEC)) {
		left += moves-- > 0 ? 10 : 0;
		sample(0, LEFT, 0, 2, REDUCED(left));
		sample(2, LEFT, 1, 2, REDUCED(left));
		world(n);
		tick();
		if (hangs() && open_s < 0)
			open_s = (now - begin) / 1e9;
	}
	return open_s;
}

static void who_moves_elsewhere_is_alive(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	session();
	runs(n, 20, 3);
	n[0]++, n[1]++, n[3]++;
	s = late_but_moving(n, 20, 20); /* for ten seconds */
	assert_true(s > 10 && s < 10 + STILL_S);
}

/* It moved until it hung: that is what hanging is. */
static void to_have_moved_before_is_no_life(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	session();
	runs(n, 20, 3);
	n[0]++, n[1]++, n[3]++;
	s = late_but_moving(n, 1, 8);
	assert_true(s > 1.5 && s < STILL_S);
}

static void child_appears(int r, uint32_t tgid)
{
	struct event e = job_event(EV_PROC, r, 0);

	e.tgid = e.tid = tgid;
	e.proc.start_ns = now;
	e.proc.parent_tgid = job_pid(r);
	e.proc.rank = e.proc.local_rank = r;
	e.proc.world_size = RANKS;
	e.proc.is_child = true;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	give(e);
}

static void child_runs(int r, uint32_t tgid, uint64_t run_ns, uint64_t io_bytes)
{
	struct event e = job_event(EV_TASK, r, 0);

	e.tgid = e.tid = tgid;
	e.task.state = TASK_SLEEP;
	e.task.since_ns = now;
	e.task.run_ns = run_ns;
	e.task.io_bytes = io_bytes;
	give(e);
}

static void child_ends(int r, uint32_t tgid, uint64_t run_ns)
{
	struct event e = job_event(EV_EXIT, r, 0);

	e.tgid = e.tid = tgid;
	e.exit.last = true;
	e.exit.run_ns = run_ns;
	give(e);
}

/* A quick job in which rank 2 is late from now on. */
static void rank_2_is_late(uint64_t n[RANKS])
{
	session();
	runs(n, 20, 3);
	n[0]++, n[1]++, n[3]++;
}

/* An epoch begins: one worker after the other, each loads its libraries. */
static void who_starts_children_that_work_is_alive(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	rank_2_is_late(n);
	for (int i = 0; i < 6; i++) {
		child_appears(2, 9000 + i);
		assert_true(stands(n, 0.5) < 0);
		child_runs(2, 9000 + i, 400 * MSEC, 0);
		assert_true(stands(n, 0.5) < 0);
	}
	s = stands(n, 8);
	assert_true(s > 0 && s < STILL_S);
}

/* The same by what they read. */
static void who_starts_children_that_read_is_alive(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	for (int i = 0; i < 6; i++) {
		child_appears(2, 9000 + i);
		assert_true(stands(n, 0.5) < 0);
		child_runs(2, 9000 + i, 0, 64 << 20);
		assert_true(stands(n, 0.5) < 0);
	}
}

/* A compiler's processes: none lives for long enough to be scanned. */
static void who_ends_children_that_worked_is_alive(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	for (int i = 0; i < 12; i++) {
		child_appears(2, 9000 + i);
		now += 300 * MSEC;
		child_ends(2, 9000 + i, 250 * MSEC);
		assert_true(stands(n, 0.5) < 0);
	}
}

/* Nobody says what it is before somebody saw what it does; that is a moment, and no life. */
static void a_child_that_idles_is_no_life(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	rank_2_is_late(n);
	child_appears(2, 9000);
	child_runs(2, 9000, 20 * MSEC, 4096);
	s = stands(n, 8);
	assert_true(s > 0 && s < STILL_S);
	assert_int_equal(only()->cause, CAUSE_ASLEEP);
}

/* A thread of a rank that hangs starts a health check every 4 s: that it begins and ends keeps nothing at a warning. */
static void children_that_come_and_go_make_no_hang_a_stall(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	assert_true(stands(n, 4) > 0);
	for (int i = 0; i < 8; i++) {
		child_appears(2, 9000 + i);
		stands(n, 0.5);
		assert_int_equal(only()->cause, CAUSE_ASLEEP);
		child_ends(2, 9000 + i, 30 * MSEC);
		stands(n, 3.5);
		assert_int_equal(only()->cause, CAUSE_ASLEEP);
	}
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

/* One that does work now and then gets no longer than a rank that works all the while. */
static void signs_of_life_for_ever_end_as_work_does(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	assert_true(stands(n, 4) > 0);
	for (int i = 0; i < 60; i++) {
		child_appears(2, 9000 + i);
		now += 700 * MSEC;
		child_ends(2, 9000 + i, 650 * MSEC);
		stands(n, 9.3);
		assert_int_equal(only()->severity, i < 58 ? SEVERITY_WARNING : only()->severity);
	}
	stands(n, 20);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

/* --- work of its GPU --- */

/* So much of the tensor cores and of the memory, of rank 2's GPU, in percent; also of the process `other`, 0 none. */
static void gpu_shows(double tensor, double dram, uint32_t other)
{
	struct event e = { .kind = EV_GPU_PROCS };

	e.gpu_procs.index = 2;
	e.gpu_procs.n = other ? 2 : 1;
	e.gpu_procs.pids[0] = job_pid(2);
	e.gpu_procs.pids[1] = other;
	give(e);
	e = (struct event){ .kind = EV_GPU_SAMPLE };
	e.gpu_sample = (struct gpu_sample){ .index = 2,
					    .window_ns = 500 * MSEC,
					    .sm_bp = 10000,
					    .occupancy_bp = 5000,
					    .tensor_bp = 100 * tensor,
					    .dram_bp = 100 * dram };
	give(e);
}

static const struct finding *stands_with_gpu(const uint64_t n[RANKS], double tensor, double dram, uint32_t other,
					     double seconds)
{
	for (int i = 0; i < (int)(2 * seconds); i++) {
		gpu_shows(tensor, dram, other);
		stands(n, 0.5);
	}
	return only();
}

/* Its host sleeps, its GPU computes: it works. Matrix work, or memory traffic. */
static void whose_gpu_works_is_no_hang(void **state)
{
	const struct finding *f;
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	f = stands_with_gpu(n, 40, 0, 0, 200);
	assert_int_equal(f->cause, CAUSE_GPU);
	assert_int_equal(f->severity, SEVERITY_WARNING);
	f = stands_with_gpu(n, 0, 12, 0, 200);
	assert_int_equal(f->severity, SEVERITY_WARNING);
	f = stands_with_gpu(n, 0, 12, 0, 220); /* as anybody who works */
	assert_int_equal(f->severity, SEVERITY_CRITICAL);
}

/* A kernel that spins for ever, on all SMs. */
static void whose_gpu_spins_is_not_alive(void **state)
{
	const struct finding *f;
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	f = stands_with_gpu(n, 0, 0.05, 0, 28);
	assert_int_equal(f->severity, SEVERITY_WARNING);
	assert_int_equal(f->cause, CAUSE_ASLEEP);
	f = stands_with_gpu(n, 0, 0.05, 0, 4);
	assert_int_equal(f->severity, SEVERITY_CRITICAL);
}

/* Who of several processes on a GPU works is not known. */
static void work_of_a_shared_gpu_is_nobodys(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	assert_int_equal(stands_with_gpu(n, 40, 40, 4711, 34)->severity, SEVERITY_CRITICAL);
}

/* What its GPU had still to do when the rank stopped coming is over: what stands still counts from there. */
static void work_that_ended_is_no_life(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	assert_int_equal(stands_with_gpu(n, 40, 40, 0, 20)->kind, FINDING_OBSERVATION);
	assert_int_equal(stands_with_gpu(n, 0, 0, 0, 27)->severity, SEVERITY_WARNING);
	assert_int_equal(stands_with_gpu(n, 0, 0, 0, 6)->severity, SEVERITY_CRITICAL);
}

/* --- bytes --- */

/* Rank 2 is late; one connection of it carries so many bytes in each half second, for `seconds`. */
static double late_and_sending(uint64_t bytes, double seconds)
{
	uint64_t n[] = { 100, 100, 100, 100 }, counters[TCP_COUNTERS] = { 0 }, begin;
	struct event e = job_event(EV_TCP, 2, 0);
	double named = -1;

	session();
	e.tcp.id.inode = e.tcp.id.cookie = e.tcp.id.netns = 7;
	e.tcp.local = "10.0.0.3";
	e.tcp.remote = "10.9.9.9";
	e.tcp.netdev = "eth0";
	give(e);
	runs(n, 20, 3);
	n[0]++, n[1]++, n[3]++;
	for (begin = now; now - begin < (uint64_t)(seconds * SEC);) {
		counters[TCP_BYTES_ACKED] += bytes;
		e = (struct event){ .kind = EV_TCP_SAMPLE };
		e.tcp.sample.taken_ns = now;
		e.tcp.sample.state = TCP_STATE_ESTABLISHED;
		e.tcp.sample.n_counters = TCP_COUNTERS;
		e.tcp.counters = counters;
		give(e);
		world(n);
		tick();
		if (hangs() && named < 0)
			named = (now - begin) / 1e9;
	}
	if (named < 0 && (named = stands(n, 10)) >= 0)
		named += seconds;
	return named;
}

static void who_uploads_is_alive(void **state)
{
	double s;

	(void)state;
	s = late_and_sending(1000000, 20);
	assert_true(s > 20 && s < 20 + STILL_S + 2.5);
}

/* An upload of 40 s, then the store's answer comes late: that silence is judged by its own length. */
static void what_stands_still_counts_from_the_last_sign_of_life(void **state)
{
	uint64_t n[] = { 0, 0, 0, 0 };

	(void)state;
	assert_true(late_and_sending(1000000, 40) > 40);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	for (const struct member *mb = m->comms->members; mb; mb = mb->next_in_comm)
		n[mb->rank] = mb->samples.counters[OP_ALLREDUCE];
	stands(n, 30);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

static void a_heartbeat_is_no_life(void **state)
{
	double s;

	(void)state;
	s = late_and_sending(4000, 20);
	assert_true(s > 1.5 && s < STILL_S);
}

/* --- what is gone --- */

/* A job aborts communicators in which it stood unevenly, and makes new ones. */
static void abort_and_new(bool reported)
{
	uint64_t n[] = { 600, 600, 599, 600 }, fresh[] = { 1, 1, 1, 1 };
	struct event e;

	session();
	stands(n, 2);
	for (int r = 0; reported && r < RANKS; r++) {
		e = job_event(EV_COMM_VANISHED, r, 0);
		e.comm_seen.addr = e.comm_seen.hash = WORLD;
		give(e);
	}
	for (int i = 0; i < 40; i++) {
		for (int r = 0; r < RANKS; r++) {
			fresh[r] += 4;
			sample(r, RIGHT, r, RANKS, REDUCED(fresh[r]));
		}
		tick();
		assert_int_equal(hangs(), 0);
	}
	for (const struct member *mb = m->comms->members; mb; mb = mb->next_in_comm)
		assert_true(mb->comm->hash != WORLD || mb->gone);
}

static void what_vanished_stands_no_more(void **state)
{
	(void)state;
	abort_and_new(true);
}

/* No word of its end: its process' other communicators are sampled, and it is not. */
static void what_several_samples_miss_is_gone(void **state)
{
	(void)state;
	abort_and_new(false);
}

/* A look or two may miss it. */
static void a_sample_may_miss_it(void **state)
{
	uint64_t n[] = { 600, 600, 600, 600 };

	(void)state;
	session();
	stands(n, 1);
	for (int i = 0; i < 3; i++) {
		for (int r = 0; r < RANKS; r++)
			sample(r, RIGHT, r, RANKS, REDUCED(5 + i));
		tick();
	}
	stands(n, 1);
	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
			assert_false(mb->gone);
}

/* Each is ahead in one: by counters two hosts that run ahead of their GPUs look like that, for as long as a step. */
static void a_cycle_is_judged_with_care(void **state)
{
	uint64_t begin;
	double s = -1;

	(void)state;
	session();
	begin = now;
	for (int i = 0; i < 28; i++) {
		for (int r = 0; r < 2; r++) {
			sample(r, WORLD, r, 2, REDUCED(r ? 8 : 9));
			sample(r, LEFT, r, 2, REDUCED(r ? 31 : 30));
		}
		tick();
		if (hangs() && s < 0)
			s = (now - begin) / 1e9;
	}
	assert_true(s >= 10 && s < 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_known_is_judged_with_care),
		TEST(a_quick_job_is_judged_at_once),
		TEST(a_quick_job_that_hangs_already),
		TEST(a_bubble_in_every_step_is_a_habit),
		TEST(steps_of_two_minutes),
		TEST(a_rare_pause_is_no_habit),
		TEST(habits_are_in_a_snapshot),
		TEST(who_moves_elsewhere_is_alive),
		TEST(to_have_moved_before_is_no_life),
		TEST(who_starts_children_that_work_is_alive),
		TEST(who_starts_children_that_read_is_alive),
		TEST(who_ends_children_that_worked_is_alive),
		TEST(a_child_that_idles_is_no_life),
		TEST(children_that_come_and_go_make_no_hang_a_stall),
		TEST(signs_of_life_for_ever_end_as_work_does),
		TEST(whose_gpu_works_is_no_hang),
		TEST(whose_gpu_spins_is_not_alive),
		TEST(work_of_a_shared_gpu_is_nobodys),
		TEST(work_that_ended_is_no_life),
		TEST(who_uploads_is_alive),
		TEST(what_stands_still_counts_from_the_last_sign_of_life),
		TEST(a_heartbeat_is_no_life),
		TEST(what_vanished_stands_no_more),
		TEST(what_several_samples_miss_is_gone),
		TEST(a_sample_may_miss_it),
		TEST(a_cycle_is_judged_with_care),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
