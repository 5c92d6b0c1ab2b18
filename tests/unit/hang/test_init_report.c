/* SPDX-License-Identifier: Apache-2.0
 *
 * test_init_report.c - who keeps the creation of a communicator waiting, word for word: four ranks by hand, of which
 * the first two called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/classify.h"
#include "detect/hang/comm_init.h"
#include "detect/hang/pending.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 4
#define BUSY (90 * SEC)
#define T0 (100 * SEC) /* when they called */

static struct model m, *empty;
static struct node node;
static struct job_id job = { .name = "j", .shown = "j" }, other_job = { .name = "k", .shown = "k" };
static struct steps steps;
static struct proc procs[RANKS];
static struct task tasks[RANKS];
static struct comm_init init;
static struct comm_init_member callers[RANKS];
static struct comm parent;
static struct finding_list list;
static const struct suspects all;

static void calls(int r)
{
	callers[r] = (struct comm_init_member){ .proc = &procs[r], .rank = r, .since_ns = T0 + r * SEC };
	callers[r].next = init.members;
	init.members = &callers[r];
	init.n_called++;
}

static void sleeps(int r, uint64_t now_ns)
{
	tasks[r] = (struct task){ .tid = 50 + r, .tgid = 50 + r, .name = "python", .proc = &procs[r] };
	tasks[r].state = TASK_SLEEP;
	tasks[r].since_ns = T0 - SEC;
	tasks[r].prev_seen_ns = now_ns - 2 * SEC;
	tasks[r].seen_ns = now_ns - SEC;
	tasks[r].kernel_stack = tasks[r].file = "";
	tasks[r].wchan = "do_poll";
	tasks[r].syscall = "poll";
	procs[r].tasks = &tasks[r];
}

static void works(int r)
{
	tasks[r].state = TASK_ON_CPU;
	tasks[r].since_ns = tasks[r].seen_ns;
	tasks[r].run_ns = SEC;
}

static int fresh(void **state)
{
	(void)state;
	empty = model_new();
	m = *empty;
	m.now_ns = T0 + 10 * SEC;
	m.hang_floor_ns = SEC;
	m.busy_limit_ns = BUSY;
	m.procs = &procs[0];
	m.comm_inits = &init;
	init = (struct comm_init){ .kind = COMM_INIT_RANK, .id_hash = 14, .nranks = RANKS, .nth = 1, .first_ns = T0 };
	for (int r = 0; r < RANKS; r++) {
		procs[r] = (struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = r, .steps = &steps };
		procs[r].world_size = RANKS;
		procs[r].job = &job;
		procs[r].leader = &procs[r];
		procs[r].next = r + 1 < RANKS ? &procs[r + 1] : NULL;
		sleeps(r, m.now_ns);
	}
	calls(0);
	calls(1);
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	model_free(empty);
	return 0;
}

/* Of rank `r`, asked at that time. NULL: nothing. */
static const struct finding *asked(int r, uint64_t now_ns)
{
	struct rank_ref who = { &procs[r], NULL };
	struct pending pend = { .init = &init, .since_ns = T0, .limit_ns = 4 * SEC };
	size_t n = list.n;

	m.now_ns = now_ns;
	for (int i = 0; i < RANKS; i++) {
		bool busy = tasks[i].state == TASK_ON_CPU;

		sleeps(i, now_ns);
		if (busy)
			works(i);
	}
	assert_int_equal(comm_init_report_rank(&m, &who, &pend, BUSY, &list), 0);
	return list.n > n ? &list.items[n] : NULL;
}

static void a_sleeper_is_named_past_the_limit(void **state)
{
	(void)state;
	assert_null(asked(2, T0 + 4 * SEC));
	assert_string_equal(finding_text_of(asked(2, T0 + 5 * SEC)),
			    "hang init asleep 0.95 #0 in 14 since 100 w 0 c 0 by 0 ranks 2\ncreation InitRank\n"
			    "comm_size 4\nn_called 2\nwaiting_s 5\nwaiting_ranks 1,0\nmissing_comm_ranks 2,3\n"
			    "state asleep\nthread python\ntid 52\ncpu_share 0");
	assert_null(asked(3, T0 + 5 * SEC)); /* in the same finding */
	assert_int_equal(list.items[0].n_ranks, 2);
}

