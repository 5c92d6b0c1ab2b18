/* SPDX-License-Identifier: Apache-2.0
 *
 * test_called_gpu.c - calls are seen, nothing gets on, and GPUs say for whom: an operation whose end is not
 * seen, transfers that nobody can compare, and another job beside it. Four ranks by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/gpu_stall.h"
#include "detect/hang/stalled_op.h"
#include "tests/unit/job/finding_text.h"
#include "tests/unit/job/hand_gpu.h"
#include "tests/unit/job/hand_known.h"

#define CALLED (NOW - 12 * SEC) /* by all, for the last time */

static const struct gpu_sample in_nccl = { .window_ns = SEC / 2, .sm_bp = 1818, .occupancy_bp = 483 },
			       one_kernel = { .window_ns = SEC / 2, .sm_bp = 76, .occupancy_bp = 1 };
static struct job_id job = { .name = "j", .shown = "j" }, other_job;
static struct steps steps;
static struct op ops[HAND_RANKS];
static struct call waits[HAND_RANKS];
static struct wait_roots roots;
static struct stalled_ops ops_known;
static struct gpu_stalls stalls;
static struct suspects suspects;
static struct finding_list list;

static int begin(void **state)
{
	hand_setup(state);
	hand_gpus();
	m.hang_floor_ns = 3 * SEC / 2;
	steps = (struct steps){ .period_ops = 2 };
	comm.n_ended = 100;
	for (int r = 0; r < HAND_RANKS; r++) {
		procs[r].job = &job;
		procs[r].steps = &steps;
		procs[r].last_call_ns = members[r].last_call_ns = CALLED;
		members[r].seq_known = true;
		members[r].entered_seq[SEQ_COLL] = 8;
		ops[r] = (struct op){
			.member = &members[r], .id = 5, .kind = OP_ALLREDUCE, .count = 9, .peer = -1, .seq = 7
		};
		ops[r].enqueue_ns = CALLED;
		members[r].ops = members[r].ops_tail = members[r].first_open = &ops[r];
		waits[r] = (struct call){ .tid = HAND_PID(r), .is_sync = true, .begin_ns = CALLED, .name = "" };
		procs[r].calls = &waits[r];
	}
	hand_find();
	return 0;
}

static int end(void **state)
{
	(void)state;
	finding_list_free(&list);
	stalled_ops_free(&ops_known);
	gpu_stalls_free(&stalls);
	suspects_free(&suspects);
	hand_lose();
	return 0;
}

/* All GPUs, up to now; `odd` runs a kernel that is none of NCCL's, -1: no GPU does. */
static void gpus_show(int odd)
{
	for (int r = 0; r < HAND_RANKS; r++)
		for (int i = 20; i >= 0; i--)
			hand_sample(&gpus[r], NOW - i * SEC / 2, r == odd ? one_kernel : in_nccl);
}

static const struct finding *all_entered(void)
{
	list.n = 0;
	assert_int_equal(stalled_ops_refresh(&ops_known, &m), 0);
	assert_int_equal(stalled_op_report(&ops_known, &m, &roots, &list), 0);
	return list.n ? &list.items[0] : NULL;
}

static const struct finding *gpu_stall(void)
{
	list.n = 0;
	assert_int_equal(gpu_stalls_refresh(&stalls, &m, &suspects), 0);
	assert_int_equal(gpu_stalls_report(&stalls, &m, &suspects, &roots, &list), 0);
	return list.n ? &list.items[0] : NULL;
}

/* The budget took the probes that show an operation's end: it may be over, but not while GPUs wait in NCCL. */
static void an_end_that_is_not_seen(void **state)
{
	const struct finding *f;

	(void)state;
	for (int r = 0; r < HAND_RANKS; r++)
		known[r]->shed = 1u << PROBES_EVENTS;
	assert_null(all_entered());
	gpus_show(2);
	f = all_entered();
	assert_non_null(f);
	assert_true(f->class == HANG_INSIDE_GPU && f->cause == CAUSE_GPU_OTHER_KERNEL);
	assert_true(f->n_ranks == 1 && f->ranks[0] == 2 && f->seq == 7);
	waits[0].begin_ns = waits[1].begin_ns = waits[2].begin_ns = waits[3].begin_ns = NOW - 9 * SEC;
	assert_null(all_entered()); /* no host waits for that long */
}

/* A rank of another job that gets on says nothing of this one's. */
static void another_job_gets_on(void **state)
{
	(void)state;
	assert_non_null(all_entered());
	known[3]->last_call_ns = NOW;
	assert_null(all_entered());
	known[3]->job = &other_job;
	assert_non_null(all_entered());
}

