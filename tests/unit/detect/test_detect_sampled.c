/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_sampled.c - a job of which no call was seen, only NCCL's counters at two samples: who is behind, in what,
 * and when nobody may be named. Also what the report for people says of it. Looks are written by hand.
 */
#include "tests/unit/job/outside_samples.h"

static void the_one_behind_is_named(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };
	const struct finding *f;

	(void)state;
	who();
	at[2].syscall = "clock_nanosleep";
	world(n);
	tick();
	assert_int_equal(list.n, 0); /* one sample proves nothing: it may be on its way */
	world(n);
	tick();
	f = only();
	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->ranks[0], 2);
	assert_int_equal(f->comm, WORLD);
	assert_true(f->has_op);
	assert_int_equal(f->op, OP_ALLREDUCE);
	assert_int_equal(f->seq, 12); /* the Broadcast was #0, eleven AllReduce follow */
	assert_int_equal(f->since_ns, JOB_T0);
	assert_string_equal(text_of(f, "waiting_ranks"), "0,1,3");
	assert_string_equal(text_of(f, "syscall"), "clock_nanosleep");
	assert_null(text_of(f, "op_one_of"));
	assert_true(f->confidence > 0.9);
	assert_non_null(finding_evidence(f, EVIDENCE_WAITING_LONGER)); /* they waited when we came */
}

/* Since when is known where the peers were seen to move. */
static void a_wait_that_was_seen_to_begin(void **state)
{
	const uint64_t before[] = { 11, 11, 11, 11 }, n[] = { 12, 12, 11, 12 };

	(void)state;
	who();
	world(before);
	tick();
	for (int i = 0; i < 12 && !list.n; i++) {
		world(n);
		tick();
	}
	assert_int_equal(only()->ranks[0], 2);
	assert_true(only()->since_ns > JOB_T0);
	assert_null(finding_evidence(only(), EVIDENCE_WAITING_LONGER));
}

static void a_stopped_one_is_named_so(void **state)
{
	const uint64_t n[] = { 11, 12, 12, 12 };

	(void)state;
	who();
	at[0].state = TASK_STOPPED;
	world(n);
	tick();
	assert_int_equal(list.n, 0); /* its peers were seen once: they may be going on */
	world(n);
	tick();
	assert_int_equal(only()->class, HANG_STOPPED);
	assert_int_equal(only()->ranks[0], 0);
}

/* It works: that is no hang yet, but it is reported. */
static void one_that_works_is_observed(void **state)
{
	const uint64_t n[] = { 12, 11, 12, 12 };

	(void)state;
	who();
	at[1].state = TASK_RUNNABLE;
	for (int i = 0; i < 3; i++) {
		world(n);
		tick();
	}
	assert_int_equal(only()->kind, FINDING_OBSERVATION);
	assert_int_equal(only()->ranks[0], 1);
}

/* Behind at both looks, but everybody moves: a host that runs ahead. */
static void who_moves_does_not_wait(void **state)
{
	const uint64_t first[] = { 12, 12, 11, 12 }, then[] = { 15, 15, 14, 15 };

	(void)state;
	who();
	world(first);
	tick();
	world(then);
	tick();
	assert_int_equal(list.n, 0);
	assert_true(m->comms->members->samples.moved);
}

static void equal_counts_name_nobody(void **state)
{
	const uint64_t n[] = { 12, 12, 12, 12 };

	(void)state;
	who();
	for (int i = 0; i < 3; i++) {
		world(n);
		tick();
	}
	assert_int_equal(list.n, 0);
}