static void work_is_observed_late(void **state)
{
	(void)state;
	works(2);
	assert_null(asked(2, T0 + 30 * SEC));
	assert_string_equal(finding_text_of(asked(2, T0 + 30 * SEC + 1)),
			    "observation init busy 0.95 #0 in 14 since 100 w 0 c 0 by 0 ranks 2\n"
			    "creation InitRank\ncomm_size 4\nn_called 2\nwaiting_s 30\nwaiting_ranks 1,0\n"
			    "missing_comm_ranks 2,3\nstate on_cpu\nthread python\ntid 52\ncpu_share 1");
	list.n = 0;
	assert_int_equal(asked(2, T0 + BUSY)->kind, FINDING_OBSERVATION);
	list.n = 0;
	assert_int_equal(asked(2, T0 + BUSY + 1)->kind, FINDING_HANG);
}

/* A sleeper may wait for one that works: any rank of the job that is not inside, and no child. */
static void a_sleeper_may_wait_for_work(void **state)
{
	(void)state;
	works(3);
	assert_null(asked(2, T0 + 5 * SEC));
	procs[3].job = &other_job;
	assert_non_null(asked(2, T0 + 5 * SEC));
	list.n = 0;
	procs[3].job = &job;
	procs[3].is_child = true;
	assert_non_null(asked(2, T0 + 5 * SEC));
	list.n = 0;
	procs[3].is_child = false;
	procs[3].rank = -1;
	assert_non_null(asked(2, T0 + 5 * SEC));
	list.n = 0;
	procs[3].rank = 3;
	procs[3].dead = true;
	assert_non_null(asked(2, T0 + 5 * SEC));
	list.n = 0;
	procs[3].dead = false;
	tasks[3].state = TASK_SLEEP;
	works(1);
	assert_non_null(asked(2, T0 + 5 * SEC)); /* that one is inside, and spins */
	list.n = 0;
	callers[1].done_ns = T0 + 2 * SEC;
	assert_null(asked(2, T0 + 5 * SEC));
	procs[0].dead = true; /* one before it */
	assert_null(asked(2, T0 + 5 * SEC));
	procs[0].dead = false;
	callers[0].done_ns = T0 + 2 * SEC;
	tasks[1].state = TASK_SLEEP;
	works(0);
	assert_null(asked(2, T0 + 5 * SEC));
}

static void one_that_died(void **state)
{
	(void)state;
	procs[2].dead = true;
	procs[2].exit_code = 1;
	procs[2].exit_signal = 9;
	works(3);
	assert_string_equal(finding_text_of(asked(2, T0 + 5 * SEC)),
			    "hang init dead 0.95 #0 in 14 since 100 w 0 c 0 by 0 ranks 2\ncreation InitRank\n"
			    "comm_size 4\nn_called 2\nwaiting_s 5\nwaiting_ranks 1,0\nmissing_comm_ranks 2,3\n"
			    "exit_code 1\nexit_signal 9");
}

static struct finding *other(enum finding_kind kind, uint64_t key, uint64_t proc)
{
	struct finding *f = finding_list_add(&list);

	f->kind = kind;
	f->key = key;
	finding_add_rank(f, 0, proc);
	return f;
}

static const struct finding *as(enum task_state state, bool blocked, uint64_t now_ns)
{
	struct rank_ref who = { &procs[2], NULL };
	struct pending pend = { .init = &init, .since_ns = T0, .limit_ns = 4 * SEC };
	size_t n = list.n;

	m.now_ns = now_ns;
	tasks[2].state = state;
	tasks[2].blocked = blocked;
	tasks[2].kernel_stack = "nfs_wait";
	assert_int_equal(comm_init_report_rank(&m, &who, &pend, BUSY, &list), 0);
	return list.n > n ? &list.items[n] : NULL;
}