/* Sends and receives of which no two are the same operation: no rank is behind, and nothing was entered by all. */
static void transfers_that_nobody_compares(void **state)
{
	const struct finding *f;

	(void)state;
	for (int r = 0; r < HAND_RANKS; r++)
		ops[r].kind = OP_SEND;
	assert_null(all_entered());
	assert_null(gpu_stall());
	gpus_show(1);
	f = gpu_stall();
	assert_non_null(f);
	assert_true(f->class == HANG_INSIDE_GPU && f->cause == CAUSE_GPU_OTHER_KERNEL && f->kind == FINDING_HANG);
	assert_true(f->n_ranks == 1 && f->ranks[0] == 1 && f->since_ns == CALLED);
	assert_false(f->has_op); /* which one it is, is not known */
}

/* The newest call of any rank is the last sign of progress. */
static void who_calls_gets_on(void **state)
{
	(void)state;
	gpus_show(1);
	known[3]->last_call_ns = NOW - 5 * SEC;
	assert_null(gpu_stall());
}

/* The root of one job says nothing of another. */
static void another_job_has_a_root(void **state)
{
	struct wait_root root = { .proc = known[0] };

	(void)state;
	gpus_show(1);
	roots = (struct wait_roots){ .roots = &root, .n_roots = 1 };
	assert_null(all_entered());
	assert_null(gpu_stall());
	known[0]->job = &other_job;
	known[0]->members = NULL;
	assert_non_null(gpu_stall());
	roots = (struct wait_roots){ 0 };
}

static void died(uint64_t at_ns)
{
	known[3]->dead = true;
	known[3]->exit_signal = 9;
	known[3]->exit_ns = at_ns;
	known[3]->world_size = HAND_RANKS;
	for (int r = 0; r < 3; r++)
		known[r]->shed = 1u << PROBES_EVENTS | 1u << PROBES_POLLS;
}

/* It had entered what its peers wait in, and no probe shows that they do: their hosts wait since then. */
static void one_that_died_inside(void **state)
{
	const struct finding *f;

	(void)state;
	m.now_ns = CALLED + 2 * SEC;
	died(CALLED + SEC);
	assert_null(all_entered());
	m.now_ns = CALLED + SEC + m.hang_floor_ns + 1;
	f = all_entered();
	assert_non_null(f);
	assert_true(f->class == HANG_PROCESS_DEAD && f->n_ranks == 1 && f->ranks[0] == 3);
	waits[0].is_sync = waits[1].is_sync = waits[2].is_sync = false;
	assert_null(all_entered());
}

/* The same where operations cannot be compared, with or without GPUs. */
static void one_that_died_between(void **state)
{
	const struct finding *f;

	(void)state;
	for (int r = 0; r < HAND_RANKS; r++)
		ops[r].kind = OP_SEND;
	died(CALLED + SEC);
	m.now_ns = CALLED + SEC + 2 * m.hang_floor_ns - 1;
	assert_null(gpu_stall());
	m.now_ns++;
	f = gpu_stall();
	assert_non_null(f);
	assert_true(f->class == HANG_PROCESS_DEAD && f->cause == CAUSE_DEAD && f->n_ranks == 1 && f->ranks[0] == 3);
	assert_int_equal(f->since_ns, CALLED + SEC);
	for (int r = 0; r < 3; r++)
		members[r].gone = true; /* they go on without it, in others */
	assert_null(gpu_stall());
	for (int r = 0; r < 3; r++)
		members[r].gone = false;
	members[3].comm = &(struct comm){ .members = &members[3] }; /* one of its own, as anybody can make */
	members[3].next_in_comm = NULL;
	members[2].next_in_comm = NULL;
	assert_null(gpu_stall());
	members[3].comm = &comm;
	members[2].next_in_comm = &members[3];
	assert_non_null(gpu_stall());
	known[3]->exit_signal = 0; /* it left as it should */
	assert_null(gpu_stall());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_end_that_is_not_seen, begin, end),
		cmocka_unit_test_setup_teardown(another_job_gets_on, begin, end),
		cmocka_unit_test_setup_teardown(transfers_that_nobody_compares, begin, end),
		cmocka_unit_test_setup_teardown(who_calls_gets_on, begin, end),
		cmocka_unit_test_setup_teardown(another_job_has_a_root, begin, end),
		cmocka_unit_test_setup_teardown(one_that_died_inside, begin, end),
		cmocka_unit_test_setup_teardown(one_that_died_between, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
