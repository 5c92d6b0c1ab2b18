/* SPDX-License-Identifier: Apache-2.0
 *
 * test_step_phases.c - the phases of a step from PyTorch's marks: where steps end, what belongs to which phase, and
 * what of a step is not reported because marks of it were missed.
 */
#include "tests/unit/rank/step_marks.h"

static void plain_steps(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		step();
	assert_int_equal(n_done, 1); /* the first one's begin was not seen, the third is not over */
	phases_are(5, 10, 20, 4, 40);
	assert_true(last.by_data_wait && !last.forward_by_gap && !last.end_by_next);
	assert_true(last.n_backward == 1 && last.n_optimizer == 1 && last.number == 1 && last.tid == TID);
	assert_int_equal(last.n_parts, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(last.parts[i].phase, i);
	assert_int_equal(last.parts[1].end_ns, last.parts[2].begin_ns);
	assert_true(last.proc->has_phases);
	step();
	assert_int_equal(last.number, 2);
}

/* Ranges inside a phase, whatever their names, and forwards inside the backward (checkpointing) count once. */
static void nested(void **state)
{
	(void)state;
	step();
	mark(TORCH_RANGE_BEGIN, DATA);
	range("collate, by the script", 2);
	range(DDP, 3);
	mark(TORCH_RANGE_END, "");
	mark(TORCH_RANGE_BEGIN, "my training step");
	mark(TORCH_DDP_FORWARD, "");
	range(DDP, 4);
	mark(TORCH_BACKWARD_BEGIN, "");
	now_ms += 2;
	range(DDP, 6);
	backward(5);
	mark(TORCH_DDP_DONE, "");
	now_ms += 7;
	mark(TORCH_BACKWARD_END, "");
	mark(TORCH_RANGE_BEGIN, STEP);
	range(ZERO, 1);
	now_ms += 2;
	mark(TORCH_RANGE_END, "");
	mark(TORCH_RANGE_END, ""); /* of the script's own */
	range(DATA, 1);
	phases_are(5, 4, 20, 3, 32);
	assert_int_equal(last.n_backward, 1);
}

/* zero_grad between loss and backward, or behind the step. */
static void zero_grad(void **state)
{
	(void)state;
	step();
	range(DATA, 5);
	range(DDP, 7);
	now_ms += 2;
	range(ZERO, 1);
	backward(20);
	range(STEP, 4);
	range(ZERO, 2);
	range(DATA, 1);
	phases_are(5, 9, 20, 7, 41);
}

static void accumulated(void **state)
{
	(void)state;
	step();
	for (int i = 0; i < 4; i++) {
		range(DATA, 5);
		range(DDP, 10);
		backward(20);
	}
	range(STEP, 4);
	range(DATA, 1);
	assert_int_equal(n_done, 1);
	phases_are(20, 40, 80, 4, 144);
	assert_int_equal(last.n_backward, 4);
}

/* Batches of the whole step are asked for first (as Hugging Face's trainer does). */
static void fetched_ahead(void **state)
{
	(void)state;
	step();
	for (int i = 0; i < 3; i++)
		range(DATA, 5);
	for (int i = 0; i < 3; i++) {
		range(DDP, 10);
		backward(20);
	}
	range(STEP, 4);
	range(DATA, 1);
	assert_int_equal(n_done, 1);
	phases_are(15, 30, 60, 4, 109);
}

static void two_optimizers(void **state)
{
	(void)state;
	step();
	range(DATA, 5);
	for (int i = 0; i < 2; i++) {
		range(DDP, 10);
		backward(20);
		range(STEP, 4);
	}
	range(DATA, 1);
	assert_int_equal(n_done, 1);
	phases_are(5, 20, 40, 8, 73);
	assert_int_equal(last.n_optimizer, 2);
}

static void evaluation(void **state)
{
	(void)state;
	step();
	for (int i = 0; i < 3; i++) {
		range(DATA, 5);
		range(DDP, 7);
		now_ms += 3;
	}
	assert_int_equal(n_done, 2);
	phases_are(5, 7, 0, 0, 15);
	assert_int_equal(last.n_backward, 0);
	step();
	assert_int_equal(n_done, 3);
	phases_are(5, 7, 0, 0, 15);
	step();
	phases_are(5, 10, 20, 4, 40);
}

/* FSDP2 marks each layer's begin and end: an evaluation's forward lasts to the last layer's end, and what FSDP does of
 * its own in a backward is the backward's. */
static void fsdp2(void **state)
{
	(void)state;
	step();
	for (int i = 0; i < 2; i++) {
		range(DATA, 5);
		range("FSDP::root_pre_forward", 1);
		for (int layer = 0; layer < 3; layer++) {
			range("FSDP::pre_forward (layers.0)", 1);
			now_ms += 4;
			range("FSDP::post_forward (layers.0)", 1);
		}
		now_ms += 3;
	}
	phases_are(5, 19, 0, 0, 27);
	mark(TORCH_BACKWARD_BEGIN, "");
	range("FSDP::pre_forward (layers.2)", 2);
	range("FSDP::post_backward (layers.2)", 6);
	mark(TORCH_BACKWARD_END, "");
	range(STEP, 4);
	range(DATA, 5);
	phases_are(5, 22, 8, 4, 39);
}

/* No DataLoader: the optimizer's end ends the step. */
static void without_loader(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		now_ms += 2;
		range(DDP, 10);
		backward(20);
		range(STEP, 4);
		range(ZERO, 1);
	}
	assert_int_equal(n_done, 1);
	phases_are(0, 10, 20, 5, 37);
	assert_false(last.by_data_wait);
}

