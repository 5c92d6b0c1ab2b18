/* SPDX-License-Identifier: Apache-2.0
 *
 * test_all_entered.c - an operation that all entered and that does not end, at its bounds: three ranks by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/stalled_op.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 3
#define T0 (100 * SEC) /* rank r enters r seconds later */
#define LAST (T0 + 2 * SEC)

static struct model m, *empty;
static struct node node;
static struct job_id job = { .name = "j", .shown = "j" };
static struct steps steps;
static struct comm comm;
static struct member members[RANKS], *by_rank[RANKS];
static struct proc procs[RANKS];
static struct op ops[RANKS], again;
static struct call waits;
static struct finding_list list;
static const struct wait_roots no_roots;
static struct stalled_ops ops_known;

static int fresh(void **state)
{
	(void)state;
	model_free(empty); /* of a test that begins anew */
	empty = model_new();
	m = *empty;
	m.now_ns = LAST + 10 * SEC;
	m.hang_floor_ns = 3 * SEC / 2;
	m.procs = &procs[0];
	m.comms = &comm;
	steps = (struct steps){ .period_ops = 2 };
	comm = (struct comm){ .hash = 12, .nranks = RANKS, .n_seen = RANKS, .by_rank = by_rank, .n_ended = 5 };
	comm.duration_p999_s = 0.01;
	for (int r = 0; r < RANKS; r++) {
		procs[r] = (struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = r, .steps = &steps };
		procs[r].job = &job;
		procs[r].leader = &procs[r];
		procs[r].next = r + 1 < RANKS ? &procs[r + 1] : NULL;
		procs[r].members = by_rank[r] = &members[r];
		procs[r].last_call_ns = LAST;
		members[r] = (struct member){ .comm = &comm, .proc = &procs[r], .rank = r, .seq_known = true };
		members[r].next_in_comm = comm.members;
		comm.members = &members[r];
		ops[r] =
			(struct op){ .member = &members[r], .id = 5 + r, .kind = OP_ALLREDUCE, .count = 9, .peer = -1 };
		ops[r].seq = 7;
		ops[r].enqueue_ns = T0 + r * SEC;
		members[r].ops = members[r].ops_tail = members[r].first_open = &ops[r];
		members[r].entered_seq[SEQ_COLL] = 8;
	}
	waits = (struct call){ .tid = 50, .is_sync = true, .begin_ns = T0, .name = "" };
	procs[0].calls = &waits;
	waits.begin_ns = T0; /* it sits there since it called */
	stalled_ops_free(&ops_known);
	return stalled_ops_refresh(&ops_known, &m);
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	model_free(empty);
	empty = NULL;
	return 0;
}