/* Two kinds lacked at once: which comes first is not in the counters. */
static void a_choice_is_reported(void **state)
{
	const uint64_t ahead[] = { 1, 0, 3, 2, 7 }, behind[] = { 1, 0, 2, 1, 7 };
	const struct finding *f;

	(void)state;
	who();
	for (int i = 0; i < 2; i++) {
		for (int r = 0; r < RANKS; r++)
			sample(r, WORLD, r, RANKS, r == 3 ? behind : ahead);
		tick();
	}
	f = only();
	assert_int_equal(f->ranks[0], 3);
	assert_int_equal(f->seq, 11);
	assert_string_equal(text_of(f, "op_one_of"), "AllGather,ReduceScatter");
	assert_true(f->op == OP_ALLGATHER || f->op == OP_REDUCESCATTER);
}

/* Ranks 0 and 1 in LEFT, 2 and 3 in RIGHT. In both one is behind; 1 waits in a Recv, which nothing counts, for 3. */
static void who_sits_like_a_waiter_is_no_root(void **state)
{
	(void)state;
	at[3].syscall = "clock_nanosleep";
	two_groups();
	assert_int_equal(only()->ranks[0], 3);
	assert_int_equal(only()->comm, RIGHT);
	assert_true(only()->confidence > 0.8);
}

/* None differs from those that wait: no rank is named for sure. */
static void roots_that_cannot_be_distinguished(void **state)
{
	(void)state;
	two_groups();
	assert_int_equal(only()->class, HANG_UNKNOWN);
	assert_true(only()->confidence < 0.5);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	assert_int_equal(only()->n_ranks, 2);
	assert_int_equal(only()->ranks[0], 1);
	assert_int_equal(only()->ranks[1], 3);
	assert_true(finding_number(only(), EVIDENCE_ONE_OF) == 2);
}

/* A session does not warn of what it cannot name, for as long as a step may take. */
static void a_session_is_not_sure_for_a_while(void **state)
{
	size_t n = 0;

	(void)state;
	two_groups();
	m->hang_floor_ns = 1500 * MSEC;
	while (now < JOB_T0 + 9 * SEC) {
		tick();
		for (size_t i = 0; i < list.n; i++)
			assert_int_equal(list.items[i].severity, SEVERITY_INFO);
		n += list.n;
	}
	assert_true(n > 0);
}

/* Another communicator at the same address: what was there before says nothing of it. */
static void another_generation(void **state)
{
	const uint64_t n[] = { 12, 12, 12, 12 };

	(void)state;
	who();
	world(n);
	tick();
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_event(EV_COMM_SAMPLE, r, 0);

		e.comm_sample.comm = WORLD;
		e.comm_sample.hash = 0x99;
		e.comm_sample.rank = r;
		e.comm_sample.nranks = RANKS;
		e.comm_sample.n_counters = OP_KINDS_COUNTED;
		give(e);
	}
	tick();
	assert_int_equal(list.n, 0);
	for (const struct proc *p = m->procs; p; p = p->next) {
		assert_int_equal(p->members->comm->hash, 0x99);
		assert_int_equal(p->members->samples.n, 1);
		assert_true(p->members->next_in_proc->gone);
	}
}

/* A rank is blocked, and its memory cannot be read. */
static const struct finding *unread(int rank)
{
	const uint64_t n[] = { 12, 12, 12, 12 };
	struct event e = job_event(EV_BLOCKED, rank, 0);
	const struct finding *f = NULL;

	who();
	seen[rank] = false;
	at[rank].state = TASK_DISK;
	world(n);
	tick();
	world(n);
	e.tid = e.tgid;
	e.blocked.begin_ns = JOB_T0 + MSEC;
	e.blocked.mmap_lock_held = true;
	e.blocked.wchan = "percpu_rwsem_wait";
	give(e);
	tick();
	for (size_t i = 0; i < list.n; i++) {
		assert_int_equal(list.items[i].ranks[0], rank);
		f = list.items[i].kind == FINDING_HANG ? &list.items[i] : f;
	}
	return f;
}

