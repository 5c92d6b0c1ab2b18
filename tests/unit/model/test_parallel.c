/* SPDX-License-Identifier: Apache-2.0
 *
 * test_parallel.c - what a communicator is for: said of the scripted job's in every layout where it is sure, and of
 * nothing that looks the same and is something else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/parallel.h"
#include "tests/unit/job/job_script.h"

static const struct comm_shape tensor = {
	.n = 8, .stride = 1, .one_host = true, .all_reduces = 900, .collectives = 1000
};
static const struct comm_shape sharded = {
	.n = 8, .stride = 1, .one_host = true, .reduce_scatters = 300, .collectives = 900
};
static const struct comm_shape data = { .n = 4, .stride = 8, .all_reduces = 90, .collectives = 90 };
static const struct comm_shape data_sharded = { .n = 4, .stride = 8, .reduce_scatters = 30, .collectives = 90 };
static const struct comm_shape pipeline = { .n = 2, .stride = 32, .transfers = 500, .both_ways = false };
static const struct comm_shape ring = { .n = 4, .stride = 8, .transfers = 500 };
static const struct comm_shape world = { .n = 32, .stride = 1, .all_reduces = 50, .collectives = 60 };

#define OF(which, ranks, ...) \
	({ \
		const struct comm_shape s_[] = { __VA_ARGS__ }; \
		parallelism_of(s_, sizeof(s_) / sizeof(s_[0]), which, ranks); \
	})

static void test_grid(void **state)
{
	(void)state;
	assert_int_equal(OF(0, 32, tensor, data, world), PARALLEL_TENSOR);
	assert_int_equal(OF(1, 32, tensor, data, world), PARALLEL_DATA);
	assert_int_equal(OF(2, 32, tensor, data, world), PARALLEL_UNKNOWN);
	assert_int_equal(OF(0, 64, tensor, data, pipeline), PARALLEL_TENSOR);
	assert_int_equal(OF(1, 64, tensor, data, pipeline), PARALLEL_DATA);
	assert_int_equal(OF(2, 64, tensor, data, pipeline), PARALLEL_PIPELINE);
	assert_int_equal(OF(0, 32, sharded, data_sharded), PARALLEL_TENSOR); /* sequence parallelism and ZeRO */
}

/* The ranks do not fill the job: there is a dimension that is not seen. */
static void test_not_whole(void **state)
{
	(void)state;
	assert_int_equal(OF(0, 64, tensor, data), PARALLEL_UNKNOWN);
	assert_int_equal(OF(1, 64, tensor, data), PARALLEL_UNKNOWN);
	assert_int_equal(OF(2, 128, tensor, data, pipeline), PARALLEL_UNKNOWN);
	assert_int_equal(OF(0, 8, tensor), PARALLEL_UNKNOWN);
	assert_int_equal(OF(0, 32, tensor), PARALLEL_UNKNOWN);
}

static void test_looks_alike(void **state)
{
	struct comm_shape experts = tensor, context = data, embedding, apart = tensor, young = data, gathered = data;

	(void)state;
	assert_int_equal(OF(0, 32, sharded, data), PARALLEL_UNKNOWN); /* hybrid sharding: data-parallel, both */
	assert_int_equal(OF(1, 32, sharded, data), PARALLEL_DATA);
	experts.others = 100;
	assert_int_equal(OF(0, 32, experts, data), PARALLEL_UNKNOWN);
	assert_int_equal(OF(1, 32, experts, data), PARALLEL_UNKNOWN);
	context.reduce_scatters = 10; /* a second one of that stride: context parallelism, or its gradients' group */
	assert_int_equal(OF(1, 32, tensor, data, context), PARALLEL_UNKNOWN);
	assert_int_equal(OF(0, 32, tensor, data, context), PARALLEL_UNKNOWN);
	embedding = (struct comm_shape){ .n = 4, .stride = 8, .all_reduces = 10, .collectives = 10 };
	assert_int_equal(OF(2, 32, tensor, ring, embedding), PARALLEL_UNKNOWN); /* of the pipeline's ends */
	assert_int_equal(OF(1, 32, tensor, ring), PARALLEL_UNKNOWN);            /* attention in a ring */
	apart.one_host = false;
	assert_int_equal(OF(0, 32, apart, data), PARALLEL_UNKNOWN);
	young.collectives = young.all_reduces = 3;
	assert_int_equal(OF(1, 32, tensor, young), PARALLEL_UNKNOWN);
	gathered.all_reduces = 0; /* only AllGather: no gradients */
	assert_int_equal(OF(1, 32, tensor, gathered), PARALLEL_UNKNOWN);
}

