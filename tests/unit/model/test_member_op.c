/* SPDX-License-Identifier: Apache-2.0
 *
 * test_member_op.c - a member's operation by its number is the same whichever was asked for before: with operations
 * that have numbers of their own in between, with empty ones that have none, and while old ones are dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

#include "model/state.h"

#define PID 100
#define ADDR 0xc0
#define MS 1000000ull

static struct model *m;
static uint64_t now = 1000 * MS;

static void call(int kind, uint64_t count)
{
	struct event e = { .kind = EV_OP,
			   .tgid = PID,
			   .tid = PID,
			   .ts_ns = now += MS,
			   .op = { .addr = ADDR, .stream = 7, .count = count, .op = kind, .dtype = 7, .peer = -1 } };

	assert_int_equal(model_apply(m, &e), 0);
}

static void call_any(void)
{
	switch (rand() % 8) {
	case 0: call(OP_ALLREDUCE, 0); break;
	case 1: call(OP_ALLTOALL, 5); break;
	default: call(OP_ALLREDUCE, 10); break;
	}
}

/* From the newest on. */
static const struct op *by_a_walk(const struct member *mb, int space, uint64_t seq)
{
	for (const struct op *op = mb->ops_tail; op; op = op->prev)
		if (op_space(op) == space && op->count && op->seq <= seq)
			return op->seq == seq ? op : NULL;
	return NULL;
}

static void ask(const struct member *mb, uint64_t seq)
{
	int space = rand() % 4 ? SEQ_COLL : SEQ_ALLTOALL;

	assert_ptr_equal(member_op(mb, space, seq), by_a_walk(mb, space, seq));
}

static void any_order(void **state)
{
	struct member *mb;

	(void)state;
	m = model_new();
	call(OP_ALLREDUCE, 10);
	mb = model_proc(m, PID)->members;
	for (int i = 0; i < 20000; i++) {
		uint64_t n = mb->next_seq[SEQ_COLL], at = rand() % (n + 3);

		if (mb->n_ops < 10 || (mb->n_ops < 300 && rand() % 2))
			call_any();
		else if (rand() % 2)
			op_drop(m, mb->ops);
		ask(mb, at);
		for (int k = rand() % 6; k > 0; k--) /* one after the other, as detectors do */
			ask(mb, ++at);
	}
	model_free(m);
}

/* What was asked for last may be dropped. */
static void the_last_one_is_dropped(void **state)
{
	struct member *mb;

	(void)state;
	m = model_new();
	for (int i = 0; i < 5; i++)
		call(OP_ALLREDUCE, 10);
	mb = model_proc(m, PID)->members;
	assert_ptr_equal(member_op(mb, SEQ_COLL, 0), mb->ops);
	op_drop(m, mb->ops);
	assert_null(mb->asked);
	assert_null(member_op(mb, SEQ_COLL, 0));
	assert_ptr_equal(member_op(mb, SEQ_COLL, 1), mb->ops);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_order),
		cmocka_unit_test(the_last_one_is_dropped),
	};

	srand(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
