/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_uncounted.c - no call is seen, no counter lags, and nothing moves: ranks wait in an AlltoAll or in the
 * creation of a communicator. Where all hosts are decides, or nobody is named.
 */
#include "tests/unit/job/outside_samples.h"

static uint64_t n_all[RANKS] = { 12, 12, 12, 12 };

static const struct samples_stack
	in_sync = { "", "cuStreamSynchronize (libcuda.so.1)",
		    "futex_wait (libc.so.6)\ncuStreamSynchronize (libcuda.so.1)\nmain (job)" },
	in_init = { "", "ncclCommInitRank (libtorch_cuda.so)",
		    "poll (libc.so.6)\nncclCommInitRank (libtorch_cuda.so)\nmain (job)" },
	in_save = { "/job/real.py:31 save", "recv (libc.so.6)", "recv (libc.so.6)\nsave (/job/real.py:31)" };

static void hosts_in(struct samples_stack s)
{
	for (int r = 0; r < RANKS; r++)
		stack_of[r] = s;
}

static void for_seconds(double seconds)
{
	for (uint64_t end_ns = now + (uint64_t)(seconds * SEC); now < end_ns;) {
		world(n_all);
		tick();
	}
}

/* All wait in a synchronization but rank 2, in a session. */
static void job_stands(void)
{
	m->hang_floor_ns = 1500 * MSEC;
	hosts_in(in_sync);
	stack_of[2] = in_save;
}

static void rank_2_is_named(const char *waiting)
{
	const struct finding *f = only();

	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->cause, CAUSE_ASLEEP);
	assert_int_equal(f->severity, SEVERITY_WARNING);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], 2);
	assert_false(f->has_op);
	assert_true(f->confidence > 0.69 && f->confidence < 0.71);
	assert_string_equal(text_of(f, "python"), "/job/real.py:31 save");
	assert_string_equal(text_of(f, "waiting_in"), waiting);
	assert_string_equal(text_of(f, "waiting_ranks"), "0,1,3");
	assert_string_equal(text_of(f, "known_from"), "stacks");
}

static void the_one_outside_of_nccl(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for_seconds(9.5);
	assert_int_equal(list.n, 0);
	for_seconds(1.5);
	rank_2_is_named("3 of 3 others: cuStreamSynchronize (libcuda.so.1)");
}

/* No communicator is there any more, or yet. */
static void the_one_that_does_not_join(void **state)
{
	(void)state;
	job_stands();
	hosts_in(in_init);
	stack_of[2] = in_save;
	ranks_appear();
	while (now < JOB_T0 + 11 * SEC)
		tick();
	rank_2_is_named("3 of 3 others: ncclCommInitRank (libtorch_cuda.so)");
}

/* A scan finds what is being made meanwhile: nothing has moved. */
static void a_communicator_that_is_met_late(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for_seconds(5);
	for (int i = 0; i < 12; i++) {
		for (int r = 0; r < RANKS; r++)
			if (r != 2)
				sample(r, LEFT, r, RANKS, REDUCED(0));
		for_seconds(0.5);
	}
	rank_2_is_named("3 of 3 others: cuStreamSynchronize (libcuda.so.1)");
}

static void nobody_for(double seconds)
{
	for_seconds(seconds);
	assert_int_equal(list.n, 0);
}

static const struct samples_stack in_gloo = {
	"/job/gen.py:120 gather", "pthread_cond_wait (libc.so.6)",
	"pthread_cond_wait (libc.so.6)\ngloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)\n"
	"gather_object (/venv/torch/distributed/distributed_c10d.py:3100)"
};

/* Ranks generate, each on its GPU; rank 2 was done first and waits for the others outside of NCCL. What GPUs do is not
 * known: it may be the reason, and it may not. */
static void who_is_done_first_is_not_named(void **state)
{
	(void)state;
	job_stands();
	stack_of[2] = in_gloo;
	ranks_appear();
	for_seconds(40);
	assert_int_equal(only()->class, HANG_UNKNOWN);
	assert_int_equal(only()->severity, SEVERITY_INFO);
	assert_int_equal(only()->n_ranks, 0);
	assert_string_equal(text_of(only(), "elsewhere_ranks"), "2");
}

