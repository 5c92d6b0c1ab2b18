/* SPDX-License-Identifier: Apache-2.0
 *
 * test_step_gathers.c - where a forward begins without PyTorch's ranges, by the gathers of models that are sharded in
 * different ways. A gather behind the optimizer is none of the forward's: the wait for data lies in between.
 */
#include "tests/unit/rank/step_marks.h"

enum what { PASS, GATHER, AGAIN, REDUCE, WAIT, BACKWARD, BACKWARD_OVER, ADAM, OVER = -1 };

struct act {
	enum what what;
	int n; /* PASS, WAIT (of the host for its GPU): ms; else the communicator's number */
	uint64_t count;
};

/* Of the training thread; AGAIN, REDUCE: of the engine's own, in a backward. */
static void operation(uint32_t tid, int op, const struct act *a)
{
	struct event e = {
		.kind = EV_OP,
		.tid = tid,
		.op = { .addr = 0xc0 + a->n, .stream = 7, .count = a->count, .op = op, .dtype = 7, .peer = -1 }
	};

	apply(&e);
}

static void wait_for_gpu(int ms)
{
	struct event e = { .kind = EV_SYNC_BEGIN, .sync = { .kind = SYNC_STREAM, .handle = 7 } };

	apply(&e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = now_ms * MS;
	now_ms += ms;
	apply(&e);
}

static void act(const struct act *a)
{
	switch (a->what) {
	case PASS: now_ms += a->n; break;
	case GATHER: operation(TID, OP_ALLGATHER, a); break;
	case AGAIN: operation(TID + 1, OP_ALLGATHER, a); break;
	case REDUCE: operation(TID + 1, OP_REDUCESCATTER, a); break;
	case WAIT: wait_for_gpu(a->n); break;
	case BACKWARD: mark(TORCH_BACKWARD_BEGIN, ""); break;
	case BACKWARD_OVER: mark(TORCH_BACKWARD_END, ""); break;
	default: mark(TORCH_UPDATE, ""); break; /* takes no time */
	}
}

#define ACTS_MAX 32

/* Each step waits 6 ms for its data, and then runs 20 ms of a forward. */
static const struct sharding {
	const char *name;
	struct act acts[ACTS_MAX];
	int forward_ms; /* as it is seen */
	bool by_gather;
} shardings[] = {
	{ "FSDP1, or FSDP2 that reshards after the forward: the root's parameters are gathered once, a layer's twice",
	  { { PASS, 6 }, { GATHER, 1, 90 }, { PASS, 1 }, { GATHER, 1, 8 }, { PASS, 9 }, { GATHER, 1, 8 }, { PASS, 10 },
	    { BACKWARD }, { AGAIN, 1, 8 }, { PASS, 5 }, { AGAIN, 1, 8 }, { PASS, 5 }, { REDUCE, 1, 8 }, { BACKWARD_OVER },
	    { ADAM }, { OVER } },
	  20, true },
	{ "FSDP2 that gathers the next layer ahead, and waits for its loss",
	  { { PASS, 6 }, { GATHER, 1, 90 }, { GATHER, 1, 8 }, { PASS, 5 }, { GATHER, 1, 8 }, { PASS, 10 }, { WAIT, 5 },
	    { BACKWARD }, { AGAIN, 1, 8 }, { AGAIN, 1, 8 }, { PASS, 10 }, { REDUCE, 1, 8 }, { BACKWARD_OVER }, { ADAM },
	    { OVER } },
	  20, true },
	{ "FSDP2 that does not reshard after the forward, and waits long for its loss: no gather in a backward",
	  { { PASS, 6 }, { GATHER, 1, 90 }, { GATHER, 1, 8 }, { PASS, 4 }, { GATHER, 1, 8 }, { PASS, 1 }, { WAIT, 15 },
	    { BACKWARD }, { PASS, 10 }, { REDUCE, 1, 8 }, { REDUCE, 1, 8 }, { BACKWARD_OVER }, { ADAM }, { OVER } },
	  20, true },
	{ "ZeRO-3: parameters too small to be sharded are gathered behind the optimizer",
	  { { GATHER, 1, 3 }, { PASS, 6 }, { GATHER, 1, 50 }, { PASS, 9 }, { GATHER, 1, 8 }, { PASS, 11 }, { BACKWARD },
	    { AGAIN, 1, 8 }, { PASS, 9 }, { AGAIN, 1, 50 }, { PASS, 1 }, { REDUCE, 1, 8 }, { BACKWARD_OVER }, { ADAM },
	    { OVER } },
	  20, true },
	{ "ZeRO-1 and -2: all parameters are gathered behind the optimizer",
	  { { GATHER, 1, 400 }, { PASS, 6 }, { PASS, 20 }, { BACKWARD }, { PASS, 10 }, { REDUCE, 1, 400 },
	    { BACKWARD_OVER }, { ADAM }, { OVER } },
	  26, false },
	{ "Megatron's distributed optimizer: bucket by bucket behind the optimizer, then a wait for what is logged",
	  { { GATHER, 1, 70 }, { GATHER, 1, 70 }, { PASS, 1 }, { GATHER, 1, 30 }, { WAIT, 25 }, { PASS, 5 }, { PASS, 20 },
	    { BACKWARD }, { PASS, 5 }, { REDUCE, 1, 70 }, { PASS, 5 }, { REDUCE, 1, 70 }, { BACKWARD_OVER }, { ADAM },
	    { OVER } },
	  51, false },
	{ "the same with sequence parallelism, whose gathers are the layers'",
	  { { GATHER, 1, 70 }, { GATHER, 1, 70 }, { PASS, 6 }, { GATHER, 2, 16 }, { PASS, 10 }, { GATHER, 2, 16 },
	    { PASS, 10 }, { BACKWARD }, { AGAIN, 2, 16 }, { PASS, 10 }, { REDUCE, 1, 70 }, { BACKWARD_OVER }, { ADAM },
	    { OVER } },
	  20, true },
	{ "the same with overlap_param_gather: in the next forward, before the layer whose bucket it is",
	  { { PASS, 6 }, { GATHER, 1, 70 }, { PASS, 8 }, { GATHER, 1, 70 }, { PASS, 8 }, { GATHER, 1, 30 }, { PASS, 4 },
	    { BACKWARD }, { PASS, 10 }, { REDUCE, 1, 70 }, { REDUCE, 1, 70 }, { BACKWARD_OVER }, { ADAM }, { OVER } },
	  20, true },
	{ "a script that gathers its ranks' losses behind the optimizer",
	  { { GATHER, 3, 1 }, { PASS, 26 }, { BACKWARD }, { PASS, 10 }, { BACKWARD_OVER }, { ADAM }, { OVER } }, 26, false },
};

static void forwards(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(shardings) / sizeof(shardings[0]); i++) {
		const struct sharding *s = &shardings[i];

		begin(NULL);
		print_message("%s\n", s->name);
		for (int step = 0; step < 6; step++)
			for (const struct act *a = s->acts; a->what != OVER; a++)
				act(a);
		assert_int_equal(n_done, 4); /* the first one's begin was not seen, the sixth is not over */
		assert_int_equal(last.phase_ns[PHASE_FORWARD], s->forward_ms * MS);
		assert_int_equal(last.forward_by_gather, s->by_gather);
		assert_int_equal(last.forward_by_gap, !s->by_gather);
		model_free(m);
	}
	begin(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(forwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
