/* SPDX-License-Identifier: Apache-2.0
 *
 * test_step_gathers.c - where a forward begins without PyTorch's ranges, by the gathers of models that are sharded in
 * different ways. A gather behind the optimizer is none of the forward's: the wait for data lies in between.
 */
#include "tests/unit/rank/step_marks.h"

#include <stdlib.h>

/* Each step waits 6 ms for its data, and then runs 20 ms of a forward. In order: a number: ms that pass; w: ms that the
 * host waits for its GPU; g1:90: all-gather of 90 elements in communicator 1, a: the same by the engine's own thread,
 * r: reduce-scatter by that; s1:1: an all-reduce of the training thread; ( and ): begin and end of the backward; u: the
 * optimizer. With ranges: [ and ] FSDP's in front of the forward, < and ] the optimizer's, x: they are no longer
 * probed. */
static const struct sharding {
	const char *name, *step;
	int forward_ms; /* as it is seen */
	bool by_gather;
} shardings[] = {
	{ "FSDP1, or FSDP2 that reshards after the forward; what is the root's is gathered once",
	  "6 g1:90 1 g1:8 9 g1:8 10 ( a1:8 5 a1:8 5 r1:8 ) 1 u", 20, true },
	{ "FSDP2 that gathers the next layer ahead, and waits for its loss",
	  "6 g1:90 g1:8 5 g1:8 10 w5 ( a1:8 a1:8 10 r1:8 ) 1 u", 20, true },
	{ "FSDP2 that does not reshard after the forward, and waits long for its loss",
	  "6 g1:90 g1:8 4 g1:8 1 w15 ( 10 r1:8 r1:8 ) 1 u", 20, true },
	{ "ZeRO-3: what is too small to be sharded is gathered behind the optimizer",
	  "g1:3 6 g1:50 9 g1:8 11 ( a1:8 9 a1:50 1 r1:8 ) 1 u", 20, true },
	{ "ZeRO-1 and ZeRO-2: all parameters are gathered behind the optimizer", "g1:400 6 20 ( 10 r1:400 ) 1 u", 26,
	  false },
	{ "Megatron's distributed optimizer: bucket by bucket behind it, then a wait for what is logged",
	  "g1:70 g1:70 1 g1:30 w25 5 20 ( 5 r1:70 5 r1:70 ) 1 u", 51, false },
	{ "Megatron with sequence parallelism, whose gathers are its layers'",
	  "g1:70 g1:70 6 g2:16 10 g2:16 10 ( a2:16 10 r1:70 ) 1 u", 20, true },
	{ "Megatron with overlap_param_gather: in the next forward, each before the layers whose bucket it is",
	  "6 g1:70 8 g1:70 8 g1:30 4 ( 10 r1:70 r1:70 ) 1 u", 20, true },
	{ "FSDP2 whose root's own layers are launched for 2 ms; the loss is summed up before the backward",
	  "6 g1:90 2 g1:8 8 g1:8 9 s1:1 1 ( a1:8 10 r1:8 ) 1 u", 20, true },
	{ "FSDP2 with a norm over all ranks in each layer",
	  "6 g1:90 1 g1:8 8 s1:2 g1:8 8 s1:2 g1:8 3 ( a1:8 10 r1:8 ) 1 u", 20, true },
	{ "a script that gathers its ranks' losses behind the optimizer", "g3:1 6 20 ( 10 ) 1 u", 26, false },
	{ "the same of a sharded model", "g3:1 6 g1:8 10 g1:8 10 ( a1:8 10 r1:8 ) 1 u", 20, true },
};