/* No mark of a forward: it lasts from what came before. */
static void without_forward_marks(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		range(DATA, 5);
		now_ms += 10;
		backward(20);
		range(STEP, 4);
	}
	assert_int_equal(n_done, 1);
	phases_are(5, 10, 20, 4, 39);
	assert_true(last.forward_by_gap);
}

/* Ranges are gone, for their cost: DDP's own functions mark the forward, but nothing ends a step. */
static void without_ranges(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		mark(TORCH_DDP_FORWARD, "");
		now_ms += 10;
		mark(TORCH_DDP_BACKWARD, "");
		backward(20);
	}
	assert_int_equal(n_done, 0);
}

/* What stands in for ranges may go once these showed a whole step, and not while only DDP's own mark shows a forward;
 * it is needed again when ranges go. */
static void ranges_suffice(void **state)
{
	struct event e = { .kind = EV_BUDGET,
			   .budget = { .what = BUDGET_SHED, .group = PROBES_RANGES, .shed = 1u << PROBES_RANGES } };

	(void)state;
	range("by the script", 3);
	backward(20);
	mark(TORCH_UPDATE, "");
	assert_false(proc_ranges_suffice(m->procs));
	for (int i = 0; i < 3; i++) {
		range(DATA, 5);
		mark(TORCH_DDP_FORWARD, "");
		now_ms += 10;
		backward(20);
		range(STEP, 4);
	}
	assert_int_equal(n_done, 1);
	assert_false(proc_ranges_suffice(m->procs));
	apply(&e);
	e.budget.what = BUDGET_BACK;
	e.budget.shed = 0;
	apply(&e);
	step();
	step(); /* the first one's begin was not seen; the second ends where a third begins */
	uint64_t whole_ms = now_ms;

	while (now_ms < whole_ms + 2900) {
		step();
		assert_false(proc_ranges_suffice(m->procs));
	}
	now_ms = whole_ms + 3000;
	step();
	assert_true(proc_ranges_suffice(m->procs));
	e.budget.what = BUDGET_SHED;
	e.budget.shed = 1u << PROBES_RANGES;
	apply(&e);
	assert_false(proc_ranges_suffice(m->procs));
}

/* Under seccomp no return is probed: the backward lasts until the next mark. */
static void without_returns(void **state)
{
	struct event e = { .kind = EV_TORCH, .torch = { .what = TORCH_BACKWARD_BEGIN, .flags = TORCH_NO_END } };

	(void)state;
	for (int i = 0; i < 3; i++) {
		range(DATA, 5);
		range(DDP, 10);
		apply(&e);
		now_ms += 15;
		mark(TORCH_DDP_DONE, ""); /* is in it */
		now_ms += 5;
		range(STEP, 4);
	}
	assert_int_equal(n_done, 1);
	phases_are(5, 10, 20, 4, 39);
	assert_true(last.end_by_next);
}