static void what_explains_it(void **state)
{
	(void)state;
	other(FINDING_D_STATE, 91, 52);
	other(FINDING_XID, 92, 52);
	list.items[1].cause = CAUSE_HARDWARE;
	assert_string_equal(finding_text_of(as(TASK_DISK, true, T0 + 5 * SEC)),
			    "hang init d_state 0.95 #0 in 14 since 100 w 0 c 0 by 91 ranks 2\n"
			    "creation InitRank\ncomm_size 4\nn_called 2\nwaiting_s 5\nwaiting_ranks 1,0\n"
			    "missing_comm_ranks 2,3\nstate disk\nthread python\ntid 52\nkernel_stack nfs_wait");
	list.n = 2;
	assert_string_equal(finding_text_of(as(TASK_STOPPED, false, T0 + 5 * SEC)),
			    "hang init stopped 0.95 #0 in 14 since 100 w 0 c 0 by 92 ranks 2\n"
			    "creation InitRank\ncomm_size 4\nn_called 2\nwaiting_s 5\nwaiting_ranks 1,0\n"
			    "missing_comm_ranks 2,3\nstate stopped\nthread python\ntid 52");
	list.n = 2;
	list.items[1].cause = CAUSE_INFORMATION;
	assert_int_equal(as(TASK_SLEEP, false, T0 + 5 * SEC)->caused_by_key, 0);
}

static void what_was_lost_makes_it_unsure(void **state)
{
	(void)state;
	m.last_loss_ns = T0 - 10 * SEC;
	assert_true(asked(2, T0 + 5 * SEC)->confidence == 0.95);
	list.n = 0;
	m.last_loss_ns++;
	assert_true(asked(2, T0 + 5 * SEC)->confidence == 0.4);
}

static void a_split_names_ranks_of_its_parent(void **state)
{
	(void)state;
	parent = (struct comm){ .hash = 15, .nranks = RANKS };
	init.kind = COMM_INIT_SPLIT;
	init.id_hash = 0;
	init.parent = &parent;
	assert_string_equal(finding_text_of(asked(2, T0 + 5 * SEC)),
			    "hang init asleep 0.95 #0 in 0 since 100 w 0 c 0 by 0 ranks 2\ncreation Split\n"
			    "comm_size 4\nn_called 2\nwaiting_s 5\nwaiting_ranks 1,0\n"
			    "missing_parent_ranks 2,3\nstate asleep\nthread python\ntid 52\ncpu_share 0");
}

/* --- no rank is surely missing --- */

static const struct finding *rest(uint64_t now_ns)
{
	m.now_ns = now_ns;
	for (int r = 0; r < RANKS; r++) {
		bool busy = tasks[r].state == TASK_ON_CPU;

		sleeps(r, now_ns);
		if (busy)
			works(r);
	}
	list.n = 0;
	assert_int_equal(comm_init_report_rest(&m, &all, &list), 0);
	return list.n ? &list.items[0] : NULL;
}

static void an_id_of_a_part_of_the_job(void **state)
{
	(void)state;
	init.nranks = 3;
	assert_null(rest(T0 + 9 * SEC / 2 - 1));
	assert_string_equal(finding_text_of(rest(T0 + 9 * SEC / 2)),
			    "hang init not_known 0.57 #0 in 14 since 100 w 0 c 0 by 0 ranks\n"
			    "creation InitRank\ncomm_size 3\nn_called 2\nwaiting_s 4.5\nwaiting_ranks 1,0\n"
			    "missing_comm_ranks 2\nranks_outside 2,3");
	works(3);
	assert_null(rest(T0 + 30 * SEC - 1));
	assert_string_equal(finding_text_of(rest(T0 + 30 * SEC)),
			    "observation init not_known 0.57 #0 in 14 since 100 w 0 c 0 by 0 ranks\n"
			    "creation InitRank\ncomm_size 3\nn_called 2\nwaiting_s 30\nwaiting_ranks 1,0\n"
			    "missing_comm_ranks 2\nranks_outside 2,3");
	assert_int_equal(rest(T0 + BUSY)->kind, FINDING_OBSERVATION);
	assert_int_equal(rest(T0 + BUSY + 1)->kind, FINDING_HANG);
	calls(2);
	assert_null(rest(T0 + BUSY + 1));
}

static void ranks_of_other_hosts_are_missing(void **state)
{
	(void)state;
	calls(2);
	calls(3);
	assert_null(rest(T0 + 40 * SEC)); /* all called */
	init.nranks = 8;
	assert_null(rest(T0 + 30 * SEC - 1));
	assert_string_equal(finding_text_of(rest(T0 + 30 * SEC)),
			    "observation init not_seen 0.57 #0 in 14 since 100 w 0 c 0 by 0 ranks\n"
			    "creation InitRank\ncomm_size 8\nn_called 4\nwaiting_s 30\nwaiting_ranks 3,2,1,0\n"
			    "missing_comm_ranks 4,5,6,7");
	for (int r = 0; r < RANKS; r++)
		callers[r].done_ns = T0 + 9 * SEC;
	assert_null(rest(T0 + 40 * SEC)); /* none waits */
}