/* That takes minutes in a healthy job, also as more of them are done: no page for it, ever. */
static void who_is_done_first_is_no_alarm(void **state)
{
	(void)state;
	for (int n_done = 1; n_done < 4; n_done++) {
		if (n_done > 1) {
			end(state);
			start(state);
		}
		job_stands();
		for (int r = 2; r > 2 - n_done; r--)
			stack_of[r] = in_gloo;
		ranks_appear();
		for_seconds(100);
		assert_int_equal(only()->severity, SEVERITY_WARNING);
		for_seconds(500);
		assert_int_equal(only()->class, HANG_UNKNOWN);
		assert_int_equal(only()->severity, SEVERITY_WARNING);
	}
}

/* Of two that sleep outside one meets no peer; or one of those inside waits in NCCL, where its frames show it. */
static void who_may_be_the_reason_is_an_alarm(void **state)
{
	(void)state;
	for (int inside = 0; inside < 2; inside++) {
		if (inside) {
			end(state);
			start(state);
		}
		job_stands();
		stack_of[2] = in_gloo;
		stack_of[0] = inside ? in_init : in_save;
		ranks_appear();
		for_seconds(170);
		assert_int_equal(only()->severity, SEVERITY_WARNING);
		for_seconds(20);
		assert_int_equal(only()->severity, SEVERITY_CRITICAL);
	}
}

/* Where NCCL's own frames show that its peers wait for it there, it is the one. */
static void who_meets_others_than_its_peers_is_named(void **state)
{
	(void)state;
	who_is_done_first_is_not_named(state);
	for (int r = 0; r < RANKS; r++)
		if (r != 2)
			stack_of[r] = in_init;
	for (int r = 0; r < RANKS; r++)
		n_all[r]++;
	for_seconds(12);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	assert_int_equal(only()->ranks[0], 2);
}

static void one_stack_that_was_not_read(void **state)
{
	(void)state;
	job_stands();
	stack_of[1].native = NULL;
	ranks_appear();
	nobody_for(30);
}

static void all_wait_inside(void **state)
{
	(void)state;
	job_stands();
	stack_of[2] = in_sync;
	ranks_appear();
	nobody_for(30);
}

static void none_waits_inside(void **state)
{
	(void)state;
	job_stands();
	hosts_in(in_save);
	ranks_appear();
	nobody_for(30);
}

/* It runs: it is at work, whatever its stack shows. */
static void it_runs(void **state)
{
	(void)state;
	job_stands();
	at[2].state = TASK_RUNNABLE;
	ranks_appear();
	nobody_for(30);
}

/* What an hour ago was its place says nothing. */
static void counters_that_move(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for (int i = 0; i < 6; i++) {
		for (int r = 0; r < RANKS; r++)
			n_all[r]++;
		nobody_for(9);
	}
}

/* It may be the reason, and nothing is known of it. */
static void a_rank_that_is_not_seen(void **state)
{
	struct event e;

	(void)state;
	job_stands();
	for (int r = 0; r < RANKS; r++) {
		e = job_event(EV_PROC, r, 0);
		e.proc.start_ns = 5;
		e.proc.rank = e.proc.local_rank = r;
		e.proc.world_size = RANKS + 1;
		e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
		give(e);
	}
	nobody_for(30);
}

static void a_rank_that_died(void **state)
{
	struct event e;

	(void)state;
	job_stands();
	ranks_appear();
	nobody_for(2);
	e = job_event(EV_EXIT, 3, 0);
	e.tid = e.tgid;
	e.exit.last = true;
	give(e);
	seen[3] = false;
	for_seconds(30);
	for (size_t i = 0; i < list.n; i++)
		assert_true(list.items[i].class == HANG_PROCESS_DEAD || !list.items[i].n_ranks);
}