/* Another thread's marks are not the training's. */
static void other_thread(void **state)
{
	struct event e = { .kind = EV_TORCH, .tid = TID + 1, .torch = { .what = TORCH_RANGE_BEGIN, .name = DATA } };

	(void)state;
	step();
	range(DATA, 5);
	apply(&e);
	range(DDP, 10);
	backward(20);
	e.torch.what = TORCH_BACKWARD_BEGIN; /* the engine's own thread, for a checkpoint */
	apply(&e);
	range(STEP, 4);
	range(DATA, 1);
	assert_int_equal(n_done, 1);
	phases_are(5, 10, 20, 4, 39);
}

/* A thread that loads batches ahead was seen first: the one that calls backward is the training's. */
static void loader_thread_first(void **state)
{
	struct event e = { .kind = EV_TORCH, .tid = TID + 1, .torch = { .what = TORCH_RANGE_BEGIN, .name = DATA } };

	(void)state;
	apply(&e);
	for (int i = 0; i < 3; i++)
		step();
	assert_int_equal(n_done, 1);
	assert_int_equal(last.tid, TID);
}

static void loss(void)
{
	struct event e = { .kind = EV_LOSS, .loss = { .lost = 1, .lost_total = 1, .class = LOSS_NORMAL } };

	apply(&e);
}

/* Of a step of which marks may be missing nothing is reported; the one after the next optimizer is whole again. */
static void lost_records(void **state)
{
	(void)state;
	step();
	step();
	range(DATA, 5);
	assert_int_equal(n_done, 1);
	mark(TORCH_RANGE_BEGIN, DDP);
	loss();
	backward(20);
	range(STEP, 4);
	step();
	assert_int_equal(n_done, 1);
	step();
	assert_int_equal(n_done, 2);
	phases_are(5, 10, 20, 4, 40);
}

static void probes_went(void **state)
{
	struct event e = { .kind = EV_BUDGET,
			   .budget = { .what = BUDGET_SHED, .group = PROBES_RANGES, .shed = 1u << PROBES_RANGES } };

	(void)state;
	step();
	step();
	apply(&e);
	for (int i = 0; i < 3; i++) /* links close one after the other */
		step();
	e.budget.what = BUDGET_BACK;
	e.budget.shed = 0;
	apply(&e);
	range(DATA, 5);
	assert_int_equal(n_done, 0); /* the second step is not known to its end */
	for (int i = 0; i < 3; i++)
		step();
	assert_int_equal(n_done, 1);
	phases_are(5, 10, 20, 4, 40);
}

/* More begins than a stack holds, ends without a begin: no step of it is reported wrong, and it finds its way back. */
static void torn(void **state)
{
	(void)state;
	step();
	for (int i = 0; i < 100; i++)
		mark(TORCH_RANGE_BEGIN, i % 2 ? DATA : "x");
	for (int i = 0; i < 200; i++)
		mark(i % 3 ? TORCH_RANGE_END : TORCH_BACKWARD_END, "");
	n_done = 0;
	for (int i = 0; i < 3; i++)
		step();
	assert_true(n_done >= 1);
	phases_are(5, 10, 20, 4, 40);
}

static void children_have_none(void **state)
{
	struct event e = { .kind = EV_PROC, .proc = { .rank = 3, .world_size = 8, .is_child = true } };

	(void)state;
	apply(&e);
	for (int i = 0; i < 3; i++)
		step();
	assert_int_equal(n_done, 0);
}