/* Behind in two, whose peers did not move by the same look; in a third they did so only later, and it is no choice. */
static void behind_in_two_of_them(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };
	const struct finding *f;

	(void)state;
	who();
	for (int i = 0; i < 4; i++) {
		world(n);
		sample(2, RIGHT, 0, 2, REDUCED(4));
		sample(3, RIGHT, 1, 2, REDUCED(5));
		sample(2, LEFT, 1, 2, REDUCED(7));
		sample(0, LEFT, 0, 2, REDUCED(i < 3 ? 7 : 8));
		if (i < 3) {
			tick();
			now += 500 * MSEC;
		}
	}
	world(n);
	tick();
	f = only();
	assert_int_equal(f->ranks[0], 2);
	assert_int_equal(f->comm, WORLD);
	assert_int_equal(f->seq, 12);
	assert_string_equal(text_of(f, "comm_one_of"), "0x00000000000000a0#12,0x00000000000000c0#5");
}

/* All others do not move for it. */
static void an_unread_one_is_named(void **state)
{
	const struct finding *f = unread(1);

	(void)state;
	assert_non_null(f);
	assert_int_equal(f->class, HANG_HOST_BLOCKED);
	assert_int_equal(f->seq, 12);
	assert_int_equal(f->op, OP_ALLREDUCE);
	assert_int_equal(f->caused_by_key, finding_list_of(&list, FINDING_D_STATE, job_pid(1))->key);
	assert_null(text_of(f, "comm_one_of"));
}

/* Rank 0 is a rank like any other. */
static void an_unread_first_one_is_named(void **state)
{
	(void)state;
	assert_non_null(unread(0));
}

/* One more is not seen, on another node or for whatever reason: it may be that one they wait for. */
static void of_two_unread_nobody_is_named(void **state)
{
	(void)state;
	seen[3] = false;
	assert_null(unread(1));
}

/* Ranks 0 and 1 share WORLD and LEFT; each is ahead in one and behind in the other. */
static void crossed(void)
{
	who();
	for (int i = 0; i < 3; i++) {
		for (int r = 0; r < 2; r++) {
			sample(r, WORLD, r, 2, REDUCED(r ? 8 : 9));
			sample(r, LEFT, r, 2, REDUCED(r ? 31 : 30));
		}
		tick();
	}
}

static void two_orders_are_a_deadlock(void **state)
{
	const struct finding *f;

	(void)state;
	crossed();
	f = only();
	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_DEADLOCK);
	assert_int_equal(f->n_ranks, 2);
	assert_true(f->has_op);
	assert_int_equal(f->op, OP_ALLREDUCE);
	assert_int_equal(f->seq, f->comm == WORLD ? 9 : 31);
	assert_int_equal(f->since_ns, JOB_T0);
	assert_non_null(strstr(text_of(f, "comms"), "0x00000000000000b0"));
}

/* Both are in motion, or may be: nothing says who delays whom. */
static void a_cycle_that_runs_names_nobody_for_sure(void **state)
{
	(void)state;
	at[0].syscall = "clock_nanosleep";
	crossed();
	assert_true(list.n > 0);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].class, HANG_UNKNOWN);
}

/* Three in a ring of pairs; the one that sits elsewhere is the one. */
static void the_odd_one_of_a_cycle_is_named(void **state)
{
	static const uint64_t comms[] = { WORLD, LEFT, RIGHT };

	(void)state;
	who();
	at[1].syscall = "clock_nanosleep";
	for (int i = 0; i < 2; i++) {
		for (int c = 0; c < 3; c++) { /* c is ahead of c + 1 */
			sample(c, comms[c], 0, 2, REDUCED(9));
			sample((c + 1) % 3, comms[c], 1, 2, REDUCED(8));
		}
		tick();
	}
	assert_int_equal(only()->ranks[0], 1);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
}

/* Three wait in the creation of the job's communicator. */
static void creation(bool scanned)
{
	if (scanned)
		who();
	else
		ranks_appear();
	for (int i = 0; i < 2; i++) {
		for (int r = 0; r < RANKS; r++) {
			struct event e = job_event(EV_COMM_SAMPLE, r, 0);

			e.comm_sample.comm = e.comm_sample.hash = WORLD;
			e.comm_sample.rank = r;
			e.comm_sample.nranks = RANKS;
			e.comm_sample.n_counters = OP_KINDS_COUNTED;
			e.comm_sample.init_state = 7; /* in progress */
			if (r != 2)
				give(e);
		}
		tick();
	}
}