static const struct finding *at(uint64_t now_ns)
{
	m.now_ns = now_ns;
	list.n = 0;
	assert_int_equal(stalled_op_report(&ops_known, &m, &no_roots, &list), 0);
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static void ten_seconds_after_the_last(void **state)
{
	(void)state;
	assert_null(at(LAST + 10 * SEC - 1));
	assert_string_equal(finding_text_of(at(LAST + 10 * SEC)),
			    "hang unknown all_entered 0.4 AllReduce #7 in 12 since 102 w 0 c 30 by 0 ranks\n"
			    "waiting_s 10\nn_members 3\ncount 9");
	procs[0].shed = 1u << PROBES_POLLS;
	assert_true(at(LAST + 10 * SEC)->confidence == 0.2);
	procs[0].shed = 1u << PROBES_EVENTS; /* it may be over, unseen */
	assert_null(at(LAST + 10 * SEC));
	ops[0].not_done_ns = LAST + 9 * SEC; /* unless a query says so */
	assert_non_null(at(LAST + 10 * SEC));
	assert_non_null(at(LAST + 11 * SEC - 1));
	assert_null(at(LAST + 11 * SEC));
}

/* Five times what is usual, at least ten seconds; a minute in the first steps. */
static void how_long_it_may_take(void **state)
{
	(void)state;
	comm.duration_p999_s = 3;
	assert_null(at(LAST + 15 * SEC - 1));
	assert_non_null(at(LAST + 15 * SEC));
	assert_int_equal(at(LAST + 15 * SEC)->critical_after_ns, 45 * SEC);
	comm.n_ended = 4;
	assert_null(at(LAST + 60 * SEC - 1));
	assert_non_null(at(LAST + 60 * SEC));
	comm.n_ended = 5;
	steps.period_ops = 0;
	assert_null(at(LAST + 60 * SEC - 1));
	assert_non_null(at(LAST + 60 * SEC));
}

/* Hosts are ahead: what was entered with the first is at its turn when the one before it is over, on the last rank. */
static void the_time_of_those_before_does_not_count(void **state)
{
	struct op before = {
		.member = &members[1], .id = 4, .kind = OP_ALLREDUCE, .seq = 6, .end_ns = LAST + 50 * SEC
	};

	(void)state;
	ops[1].prev = &before;
	waits.begin_ns = T0;
	procs[1].last_call_ns = LAST;
	assert_null(at(LAST + 60 * SEC - 1));
	assert_int_equal(at(LAST + 60 * SEC)->since_ns, LAST + 50 * SEC);
}

static void tick(uint64_t now_ns)
{
	m.now_ns = now_ns;
	assert_int_equal(stalled_ops_refresh(&ops_known, &m), 0);
}

/* Three times the longest of the job, whichever operation it was; not one that a watchdog may have ended. */
static void what_ended_by_itself_may_take_so_long_again(void **state)
{
	for (int how = 0; how < 3; how++) {
		struct op next;

		fresh(state);
		tick(LAST + 1 * SEC);
		tick(LAST + 40 * SEC);
		members[0].gone = how == 1;
		procs[0].key += how == 2; /* another process */
		next = ops[0];
		next.id = 9;
		members[0].first_open = NULL;
		tick(LAST + 41 * SEC);
		members[0].first_open = members[0].ops = members[0].ops_tail = &next;
		members[0].gone = false;
		tick(LAST + 42 * SEC);
		assert_int_equal(!!at(LAST + 100 * SEC), how > 0);
		assert_non_null(at(LAST + 120 * SEC));
	}
	stalled_ops_free(&ops_known);
}

/* A job that the model knows no more is not kept here either. */
static void a_job_that_is_gone_is_forgotten(void **state)
{
	(void)state;
	tick(LAST);
	assert_int_equal(ops_known.jobs.n, 1);
	m.procs = NULL;
	tick(LAST + 3600 * SEC);
	assert_int_equal(ops_known.jobs.n, 0);
}

/* The host waits as long, in a call that began no earlier. */
static void what_shows_that_it_is_open(void **state)
{
	(void)state;
	waits.begin_ns = LAST;
	assert_null(at(LAST + 10 * SEC));
	assert_non_null(at(LAST + 10 * SEC + 1));
	waits.begin_ns = T0 - 1;
	assert_null(at(LAST + 11 * SEC));
	waits.begin_ns = T0;
	waits.is_sync = false;
	assert_null(at(LAST + 11 * SEC));
}

static void when_not_all_entered(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		fresh(NULL);
		comm.n_seen -= i == 1;
		members[2].seq_known = i != 2;
		members[2].ops_tail = i == 3 ? NULL : &ops[2];
		ops[2].enqueue_ns = i == 4 ? 0 : LAST;
		ops[0].kind = i == 5 ? OP_SEND : OP_ALLREDUCE;
		members[0].gone = i == 6;
		procs[0].dead = i == 7;
		assert_int_equal(at(LAST + 10 * SEC) != NULL, i == 0);
		done(NULL);
	}
	fresh(NULL);
}

/* One that still calls is about to bring the others on. */
static void one_that_calls(void **state)
{
	(void)state;
	procs[2].last_call_ns = LAST + 1;
	assert_null(at(LAST + 10 * SEC));
	assert_non_null(at(LAST + 10 * SEC + 1));
	procs[2].last_call_ns = LAST + 9 * SEC;
	procs[2].dead = true;
	assert_non_null(at(LAST + 10 * SEC));
	procs[2].dead = false;
	procs[2].members = NULL;
	assert_non_null(at(LAST + 10 * SEC));
}

/* Of several that are open the oldest: of a rank by its call, of ranks by the last entry. */
static void the_oldest_is_told(void **state)
{
	static struct comm second;
	static struct member other, *only;

	(void)state;
	second = comm;
	second.hash = 13;
	second.nranks = second.n_seen = 1;
	only = &other;
	second.by_rank = &only;
	other = members[0];
	other.asked = NULL;
	other.comm = &second;
	again = ops[0];
	again.member = &other;
	again.seq = 3;
	again.id = 4;
	other.first_open = other.ops_tail = &again;
	members[0].next_in_proc = &other;
	assert_int_equal(at(LAST + 10 * SEC)->seq, 3);
	again.id = 6;
	assert_int_equal(at(LAST + 10 * SEC)->seq, 7);
	members[0].next_in_proc = NULL;
	procs[1].members = &other; /* another rank's, whose host waits, too */
	procs[1].calls = &waits;
	other.proc = &procs[1];
	assert_int_equal(at(LAST + 10 * SEC)->seq, 3); /* entered two seconds before */
	again.enqueue_ns = LAST;
	waits.begin_ns = LAST;
	assert_int_equal(at(LAST + 11 * SEC)->seq, 7);
}

static void dies(int r, uint64_t ns)
{
	procs[r].dead = true;
	procs[r].exit_signal = 9;
	procs[r].exit_ns = ns;
}