/* That one may wait for it as well, on another way. */
static void it_waits_for_a_rank(void **state)
{
	struct event e;

	(void)state;
	job_stands();
	ranks_appear();
	nobody_for(2);
	e = job_event(EV_WAIT, 2, 0);
	e.tid = e.tgid;
	e.wait = (struct waits_for){
		.ns = now, .kind = WAITS_SOCKET, .pid = job_pid(0), .what = "", .who = "", .activity = ""
	};
	give(e);
	nobody_for(30);
}

/* Any of them may be the reason: told as that, first as information. */
static void several_outside(void **state)
{
	const struct finding *f;

	(void)state;
	job_stands();
	stack_of[0] = in_save;
	ranks_appear();
	for_seconds(12);
	f = only();
	assert_int_equal(f->class, HANG_UNKNOWN);
	assert_int_equal(f->cause, CAUSE_NOT_KNOWN);
	assert_int_equal(f->severity, SEVERITY_INFO);
	assert_int_equal(f->n_ranks, 0);
	assert_true(f->confidence < 0.5);
	assert_string_equal(text_of(f, "elsewhere_ranks"), "0,2");
	assert_string_equal(text_of(f, "waiting_ranks"), "1,3");
	assert_non_null(text_of(f, "excluded"));
}

/* Of several outside of NCCL one is at work: that is a longer step, whatever the others sleep for. */
static void one_of_several_works(void **state)
{
	(void)state;
	job_stands();
	stack_of[0] = in_save;
	ranks_appear();
	for (int i = 0; i < 60; i++) {
		struct event t = job_event(EV_TASK, 0, 0);

		t.tid = t.tgid + 1; /* its data worker */
		t.task.state = TASK_RUNNABLE;
		t.task.since_ns = JOB_T0;
		t.task.run_ns = now - JOB_T0;
		give(t);
		nobody_for(0.5);
	}
}

/* An autopsy looks for half a second. */
static void not_in_an_autopsy(void **state)
{
	(void)state;
	job_stands();
	m->hang_floor_ns = 250 * MSEC;
	ranks_appear();
	nobody_for(30);
}

/* The same pause again: known, and no warning. */
static void a_pause_that_recurs(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for_seconds(12);
	rank_2_is_named("3 of 3 others: cuStreamSynchronize (libcuda.so.1)");
	for (int r = 0; r < RANKS; r++)
		n_all[r]++;
	nobody_for(9);
	for_seconds(3);
	assert_int_equal(only()->severity, SEVERITY_INFO);
	assert_non_null(text_of(only(), "known_phase"));
}

static void all_go_on(void)
{
	for (int r = 0; r < RANKS; r++)
		n_all[r]++;
	for_seconds(1);
}

static uint64_t n_learnt(void)
{
	return detectors_pauses(d)->n_learnt;
}

/* It is late again, as before, and nothing was learnt: a warning. */
static void it_is_no_known_phase(void)
{
	assert_int_equal(n_learnt(), 0);
	for_seconds(12);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	assert_null(text_of(only(), "known_phase"));
}

/* It waits in a loop of sleeps, or a debugger woke it once: the job stands as before. */
static void a_rank_that_woke_up_has_not_come(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for_seconds(12);
	rank_2_is_named("3 of 3 others: cuStreamSynchronize (libcuda.so.1)");
	at[2].slept_ns = now;
	nobody_for(9);
	it_is_no_known_phase();
	all_go_on(); /* by itself in the end: that teaches */
	assert_int_equal(n_learnt(), 1);
}

static void dies(int r)
{
	struct event e = job_event(EV_EXIT, r, 0);

	e.tid = e.tgid;
	e.exit.last = true;
	give(e);
	seen[r] = false;
}

/* Somebody ends the job: the ends of peers are seen first, and who is left may call something on its way out. */
static void a_peer_that_dies_ends_no_pause(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for_seconds(20);
	assert_int_equal(only()->ranks[0], 2);
	dies(3);
	for_seconds(1);
	assert_int_equal(n_learnt(), 0);
	all_go_on();
	dies(2);
	for_seconds(1);
	assert_int_equal(n_learnt(), 0);
}

