/* SPDX-License-Identifier: Apache-2.0
 *
 * test_process_group.c - PyTorch says on a thread for which process group it calls NCCL next: which calls that names,
 * and which it must not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/state.h"
#include "tests/unit/job/hand_model.h"
#include "tests/unit/job/model_copy.h"

enum { TP = 7, DP = 8 };

static void say(uint32_t thread, const char *name, const char *desc, const char *title, uint64_t seq)
{
	struct event e = job_event(EV_TORCH_GROUP, 0, 0);

	now += MSEC;
	e.tid += thread;
	e.torch_group = (struct torch_group){ .seq = seq, .p2p_seq = 100 + seq };
	snprintf(e.torch_group.name, sizeof(e.torch_group.name), "%s", name);
	snprintf(e.torch_group.desc, sizeof(e.torch_group.desc), "%s", desc);
	snprintf(e.torch_group.title, sizeof(e.torch_group.title), "%s", title);
	give(e);
}

static void call(uint32_t thread, uint64_t addr, enum op_kind kind)
{
	struct event e = job_call_event(0, kind, addr, 1, 64);

	now += MSEC;
	e.tid += thread;
	give(e);
}

static const struct member *member(uint64_t addr)
{
	const struct member *mb = m->procs->members;

	while (mb && mb->addr != addr)
		mb = mb->next_in_proc;
	assert_non_null(mb);
	return mb;
}

/* -1: PyTorch did not call the newest operation, as far as is known. */
static int64_t seq_of(uint64_t addr)
{
	const struct op *op = member(addr)->ops_tail;

	return op->in_process_group ? (int64_t)op->process_group_seq : -1;
}

static void names_and_numbers(void **state)
{
	(void)state;
	say(0, "3", "mesh_tp", "nccl:all_reduce", 41);
	call(0, TP, OP_ALLREDUCE);
	assert_int_equal(seq_of(TP), 41);
	assert_string_equal(member(TP)->comm->process_group, "mesh_tp");
	say(0, "0", "undefined", "nccl:send 0->1", 5);
	call(0, DP, OP_SEND);
	assert_int_equal(seq_of(DP), 105); /* Sends and Recvs are counted apart */
	assert_string_equal(member(DP)->comm->process_group, "0");
	say(0, "0", "", "nccl:all_gather", 6);
	call(0, DP, OP_ALLGATHER);
	assert_string_equal(member(DP)->comm->process_group, "0");
}

/* An all-to-all is a Send and a Recv a peer. */
static void several_calls(void **state)
{
	(void)state;
	say(0, "3", "mesh_ep", "nccl:all_to_all", 9);
	for (int i = 0; i < 4; i++) {
		call(0, TP, i % 2 ? OP_RECV : OP_SEND);
		assert_int_equal(seq_of(TP), 109);
	}
}

static void not_his(void **state)
{
	(void)state;
	say(0, "3", "mesh_tp", "nccl:all_reduce", 1);
	call(1, DP, OP_ALLREDUCE); /* another thread's */
	assert_int_equal(seq_of(DP), -1);
	call(0, TP, OP_ALLREDUCE);
	call(0, DP, OP_ALLREDUCE); /* a library that calls NCCL by itself */
	assert_int_equal(seq_of(DP), -1);
	call(0, TP, OP_ALLREDUCE); /* nothing was said any more */
	assert_int_equal(seq_of(TP), -1);
	say(0, "3", "mesh_tp", "nccl:coalesced", 2); /* the end of several: nothing follows */
	call(0, DP, OP_ALLREDUCE);
	assert_int_equal(seq_of(DP), -1);
	say(0, "3", "mesh_tp", "nccl:all_reduce", 3);
	now += 2000 * MSEC;
	call(0, TP, OP_ALLREDUCE); /* two seconds later: that call was missed */
	assert_int_equal(seq_of(TP), -1);
	assert_string_equal(member(DP)->comm->process_group, "");
}

/* After a loss nobody knows what was said for which call. */
static void a_loss(void **state)
{
	struct event loss = { .kind = EV_LOSS, .loss = { .class = LOSS_NORMAL, .lost = 1 } };

	(void)state;
	say(0, "3", "mesh_tp", "nccl:all_reduce", 1);
	give(loss);
	call(0, TP, OP_ALLREDUCE);
	assert_int_equal(seq_of(TP), -1);
}

/* What a name says goes before what a shape does not. */
static void role_by_name(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 10; i++) {
		say(0, "3", "EXPERT_MODEL_PARALLEL_GROUP", "nccl:all_reduce", i);
		call(0, TP, OP_ALLREDUCE);
		give(job_ready_event(0, 4, TP, 77));
		tick();
	}
	assert_int_equal(member(TP)->comm->parallelism, PARALLEL_EXPERT);
	assert_int_equal(parallelism_of_group("mesh_tp"), PARALLEL_TENSOR);
	assert_int_equal(parallelism_of_group("mesh_tp_cp"), PARALLEL_UNKNOWN);
	assert_int_equal(parallelism_of_group(""), PARALLEL_UNKNOWN);
}

/* A recording that begins in the middle knows what was known. */
static void kept_in_a_snapshot(void **state)
{
	struct model_copy copy;
	const struct member *mb;

	(void)state;
	give(job_ready_event(0, 4, TP, 77));
	say(0, "3", "mesh_tp", "nccl:all_reduce", 41);
	call(0, TP, OP_ALLREDUCE);
	model_copy(m, &copy);
	mb = copy.m->procs->members;
	assert_string_equal(mb->comm->process_group, "mesh_tp");
	assert_true(mb->ops_tail->in_process_group);
	assert_int_equal(mb->ops_tail->process_group_seq, 41);
	model_free(copy.m);
	model_copy_free(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_and_numbers, fresh, done),
		cmocka_unit_test_setup_teardown(several_calls, fresh, done),
		cmocka_unit_test_setup_teardown(not_his, fresh, done),
		cmocka_unit_test_setup_teardown(a_loss, fresh, done),
		cmocka_unit_test_setup_teardown(role_by_name, fresh, done),
		cmocka_unit_test_setup_teardown(kept_in_a_snapshot, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