/* `of`: "1:90". */
static void operation(uint32_t tid, int op, const char *of)
{
	struct event e = {
		.kind = EV_OP,
		.tid = tid,
		.op = { .addr = 0xc0 + of[0], .stream = 7, .count = atoi(of + 2), .op = op, .dtype = 7, .peer = -1 }
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

static void ranges_shed(void)
{
	struct event e = { .kind = EV_BUDGET, .budget = { .what = BUDGET_SHED, .shed = 1u << PROBES_RANGES } };

	apply(&e);
}

static void act(const char *what)
{
	switch (what[0]) {
	case 'g': operation(TID, OP_ALLGATHER, what + 1); break;
	case 'a': operation(TID + 1, OP_ALLGATHER, what + 1); break;
	case 'r': operation(TID + 1, OP_REDUCESCATTER, what + 1); break;
	case 's': operation(TID, OP_ALLREDUCE, what + 1); break;
	case 'w': wait_for_gpu(atoi(what + 1)); break;
	case '(': mark(TORCH_BACKWARD_BEGIN, ""); break;
	case ')': mark(TORCH_BACKWARD_END, ""); break;
	case 'u': mark(TORCH_UPDATE, ""); break;
	case '[': mark(TORCH_RANGE_BEGIN, "FSDP::root_pre_forward"); break;
	case ']': mark(TORCH_RANGE_END, ""); break;
	case '<': mark(TORCH_RANGE_BEGIN, STEP); break;
	case 'x': ranges_shed(); break;
	default: now_ms += atoi(what); break;
	}
}

static void step_of(const struct sharding *s)
{
	char text[128], *at = text, *what;

	snprintf(text, sizeof(text), "%s", s->step);
	while ((what = strsep(&at, " ")))
		act(what);
}

static void forward_is(const struct sharding *s)
{
	assert_int_equal(last.phase_ns[PHASE_FORWARD], s->forward_ms * MS);
	assert_int_equal(last.forward_by_gather, s->by_gather);
	assert_int_equal(last.forward_by_gap, !s->by_gather);
}

static void forwards(void **state)
{
	for (size_t i = 0; i < sizeof(shardings) / sizeof(shardings[0]); i++) {
		begin(state);
		print_message("%s\n", shardings[i].name);
		for (int k = 0; k < 6; k++)
			step_of(&shardings[i]);
		assert_int_equal(n_done, 4); /* the first one's begin was not seen, the sixth is not over */
		forward_is(&shardings[i]);
		end(state);
	}
}

/* One step that stops in the middle of its forward, or lets its data wait, changes nothing of what was learnt. */
static void pauses(void **state)
{
	static const struct sharding fsdp2 = { "", "6 g1:90 g1:8 12 g1:8 8 ( 10 r1:8 ) 1 u", 20, true },
				     stops = { "", "6 g1:90 g1:8 12 g1:8 908 ( 10 r1:8 ) 1 u", 920, true },
				     waits = { "", "906 g1:90 g1:8 12 g1:8 8 ( 10 r1:8 ) 1 u", 20, true };

	begin(state);
	for (int k = 0; k < 6; k++)
		step_of(&fsdp2);
	step_of(&stops);
	step_of(&stops);
	step_of(&waits);
	forward_is(&stops);
	step_of(&fsdp2);
	forward_is(&waits);
	step_of(&fsdp2);
	forward_is(&fsdp2);
	end(state);
}

/* What an evaluation gathers before the step's own forward is not that; a root that stays gathered is missing then. */
static void evaluations(void **state)
{
	static const struct sharding
		plain = { "", "6 g1:90 1 g1:8 9 g1:8 10 ( a1:8 10 r1:8 ) 1 u", 20, true },
		evaluates = { "", "6 g1:90 1 g1:8 9 g1:8 10 s1:1 6 g1:8 9 g1:8 11 ( a1:8 10 r1:8 ) 1 u", 20, true },
		twice = { "",
			  "6 g1:90 1 g1:8 9 g1:8 10 s1:1 6 g1:8 9 g1:8 9 s1:1 6 g1:8 9 g1:8 11 ( a1:8 10 r1:8 ) 1 u",
			  20, true },
		soon = { "", "6 g1:90 1 g1:8 9 g1:8 1 s1:1 1 g1:8 9 g1:8 11 ( a1:8 10 r1:8 ) 1 u", 20, true };

	begin(state);
	for (int k = 0; k < 6; k++)
		step_of(&plain);
	step_of(&evaluates);
	step_of(&twice);
	forward_is(&evaluates);
	step_of(&soon);
	forward_is(&twice);
	step_of(&plain);
	forward_is(&soon);
	step_of(&plain);
	forward_is(&plain);
	end(state);
}

/* The root's gather is known by its size in the end, and then its layers may take long, once or for good; one of
 * another size so long before is another's. */
static void a_root_that_takes_long(void **state)
{
	static const struct sharding plain = { "", "6 g1:90 1 g1:8 9 g1:8 10 ( a1:8 10 r1:8 ) 1 u", 20, true },
				     slow = { "", "6 g1:90 8 g1:8 9 g1:8 10 ( a1:8 10 r1:8 ) 1 u", 27, true },
				     other = { "", "6 g1:70 8 g1:8 9 g1:8 10 ( a1:8 10 r1:8 ) 1 u", 19, true };

	begin(state);
	step_of(&plain);
	step_of(&slow); /* not known yet */
	step_of(&slow);
	assert_int_equal(last.phase_ns[PHASE_FORWARD], 19 * MS);
	for (int k = 0; k < 4; k++)
		step_of(&plain);
	step_of(&slow);
	step_of(&slow);
	forward_is(&slow);
	step_of(&other);
	forward_is(&slow);
	step_of(&plain);
	forward_is(&other);
	end(state);
}

/* What hooks take before the first gather is learnt while ranges show it: 2 ms, the third time 9. A forward begins in
 * no phase before it. */
static void leads(void **state)
{
	static const struct sharding ranges = { "", "6 [ 2 g1:90 ] 1 g1:8 17 ( a1:8 10 r1:8 ) 1 < 1 ]", 20, false },
				     slow = { "", "6 [ 9 g1:90 ] 1 g1:8 10 ( a1:8 10 r1:8 ) 1 < 1 ]", 20, false },
				     none = { "", "6 2 g1:90 1 g1:8 17 ( a1:8 10 r1:8 ) 1 u", 20, true },
				     at_once = { "", "g1:90 1 g1:8 17 ( a1:8 10 r1:8 ) 1 u", 18, true };

	begin(state);
	for (int k = 0; k < 8; k++)
		step_of(k == 2 ? &slow : &ranges);
	assert_int_equal(last.phase_ns[PHASE_FORWARD], 20 * MS);
	act("x");
	for (int k = 0; k < 6; k++)
		step_of(&none);
	forward_is(&none);
	step_of(&at_once);
	step_of(&none);
	forward_is(&at_once);
	end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forwards),    cmocka_unit_test(pauses),
		cmocka_unit_test(evaluations), cmocka_unit_test(a_root_that_takes_long),
		cmocka_unit_test(leads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