/* Its communicators are aborted after a long time, as by a watchdog, and the program begins anew with others. */
static void one_that_was_given_up_late(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		if (late) {
			end(state);
			start(state);
		}
		job_stands();
		ranks_appear();
		for_seconds(late ? 60 : 15);
		assert_int_equal(only()->ranks[0], 2);
		for (int i = 0; i < 4; i++) {
			for (int r = 0; r < RANKS; r++)
				sample(r, LEFT, r, RANKS, REDUCED(i));
			tick();
		}
		assert_int_equal(n_learnt(), !late);
	}
}

/* By a signal that somebody sends: it is no habit of it. */
static void one_that_was_stopped_meanwhile(void **state)
{
	(void)state;
	job_stands();
	ranks_appear();
	for_seconds(12);
	assert_int_equal(only()->ranks[0], 2);
	at[2].state = TASK_STOPPED;
	for_seconds(5);
	at[2].state = TASK_SLEEP;
	at[2].slept_ns = now;
	for_seconds(1);
	all_go_on();
	it_is_no_known_phase();
}

enum { SERVER = 0xd0, SERVERS = 10 };

/* A server beside the job: two processes of two ranks each, of which the last one lags. */
static void servers_look(bool first)
{
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(SERVERS + r / 2, 2, 0);

		e.proc.job = "server";
		e.proc.rank = e.proc.local_rank = r / 2;
		if (first && !(r % 2)) {
			give(e);
			give(job_event(EV_COMM_SCAN, SERVERS + r / 2, 0));
		}
		e = job_event(EV_TASK, SERVERS + r / 2, 0);
		e.tid = e.tgid;
		e.task.state = TASK_SLEEP;
		e.task.since_ns = JOB_T0;
		give(e);
		e = job_event(EV_COMM_SAMPLE, SERVERS + r / 2, 0);
		e.comm_sample.comm = SERVER + 0x1000 * (r + 1);
		e.comm_sample.hash = SERVER;
		e.comm_sample.rank = r;
		e.comm_sample.nranks = RANKS;
		e.comm_sample.device = 4 + r % 2;
		e.comm_sample.n_counters = OP_KINDS_COUNTED;
		e.comm_sample.counters[OP_ALLREDUCE] = r < 3 ? 8 : 7;
		give(e);
	}
}

static void another_job_has_a_finding(void **state)
{
	bool named = false, server = false;

	(void)state;
	job_stands();
	ranks_appear();
	for (int i = 0; i < 24; i++) {
		servers_look(!i);
		for_seconds(0.5);
	}
	for (size_t i = 0; i < list.n; i++) {
		const char *known_from = text_of(&list.items[i], "known_from");

		named |= list.items[i].ranks[0] == 2 && known_from && !strcmp(known_from, "stacks");
		server |= list.items[i].ranks[0] == 3;
	}
	assert_true(server);
	assert_true(named);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_one_outside_of_nccl),
		TEST(the_one_that_does_not_join),
		TEST(one_stack_that_was_not_read),
		TEST(who_is_done_first_is_not_named),
		TEST(who_is_done_first_is_no_alarm),
		TEST(who_may_be_the_reason_is_an_alarm),
		TEST(who_meets_others_than_its_peers_is_named),
		TEST(a_communicator_that_is_met_late),
		TEST(all_wait_inside),
		TEST(none_waits_inside),
		TEST(it_runs),
		TEST(counters_that_move),
		TEST(a_rank_that_is_not_seen),
		TEST(a_rank_that_died),
		TEST(it_waits_for_a_rank),
		TEST(several_outside),
		TEST(one_of_several_works),
		TEST(not_in_an_autopsy),
		TEST(a_pause_that_recurs),
		TEST(a_rank_that_woke_up_has_not_come),
		TEST(a_peer_that_dies_ends_no_pause),
		TEST(one_that_was_given_up_late),
		TEST(one_that_was_stopped_meanwhile),
		TEST(another_job_has_a_finding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
