/* SPDX-License-Identifier: Apache-2.0
 *
 * test_step_operators.c - the phases of a step where no range of PyTorch is seen, or none any more: by the operators
 * that optimizers run, by DDP's marks and by the gathers of a sharded model. A change from one to the other ends what
 * was counted so far.
 */
#include "tests/unit/rank/step_marks.h"

/* It takes so long, which does not show. */
static void update(int ms)
{
	mark(TORCH_UPDATE, "");
	now_ms += ms;
}

static void all_gather(uint32_t tid)
{
	struct event e = {
		.kind = EV_OP,
		.tid = tid,
		.op = { .addr = 0xc0, .stream = 7, .count = 8, .op = OP_ALLGATHER, .dtype = 7, .peer = -1 }
	};

	apply(&e);
}

/* Adam: its state's step counters, 2 of its own, an update of 1, 4 of its own, an update: 7 ms. */
static void adam(void)
{
	mark(TORCH_OPERATOR, "");
	now_ms += 2;
	mark(TORCH_OPERATOR, "");
	update(1);
	now_ms += 4;
	update(0);
}

/* 6 for the data, of which nothing shows, 10 forward, 20 backward in which the engine's thread gathers, 1 clipping, 7
 * optimizer: 44 ms. */
static void sharded_step(void)
{
	now_ms += 6;
	all_gather(TID);
	now_ms += 4;
	all_gather(TID);
	now_ms += 6;
	mark(TORCH_BACKWARD_BEGIN, "");
	all_gather(TID + 1);
	now_ms += 15;
	all_gather(TID);
	now_ms += 5;
	mark(TORCH_BACKWARD_END, "");
	now_ms++;
	adam();
}

static void ranges_shed(bool shed)
{
	struct event e = { .kind = EV_BUDGET,
			   .budget = { .what = shed ? BUDGET_SHED : BUDGET_BACK,
				       .group = PROBES_RANGES,
				       .shed = shed ? 1u << PROBES_RANGES : 0 } };

	apply(&e);
}

static void sharded(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		sharded_step();
	assert_int_equal(n_done, 2); /* the first one's begin was not seen, the fourth is not over */
	phases_are(0, 10, 20, 7, 44);
	assert_true(last.by == STEPS_BY_OPERATORS && last.forward_by_gather && !last.forward_by_gap);
	assert_true(!last.by_data_wait && last.n_backward == 1 && last.n_optimizer == 1);
	assert_int_equal(last.n_parts, 3);
	totals_are(2, 88, 0, 20, 40, 14, 14);
}

/* Two micro-batches; no gather in the second one's forward. */
static void accumulated(void **state)
{
	(void)state;
	sharded_step();
	for (int i = 0; i < 2; i++) {
		all_gather(TID);
		now_ms += 10;
		backward(20);
		now_ms += 3;
		backward(20);
		adam();
	}
	assert_int_equal(n_done, 1);
	phases_are(0, 13, 40, 7, 60);
	assert_true(last.n_backward == 2 && last.forward_by_gather && last.forward_by_gap);
}

static void ddp(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		now_ms += 5;
		mark(TORCH_DDP_FORWARD, "");
		all_gather(TID); /* of something else */
		now_ms += 10;
		mark(TORCH_DDP_BACKWARD, "");
		backward(20);
		mark(TORCH_OPERATOR, "");
		now_ms += 4;
		update(0);
	}
	assert_int_equal(n_done, 2);
	phases_are(0, 10, 20, 4, 39);
	assert_true(!last.forward_by_gap && !last.forward_by_gather);
}

/* The budget takes the ranges in the middle of a step, and gives them back: steps are whole on both sides, and what was
 * counted in the one way is distinguished from the other. */
static void ranges_go_and_come(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		step();
	range(DATA, 5);
	assert_true(n_done == 2 && last.by == STEPS_BY_RANGES && last.proc->phase_totals.by_changes == 0);
	all_gather(TID); /* marks of ranges are all that counts */
	ranges_shed(true);
	for (int i = 0; i < 3; i++)
		sharded_step();
	assert_int_equal(n_done, 3);
	phases_are(0, 10, 20, 7, 44);
	assert_true(last.by == STEPS_BY_OPERATORS && last.proc->phase_totals.by_changes == 1);
	ranges_shed(false);
	mark(TORCH_OPERATOR, ""); /* of a step that began before */
	for (int i = 0; i < 3; i++)
		step();
	assert_int_equal(n_done, 4);
	phases_are(5, 10, 20, 4, 40);
	assert_true(last.by == STEPS_BY_RANGES && last.proc->phase_totals.by_changes == 2);
}

/* Probes come one group after the other: ranges, when steps were seen by operators already. */
static void ranges_come_late(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		sharded_step();
	assert_int_equal(n_done, 1);
	all_gather(TID);
	now_ms += 4;
	mark(TORCH_RANGE_BEGIN, "FSDP::post_forward (layers.3)");
	mark(TORCH_RANGE_END, "");
	backward(20);
	mark(TORCH_RANGE_BEGIN, STEP);
	adam();
	mark(TORCH_RANGE_END, "");
	n_done = 0;
	for (int i = 0; i < 3; i++)
		step();
	range(DATA, 1);
	assert_int_equal(n_done, 3);
	phases_are(5, 10, 20, 4, 40);
	assert_true(last.by == STEPS_BY_RANGES);
}

/* Within an optimizer's range its operators add nothing; nor do those of others, such as averages of the weights. */
static void ranges_are_enough(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		range(DATA, 5);
		range(DDP, 10);
		backward(20);
		mark(TORCH_RANGE_BEGIN, STEP);
		adam();
		mark(TORCH_RANGE_END, "");
		now_ms += 2;
		update(0);
	}
	assert_int_equal(n_done, 1);
	phases_are(5, 10, 20, 7, 44);
	assert_int_equal(last.n_optimizer, 1);
}

/* Operators in a forward, or in a backward, are no optimizer. */
static void other_operators(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		mark(TORCH_DDP_FORWARD, "");
		update(5);
		mark(TORCH_BACKWARD_BEGIN, "");
		update(20);
		mark(TORCH_BACKWARD_END, "");
	}
	assert_int_equal(n_done, 0);
}

/* The host waits for its loss when the optimizer has run: that is the next step's time, and its wait. */
static void wait_behind_the_optimizer(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct event e = { .kind = EV_SYNC_BEGIN, .sync = { .kind = SYNC_STREAM, .handle = 7 } };

		sharded_step();
		apply(&e);
		e.kind = EV_SYNC_END;
		e.sync.begin_ns = now_ms * MS;
		now_ms += 30;
		apply(&e);
	}
	assert_int_equal(n_done, 2);
	phases_are(0, 10, 20, 7, 74);
	assert_true(last.gpu_wait_ns == 30 * MS && last.wait_ns[PHASE_OTHER] == 30 * MS);
	totals_are(2, 148, 0, 20, 40, 14, 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sharded),
		TEST(accumulated),
		TEST(ddp),
		TEST(ranges_go_and_come),
		TEST(ranges_come_late),
		TEST(ranges_are_enough),
		TEST(other_operators),
		TEST(wait_behind_the_optimizer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