/* Named soon, where a query after the death says that it is not over. */
static void one_died_meanwhile(void **state)
{
	(void)state;
	procs[0].calls = NULL;
	dies(2, LAST + SEC);
	ops[0].not_done_ns = LAST + SEC + m.hang_floor_ns;
	assert_null(at(LAST + 3 * SEC));
	ops[0].not_done_ns++;
	assert_string_equal(finding_text_of(at(LAST + 3 * SEC)),
			    "hang process_dead dead 0.9 AllReduce #7 in 12 since 103 w 0 c 30 by 0 ranks 2\n"
			    "exit_code 0\nexit_signal 9\ndead_s 2\nwaiting_s 2\nn_members 3\ncount 9");
	procs[1].last_call_ns = LAST + 3 * SEC / 2 + 1;
	assert_null(at(LAST + 3 * SEC)); /* it gets on */
	procs[1].last_call_ns--;
	assert_non_null(at(LAST + 3 * SEC));
	procs[2].exit_ns = T0; /* before the others came: since then */
	ops[0].not_done_ns = LAST + m.hang_floor_ns;
	assert_null(at(LAST + 3 * SEC));
	ops[0].not_done_ns++;
	assert_int_equal(at(LAST + 3 * SEC)->since_ns, LAST);
	procs[2].exit_signal = 0; /* as it should */
	assert_null(at(LAST + 3 * SEC));
	procs[2].exit_code = 1;
	assert_non_null(at(LAST + 3 * SEC));
	dies(1, LAST);
	assert_null(at(LAST + 3 * SEC)); /* the job ends */
}

/* One rank was asked to go, so all may be: for a launcher's grace it is no hang that what was under way goes on. */
static void the_job_is_taken_down(void **state)
{
	uint64_t now = LAST + 60 * SEC;

	(void)state;
	assert_non_null(at(now));
	dies(2, now - 35 * SEC + 1);
	procs[2].exit_signal = 15;
	assert_null(at(now));
	assert_non_null(at(now + 1));
	procs[2].exit_ns = LAST - 1; /* before it was entered by all: of an earlier life */
	assert_non_null(at(LAST + 10 * SEC));
	procs[2].exit_ns = now - SEC;
	procs[2].job = NULL;
	assert_non_null(at(now));
}

/* What those ranks of the job do that no host reports is not known. */
static void while_ranks_are_missing(void **state)
{
	struct wait_roots roots = { .missing = &job };

	(void)state;
	m.now_ns = LAST + 30 * SEC;
	list.n = 0;
	assert_int_equal(stalled_op_report(&ops_known, &m, &roots, &list), 0);
	assert_int_equal(list.n, 0);
	roots.missing = NULL;
	assert_int_equal(stalled_op_report(&ops_known, &m, &roots, &list), 0);
	assert_int_equal(list.n, 1);
}

static void no_death_no_hurry(void **state)
{
	(void)state;
	procs[0].calls = NULL;
	ops[0].not_done_ns = LAST + 3 * SEC;
	assert_null(at(LAST + 3 * SEC));
}

static void a_mismatch_explains_it(void **state)
{
	struct finding *f;

	(void)state;
	for (int i = 0; i < 3; i++) {
		list.n = 0;
		m.now_ns = LAST + 10 * SEC;
		f = finding_list_add(&list);
		f->kind = i == 1 ? FINDING_HANG : FINDING_MISMATCH;
		f->comm = i == 2 ? 13 : 12;
		f->key = 91;
		assert_int_equal(stalled_op_report(&ops_known, &m, &no_roots, &list), 0);
		assert_int_equal(list.items[1].caused_by_key, i ? 0 : 91);
	}
}

/* Of any member. */
static void a_gpu_explains_it(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++) {
		list.n = 0;
		m.now_ns = LAST + 10 * SEC;
		finding_list_add(&list)->kind = FINDING_XID;
		list.items[0].cause = CAUSE_HARDWARE;
		list.items[0].key = 91;
		finding_add_rank(&list.items[0], r, r ? 1 << 20 : procs[2].key);
		assert_int_equal(stalled_op_report(&ops_known, &m, &no_roots, &list), 0);
		assert_int_equal(list.items[1].caused_by_key, r ? 0 : 91);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ten_seconds_after_the_last, fresh, done),
		cmocka_unit_test_setup_teardown(the_time_of_those_before_does_not_count, fresh, done),
		cmocka_unit_test_setup_teardown(what_ended_by_itself_may_take_so_long_again, fresh, done),
		cmocka_unit_test_setup_teardown(a_job_that_is_gone_is_forgotten, fresh, done),
		cmocka_unit_test_setup_teardown(how_long_it_may_take, fresh, done),
		cmocka_unit_test_setup_teardown(what_shows_that_it_is_open, fresh, done),
		cmocka_unit_test_setup_teardown(when_not_all_entered, NULL, done),
		cmocka_unit_test_setup_teardown(one_that_calls, fresh, done),
		cmocka_unit_test_setup_teardown(the_oldest_is_told, fresh, done),
		cmocka_unit_test_setup_teardown(one_died_meanwhile, fresh, done),
		cmocka_unit_test_setup_teardown(the_job_is_taken_down, fresh, done),
		cmocka_unit_test_setup_teardown(while_ranks_are_missing, fresh, done),
		cmocka_unit_test_setup_teardown(no_death_no_hurry, fresh, done),
		cmocka_unit_test_setup_teardown(a_mismatch_explains_it, fresh, done),
		cmocka_unit_test_setup_teardown(a_gpu_explains_it, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
