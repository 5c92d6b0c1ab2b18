/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report_signatures.c - the hash of 64 collectives in an agent's report: the same on each rank that called the
 * same, another one where one call differs; none before all 64 were seen, nor of numbers that may have slipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/report_part.h"
#include "model/state.h"

#define SEC 1000000000ull

enum { OPS = 130, COMM = 0xa0 };

static struct model m;
static struct node node;
static struct comm comm = { .hash = COMM, .nranks = 2 };
static struct proc proc;
static struct member member;
static struct op_own ops[OPS]; /* as the model keeps them */
static struct report_block block;
static Cluster__Process to;

static const Cluster__Member *said(void)
{
	report_block_reset(&block);
	to = (Cluster__Process)CLUSTER__PROCESS__INIT;
	report_members(&block, &proc, &to, &m);
	assert_int_equal(to.n_comms, 1);
	return to.comms[0];
}

/* The operations from number `from` on were seen, all called at their number in seconds. */
static void calls(int from, int upto)
{
	proc = (struct proc){ .node = &node, .members = &member };
	member = (struct member){ .comm = &comm, .proc = &proc, .seq_known = true, .last_call_ns = SEC };
	member.entered_seq[SEQ_COLL] = (uint64_t)upto;
	for (int i = from; i < upto; i++) {
		ops[i].op = (struct op){ .member = &member, .kind = OP_ALLREDUCE, .count = 100, .seq = (uint64_t)i };
		ops[i].op.signature = 1000 + (uint64_t)i % 5;
		ops[i].op.call_ns = ops[i].op.enqueue_ns = (uint64_t)(i + 1) * SEC;
		ops[i].op.prev = i > from ? &ops[i - 1].op : NULL;
		ops[i].op.next = i + 1 < upto ? &ops[i + 1].op : NULL;
	}
	member.ops = &ops[from].op;
	member.ops_tail = &ops[upto - 1].op;
	m = (struct model){ .now_ns = (OPS + 1) * SEC };
}

static int begin(void **state)
{
	(void)state;
	assert_true(report_block_init(&block));
	return 0;
}

static int end(void **state)
{
	(void)state;
	report_block_free(&block);
	return 0;
}

static void test_of_64(void **state)
{
	uint64_t hash, next;

	(void)state;
	calls(0, 63);
	assert_false(said()->has_signatures_hash);
	calls(0, 64);
	assert_true(said()->has_signatures_hash);
	assert_int_equal(said()->signatures_to, 64);
	hash = said()->signatures_hash;
	calls(0, 127); /* a rank that is further on says the same */
	assert_int_equal(said()->signatures_to, 64);
	assert_int_equal(said()->signatures_hash, hash);
	calls(0, 130);
	assert_int_equal(said()->signatures_to, 128);
	next = said()->signatures_hash;
	calls(64, 130); /* and one whose probes came later */
	assert_int_equal(said()->signatures_hash, next);
	calls(65, 130);
	assert_false(said()->has_signatures_hash);
}

static void test_one_differs(void **state)
{
	uint64_t hash;

	(void)state;
	calls(0, 64);
	hash = said()->signatures_hash;
	ops[63].op.signature++;
	assert_true(said()->has_signatures_hash);
	assert_int_not_equal(said()->signatures_hash, hash);
	calls(0, 64); /* two in another order */
	ops[10].op.signature = 1001;
	ops[11].op.signature = 1000;
	assert_int_not_equal(said()->signatures_hash, hash);
}

static void test_numbers_that_slipped(void **state)
{
	uint64_t hash;

	(void)state;
	calls(0, 64);
	hash = said()->signatures_hash;
	m.last_loss_ns = 30 * SEC;
	assert_false(said()->has_signatures_hash);
	for (int i = 0; i < 64; i++) /* NCCL's counters agreed since */
		ops[i].op.seq_checked_ns = 31 * SEC;
	assert_int_equal(said()->signatures_hash, hash);
	ops[20].op.seq_checked_ns = 30 * SEC;
	assert_false(said()->has_signatures_hash);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		CASE(test_of_64),
		CASE(test_one_differs),
		CASE(test_numbers_that_slipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