static void test_pipeline_alone(void **state)
{
	struct comm_shape stages = ring;

	(void)state;
	stages.both_ways = true;
	assert_int_equal(OF(0, 32, stages, world), PARALLEL_PIPELINE);
	stages.collectives = 200; /* it is used for other things too */
	assert_int_equal(OF(0, 32, stages, world), PARALLEL_UNKNOWN);
}

/* Eight calls say what it is for, seven are a set-up. */
static void test_so_many_calls(void **state)
{
	(void)state;
	for (uint64_t n = 7; n <= 8; n++) {
		struct comm_shape few = data, sends = { .n = 4, .stride = 8, .transfers = n, .both_ways = true };

		few.collectives = few.all_reduces = n;
		assert_int_equal(OF(1, 32, tensor, few), n < 8 ? PARALLEL_UNKNOWN : PARALLEL_DATA);
		assert_int_equal(OF(0, 32, sends), n < 8 ? PARALLEL_UNKNOWN : PARALLEL_PIPELINE);
	}
}

/* A tenth of a pipeline's calls may be collectives; half of a tensor-parallel group's have to be AllReduce. */
static void test_shares(void **state)
{
	struct comm_shape stages = ring, half = tensor, both = data, last = pipeline;

	(void)state;
	stages.both_ways = true;
	for (uint64_t n = 50; n <= 51; n++) {
		stages.collectives = n;
		assert_int_equal(OF(0, 32, stages), n > 50 ? PARALLEL_UNKNOWN : PARALLEL_PIPELINE);
	}
	for (uint64_t n = 499; n <= 500; n++) {
		half.all_reduces = n;
		assert_int_equal(OF(0, 32, half, data), n < 500 ? PARALLEL_UNKNOWN : PARALLEL_TENSOR);
	}
	both.reduce_scatters = both.all_reduces; /* in buckets, some of them sharded */
	assert_int_equal(OF(1, 32, tensor, both), PARALLEL_DATA);
	last.transfers = 0; /* where stages would be, something else is */
	last.collectives = 50;
	assert_int_equal(OF(0, 64, tensor, data, last), PARALLEL_UNKNOWN);
	stages = (struct comm_shape){ .n = 2, .stride = 16, .transfers = 500, .both_ways = true };
	assert_int_equal(OF(0, 32, stages), PARALLEL_UNKNOWN); /* any two that send to each other */
}

/* Of the scripted job, by the kinds that its hashes carry: world, tp, dp, pp. */
static void layout_check(int tp, int dp, int pp, const enum parallelism expected[4])
{
	struct job_opts o = job_usual(tp, dp, pp, test_seed());
	struct verdicts v = { 0 };
	struct job *j = job_new(&o);

	job_play(j, &v, NULL, NULL);
	assert_true(v.m->n_comms > 0);
	for (const struct comm *c = v.m->comms; c; c = c->next)
		assert_int_equal(c->parallelism, expected[c->hash >> 8 & 0xff]);
	verdicts_free(&v);
	job_free(j);
}

static void test_job(void **state)
{
	static const enum parallelism all[] = { 0, PARALLEL_TENSOR, PARALLEL_DATA, PARALLEL_PIPELINE },
				      stages[] = { 0, 0, 0, PARALLEL_PIPELINE }, none[4] = { 0 };

	(void)state;
	layout_check(2, 2, 2, all);
	layout_check(4, 2, 2, all);
	layout_check(2, 4, 1, all);
	layout_check(1, 2, 4, stages);
	layout_check(2, 1, 4, stages);
	layout_check(8, 1, 1, none);
	layout_check(1, 8, 1, none);
	layout_check(2, 1, 2, none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grid),          cmocka_unit_test(test_not_whole),
		cmocka_unit_test(test_looks_alike),   cmocka_unit_test(test_pipeline_alone),
		cmocka_unit_test(test_so_many_calls), cmocka_unit_test(test_shares),
		cmocka_unit_test(test_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
