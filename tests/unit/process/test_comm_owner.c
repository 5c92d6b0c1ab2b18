/* SPDX-License-Identifier: Apache-2.0
 *
 * test_comm_owner.c - a commHash is what a process says: one of another user that says the same is in a communicator of
 * its own, whoever comes first, and is no job's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

enum { HASH = 0xa0, ADDR = 0x7000, USER = 1001, OTHER = 1002 };

static struct model *m;
static uint64_t now;

static int setup(void **state)
{
	(void)state;
	m = model_new();
	now = JOB_T0;
	return m ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void give(struct event e)
{
	e.ts_ns = now += 1000;
	assert_int_equal(model_apply(m, &e), 0);
}

static void proc(uint32_t tgid, uint32_t user, int rank, const char *container)
{
	give((struct event){ .kind = EV_PROC,
			     .tgid = tgid,
			     .tid = tgid,
			     .proc = { .start_ns = 1,
				       .rank = rank,
				       .local_rank = rank,
				       .world_size = 4,
				       .job = "train",
				       .container = container,
				       .user = user } });
}

static void sample(uint32_t tgid, int rank)
{
	give((struct event){
		.kind = EV_COMM_SAMPLE,
		.tgid = tgid,
		.tid = tgid,
		.comm_sample = { .comm = ADDR, .hash = HASH, .rank = rank, .nranks = 4, .n_counters = 5 } });
}

static const struct comm *comm_of(uint32_t tgid)
{
	return model_proc(m, proc_key(0, tgid))->members->comm;
}

/* A data worker that was read before its rank was taken for one: its counters, its rank's as of the fork, stand. */
static void test_a_child_is_no_member(void **state)
{
	(void)state;
	proc(100, USER, 0, "");
	proc(101, USER, 0, "");
	sample(100, 0);
	sample(101, 0);
	assert_non_null(model_proc(m, proc_key(0, 101))->members);
	give((struct event){ .kind = EV_PROC,
			     .tgid = 101,
			     .tid = 101,
			     .proc = { .start_ns = 1,
				       .rank = 0,
				       .world_size = 4,
				       .job = "train",
				       .user = USER,
				       .parent_tgid = 100,
				       .is_child = true } });
	assert_true(model_proc(m, proc_key(0, 101))->members->gone);
	assert_false(model_proc(m, proc_key(0, 100))->members->gone);
}

static void test_another_users_process_does_not_join(void **state)
{
	(void)state;
	proc(100, USER, 0, "");
	proc(101, USER, 1, "");
	proc(200, OTHER, 2, "");
	for (int i = 0; i < 3; i++) { /* each sample finds its own again */
		sample(100, 0);
		sample(200, 2);
		sample(101, 1);
	}
	assert_ptr_equal(comm_of(100), comm_of(101));
	assert_ptr_not_equal(comm_of(100), comm_of(200));
	assert_int_equal(comm_of(100)->hash, HASH);
	assert_int_not_equal(comm_of(200)->hash, HASH);
	assert_int_equal(comm_of(100)->n_seen, 2);
	assert_int_equal(comm_of(200)->n_seen, 1);
	assert_int_equal(comm_of(200)->members->samples.n, 3);
	assert_ptr_not_equal(comm_of(100)->members->proc->job, comm_of(200)->members->proc->job);
}

static void test_who_forges_first_has_no_more_of_it(void **state)
{
	(void)state;
	proc(100, USER, 0, "");
	proc(101, USER, 1, "");
	proc(200, OTHER, 2, "");
	sample(200, 2);
	sample(100, 0);
	sample(101, 1);
	assert_ptr_equal(comm_of(100), comm_of(101));
	assert_ptr_not_equal(comm_of(100), comm_of(200));
	assert_int_equal(comm_of(100)->n_seen, 2);
}

static void test_containers_of_one_job_may_have_users_of_their_own(void **state)
{
	(void)state;
	proc(100, USER, 0, "0123456789ab");
	proc(101, OTHER, 1, "ba9876543210");
	proc(200, OTHER, 2, "");
	sample(100, 0);
	sample(101, 1);
	sample(200, 2);
	assert_ptr_equal(comm_of(100), comm_of(101));
	assert_ptr_not_equal(comm_of(100), comm_of(200));
}

static void test_an_unknown_user_is_anybody(void **state)
{
	(void)state;
	proc(100, USER, 0, "");
	proc(101, 0, 1, "");
	sample(101, 1);
	sample(100, 0);
	assert_ptr_equal(comm_of(100), comm_of(101));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_child_is_no_member, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_users_process_does_not_join, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_forges_first_has_no_more_of_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_containers_of_one_job_may_have_users_of_their_own, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_an_unknown_user_is_anybody, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