/* A session finds communicators one after the other: who shows none yet may have one. */
static void who_was_not_scanned_is_not_named(void **state)
{
	(void)state;
	creation(false);
	assert_int_equal(list.n, 0);
}

static void who_misses_a_creation_is_named(void **state)
{
	(void)state;
	creation(true);
	assert_int_equal(only()->kind, FINDING_HANG);
	assert_int_equal(only()->class, HANG_INIT);
	assert_int_equal(only()->ranks[0], 2);
	assert_int_equal(only()->comm, WORLD);
	assert_string_equal(text_of(only(), "waiting_ranks"), "0,1,3");
}

static void who_is_still_starting_is_observed(void **state)
{
	(void)state;
	at[2].state = TASK_RUNNABLE;
	creation(true);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].kind, FINDING_OBSERVATION);
}

/* --- the report --- */

static void the_verdict_comes_first(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };
	char *text;

	(void)state;
	who();
	at[2].syscall = "openat";
	for (int i = 0; i < 2; i++) {
		world(n);
		tick();
	}
	text = report(true);
	assert_int_equal(strncmp(text, "WARNING stall  rank 2 has not entered AllReduce #12: ", 53), 0);
	assert_non_null(strstr(text, "communicator 0x00000000000000a0 of 4 ranks\n"));
	assert_non_null(strstr(text, "\n4 ranks on node7, "));
	assert_non_null(strstr(text, "openat                              0x0000"));
	assert_non_null(strstr(text, "2/4 #12 behind by 1"));
	assert_non_null(strstr(text, "waiting_ranks: 0,1,3"));
	free(text);
}

static void life_is_reported(void **state)
{
	const uint64_t first[] = { 12, 12, 12, 12 }, then[] = { 15, 15, 14, 15 };
	char *text;

	(void)state;
	who();
	world(first);
	tick();
	world(then);
	tick();
	text = report(false);
	assert_int_equal(strncmp(text, "HEALTHY  4 of 4 ranks", 21), 0);
	free(text);
}

static void ignorance_is_reported(void **state)
{
	const uint64_t n[] = { 12, 12, 12, 12 };
	char *text;

	(void)state;
	who();
	text = report(false);
	assert_int_equal(strncmp(text, "UNKNOWN  no communicator", 24), 0);
	free(text);
	for (int i = 0; i < 2; i++) {
		world(n);
		tick();
	}
	text = report(false);
	assert_int_equal(strncmp(text, "UNKNOWN  no rank is behind", 26), 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_one_behind_is_named),
		TEST(a_wait_that_was_seen_to_begin),
		TEST(a_stopped_one_is_named_so),
		TEST(one_that_works_is_observed),
		TEST(who_moves_does_not_wait),
		TEST(equal_counts_name_nobody),
		TEST(a_choice_is_reported),
		TEST(who_sits_like_a_waiter_is_no_root),
		TEST(roots_that_cannot_be_distinguished),
		TEST(a_session_is_not_sure_for_a_while),
		TEST(another_generation),
		TEST(behind_in_two_of_them),
		TEST(an_unread_one_is_named),
		TEST(an_unread_first_one_is_named),
		TEST(of_two_unread_nobody_is_named),
		TEST(two_orders_are_a_deadlock),
		TEST(a_cycle_that_runs_names_nobody_for_sure),
		TEST(the_odd_one_of_a_cycle_is_named),
		TEST(who_misses_a_creation_is_named),
		TEST(who_was_not_scanned_is_not_named),
		TEST(who_is_still_starting_is_observed),
		TEST(the_verdict_comes_first),
		TEST(life_is_reported),
		TEST(ignorance_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
