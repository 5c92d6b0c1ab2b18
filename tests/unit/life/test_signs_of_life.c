/* SPDX-License-Identifier: Apache-2.0
 *
 * test_signs_of_life.c - a rank that is late and works: by other counters, children, its GPU, bytes over a socket. It
 * is no hang while it does so.
 */
#include "tests/unit/job/sampled_session.h"

/* Rank 2 is late in WORLD, and shows a sign of life before every sample, for `seconds`. How long until a hang was
 * named, within that; -1: none was. */
static double late_and_alive(const uint64_t n[RANKS], double seconds, void (*sign)(void *arg), void *arg)
{
	uint64_t begin = now;

	open_s = -1;
	while (now - begin < (uint64_t)(seconds * SEC)) {
		sign(arg);
		world(n);
		tick();
		if (hangs() && open_s < 0)
			open_s = (now - begin) / 1e9;
	}
	return open_s;
}

struct moves {
	int left; /* samples at which they move */
	uint64_t n;
};

/* Rank 2's counters in LEFT, where it is with rank 0. */
static void counters_move(void *arg)
{
	struct moves *of = arg;

	of->n += of->left-- > 0 ? 10 : 0;
	sample(0, LEFT, 0, 2, REDUCED(of->n));
	sample(2, LEFT, 1, 2, REDUCED(of->n));
}

static double late_but_moving(const uint64_t n[RANKS], int moves, double seconds)
{
	return late_and_alive(n, seconds, counters_move, &(struct moves){ moves, 700 });
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

/* A sample that reaches back to before it was late shows the work of the step before. */
static void gpu_work_from_before_is_no_life(void **state)
{
	const struct finding *f;
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	rank_2_is_late(n);
	gpu_shows(40, 40, 0);
	s = stands(n, 4);
	f = only();
	assert_true(s > 0 && s < STILL_S);
	assert_int_equal(f->cause, CAUSE_ASLEEP);
}

/* Who of several processes on a GPU works is not known. */
static void work_of_a_shared_gpu_is_nobodys(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };

	(void)state;
	rank_2_is_late(n);
	assert_int_equal(stands_with_gpu(n, 40, 40, 4711, 34)->severity, SEVERITY_CRITICAL);
}

/* What its GPU had still to do when the rank stopped coming is over: stillness counts from there. */
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

struct upload {
	uint64_t bytes, counters[TCP_COUNTERS];
};

/* One connection of rank 2 carries so many bytes between two samples. */
static void bytes_go(void *arg)
{
	struct upload *of = arg;
	struct event e = { .kind = EV_TCP_SAMPLE };

	of->counters[TCP_BYTES_ACKED] += of->bytes;
	e.tcp.sample.taken_ns = now;
	e.tcp.sample.state = TCP_STATE_ESTABLISHED;
	e.tcp.sample.n_counters = TCP_COUNTERS;
	e.tcp.counters = of->counters;
	give(e);
}

/* For `seconds`, and silent for ten more. */
static double late_and_sending(uint64_t bytes, double seconds)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	struct upload of = { .bytes = bytes };
	struct event e = job_event(EV_TCP, 2, 0);
	double named;

	session();
	e.tcp.id.inode = e.tcp.id.cookie = e.tcp.id.netns = 7;
	e.tcp.local = "10.0.0.3";
	e.tcp.remote = "10.9.9.9";
	e.tcp.netdev = "eth0";
	give(e);
	runs(n, 20, 3);
	n[0]++, n[1]++, n[3]++;
	named = late_and_alive(n, seconds, bytes_go, &of);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		TEST(gpu_work_from_before_is_no_life),
		TEST(work_of_a_shared_gpu_is_nobodys),
		TEST(work_that_ended_is_no_life),
		TEST(who_uploads_is_alive),
		TEST(what_stands_still_counts_from_the_last_sign_of_life),
		TEST(a_heartbeat_is_no_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