static void those_surely_missing_are_not_said_twice(void **state)
{
	(void)state;
	assert_null(rest(T0 + 40 * SEC));
}

/* --- from memory alone --- */

static struct member seen[RANKS];
static struct comm outside;

static void scanned(void)
{
	static struct member *by_rank[RANKS];

	m.comm_inits = NULL;
	m.comms = &outside;
	outside = (struct comm){ .hash = 16, .nranks = RANKS, .n_seen = RANKS - 1, .by_rank = by_rank };
	for (int r = 0; r < RANKS; r++) {
		procs[r].comms_scanned = true;
		by_rank[r] = r < RANKS - 1 ? &seen[r] : NULL;
		if (!by_rank[r])
			continue;
		seen[r] = (struct member){
			.comm = &outside, .proc = &procs[r], .rank = r, .next_in_comm = outside.members
		};
		seen[r].samples = (struct samples){ .n = 2, .since_ns = T0 + r * SEC, .seen_ns = T0 + 9 * SEC };
		seen[r].samples.init_state = 7;
		outside.members = &seen[r];
	}
}

static void one_outside_of_it(void **state)
{
	(void)state;
	scanned();
	assert_string_equal(finding_text_of(rest(T0 + 10 * SEC)),
			    "hang init asleep 0.8 #0 in 16 since 100 w 0 c 0 by 0 ranks 3\nwaiting_s 10\n"
			    "n_waiting 3\nwaiting_ranks 0,1,2\nknown_from counters\ncomm_size 4\nstate asleep\n"
			    "thread python\nsyscall poll\nwchan do_poll");
	works(3);
	assert_int_equal(rest(T0 + 10 * SEC)->kind, FINDING_OBSERVATION);
	assert_int_equal(rest(T0 + 10 * SEC)->cause, CAUSE_BUSY);
}

static void when_it_is_not_known(void **state)
{
	(void)state;
	for (int i = 0; i < 14; i++) {
		fresh(NULL);
		scanned();
		outside.n_seen += i == 1;
		outside.highest_seq[SEQ_COLL] = i == 2;
		seen[1].gone = i == 3;
		seen[1].last_call_ns = i == 4;
		seen[1].samples.init_state = i == 5 ? 0 : 7;
		seen[1].samples.seen_ns = i == 6 ? seen[1].samples.since_ns : T0 + 9 * SEC;
		procs[3].dead = i == 7;
		procs[3].is_child = i == 8;
		procs[3].comms_scanned = i != 9;
		procs[3].rank = i == 10 ? -1 : i == 11 ? RANKS : 3;
		procs[3].world_size = i == 12 ? RANKS + 1 : RANKS;
		outside.by_rank = i == 13 ? NULL : outside.by_rank;
		assert_int_equal(rest(T0 + 10 * SEC) != NULL, i == 0);
		if (i < 13)
			done(NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sleeper_is_named_past_the_limit, fresh, done),
		cmocka_unit_test_setup_teardown(work_is_observed_late, fresh, done),
		cmocka_unit_test_setup_teardown(a_sleeper_may_wait_for_work, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_died, fresh, done),
		cmocka_unit_test_setup_teardown(what_explains_it, fresh, done),
		cmocka_unit_test_setup_teardown(what_was_lost_makes_it_unsure, fresh, done),
		cmocka_unit_test_setup_teardown(a_split_names_ranks_of_its_parent, fresh, done),
		cmocka_unit_test_setup_teardown(an_id_of_a_part_of_the_job, fresh, done),
		cmocka_unit_test_setup_teardown(ranks_of_other_hosts_are_missing, fresh, done),
		cmocka_unit_test_setup_teardown(those_surely_missing_are_not_said_twice, fresh, done),
		cmocka_unit_test_setup_teardown(one_outside_of_it, fresh, done),
		cmocka_unit_test_setup_teardown(when_it_is_not_known, NULL, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