static void wait_for(uint64_t stream, int ms)
{
	struct event e = { .kind = EV_SYNC_BEGIN, .sync = { .kind = SYNC_STREAM, .handle = stream } };

	apply(&e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = now_ms * MS;
	now_ms += ms;
	apply(&e);
}

static void collective(uint64_t stream)
{
	struct event e = { .kind = EV_OP,
			   .op = { .addr = 0xc0,
				   .stream = stream,
				   .count = 8,
				   .op = OP_ALLREDUCE,
				   .dtype = 7,
				   .redop = 0,
				   .root = -1,
				   .peer = -1 } };

	apply(&e);
}

static void totals_and_where_it_is(void **state)
{
	(void)state;
	step();
	step();
	assert_int_equal(proc_phase(m->procs), PHASE_OTHER);
	range(DATA, 5);
	totals_are(1, 40, 5, 10, 20, 4, 1);
	mark(TORCH_RANGE_BEGIN, DDP);
	assert_int_equal(proc_phase(m->procs), PHASE_FORWARD);
	mark(TORCH_RANGE_END, "");
	assert_int_equal(proc_phase(m->procs), PHASE_FORWARD); /* the loss */
	mark(TORCH_BACKWARD_BEGIN, "");
	assert_int_equal(proc_phase(m->procs), PHASE_BACKWARD);
	mark(TORCH_BACKWARD_END, "");
	range(STEP, 4);
	range(DATA, 5); /* of an evaluation, which does not count */
	range(DDP, 7);
	mark(TORCH_RANGE_BEGIN, DATA);
	assert_int_equal(proc_phase(m->procs), PHASE_DATA_WAIT);
	assert_int_equal(last.n_backward, 0);
	totals_are(2, 49, 10, 10, 20, 8, 1);
}

/* Waits of the training thread: all of them, and those at whose end an operation was over, from when it could run. */
static void exposed(void **state)
{
	struct event other = { .kind = EV_SYNC_END, .tid = TID + 1 };

	(void)state;
	step();
	range(DATA, 5);
	mark(TORCH_RANGE_BEGIN, DDP);
	wait_for(1, 3); /* for other work than an operation */
	mark(TORCH_RANGE_END, "");
	mark(TORCH_BACKWARD_BEGIN, "");
	collective(2);
	now_ms += 4; /* hidden by the host's own work */
	wait_for(2, 6);
	mark(TORCH_BACKWARD_END, "");
	other.sync.begin_ns = (now_ms - 2) * MS;
	apply(&other);
	range(STEP, 4);
	wait_for(2, 2); /* for nothing any more */
	range(DATA, 1);
	phases_are(5, 3, 10, 4, 24);
	assert_int_equal(last.n_ops, 1);
	assert_int_equal(last.gpu_wait_ns, 11 * MS);
	assert_int_equal(last.exposed_most_ns, 6 * MS);
	assert_int_equal(last.wait_ns[PHASE_FORWARD], 3 * MS);
	assert_int_equal(last.wait_ns[PHASE_BACKWARD], 6 * MS);
	assert_int_equal(last.wait_ns[PHASE_OTHER], 2 * MS);
	totals_are(1, 24, 5, 0, 4, 4, 0);
	step();
	range(DATA, 1);
	assert_true(!last.gpu_wait_ns && !last.exposed_most_ns && !last.n_ops);
}

/* The peer comes in the middle of the wait: before that no byte went, and this is no time of the network. */
static void exposed_from_the_last_rank_on(void **state)
{
	struct event seen = { .kind = EV_COMM_SEEN,
			      .comm_seen = { .addr = 0xc0, .hash = 9, .nranks = 2, .counters_valid = true } };
	struct event sync = { .kind = EV_SYNC_END, .sync = { .kind = SYNC_STREAM, .handle = 2 } };
	struct event op = {
		.kind = EV_OP,
		.op = { .addr = 0xc0, .stream = 2, .count = 8, .op = OP_ALLREDUCE, .dtype = 7, .root = -1, .peer = -1 }
	};

	(void)state;
	apply(&seen);
	seen.tgid = PID + 1;
	seen.comm_seen.rank = 1;
	seen.ts_ns = now_ms * MS;
	assert_int_equal(model_apply(m, &seen), 0);
	step();
	range(DATA, 5);
	mark(TORCH_BACKWARD_BEGIN, "");
	apply(&op);
	sync.sync.begin_ns = now_ms * MS;
	now_ms += 4;
	op.ts_ns = now_ms * MS;
	op.tgid = op.tid = PID + 1;
	assert_int_equal(model_apply(m, &op), 0);
	now_ms += 6;
	apply(&sync);
	mark(TORCH_BACKWARD_END, "");
	range(STEP, 4);
	range(DATA, 1);
	assert_int_equal(last.gpu_wait_ns, 10 * MS);
	assert_int_equal(last.exposed_most_ns, 6 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plain_steps),
		TEST(nested),
		TEST(zero_grad),
		TEST(accumulated),
		TEST(fetched_ahead),
		TEST(two_optimizers),
		TEST(evaluation),
		TEST(fsdp2),
		TEST(without_loader),
		TEST(without_forward_marks),
		TEST(without_ranges),
		TEST(ranges_suffice),
		TEST(without_returns),
		TEST(other_thread),
		TEST(loader_thread_first),
		TEST(lost_records),
		TEST(probes_went),
		TEST(torn),
		TEST(children_have_none),
		TEST(totals_and_where_it_is),
		TEST(exposed),
		TEST(exposed_from_the_last_rank_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
