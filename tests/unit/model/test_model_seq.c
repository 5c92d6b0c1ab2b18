/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_seq.c - who is who and which operation is the n-th: groups, late attach, lost records, communicators
 * that come by several names, process life.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/state.h"
#include "tests/unit/job/job_script.h"

static uint64_t now;

static void give(struct model *m, struct event e)
{
	if (!e.ts_ns)
		e.ts_ns = JOB_T0 + (now += MSEC);
	assert_int_equal(model_apply(m, &e), 0);
}

static struct event op_event(int rank, uint64_t addr, enum op_kind kind, int depth)
{
	struct event e = job_call_event(rank, kind, addr, 1, 64);

	e.op.group_depth = depth;
	return e;
}

static void call(struct model *m, enum op_kind kind, int depth)
{
	give(m, op_event(0, 7, kind, depth));
}

static void call_counted(struct model *m, int depth, uint64_t counters)
{
	struct event e = op_event(0, 7, OP_ALLREDUCE, depth);

	e.op.counters_valid = true;
	e.op.counters_sum = counters;
	give(m, e);
}

static void group(struct model *m, enum event_kind kind, int depth_before)
{
	struct event e = job_event(kind, 0, 0);

	e.group.depth_before = depth_before;
	give(m, e);
}

static void ready(struct model *m, int rank, uint64_t addr, uint64_t hash)
{
	give(m, job_ready_event(rank, 4, addr, hash));
}

static void seen(struct model *m, int rank, uint64_t addr, uint64_t hash, uint64_t counters, bool valid)
{
	struct event e = job_seen_event(rank, 4, addr, hash);

	e.comm_seen.counters_sum = counters;
	e.comm_seen.counters_valid = valid;
	give(m, e);
}

static const struct member *first_member(const struct model *m)
{
	return model_proc(m, job_pid(0))->members;
}

static void test_each_space_counts_by_itself(void **state)
{
	struct model *m = model_new();
	struct event e;

	(void)state;
	ready(m, 0, 7, 99);
	call(m, OP_ALLREDUCE, 0);
	call(m, OP_ALLTOALL, 0);
	call(m, OP_BROADCAST, 0);
	assert_int_equal(first_member(m)->ops_tail->seq, 1);
	call(m, OP_ALLTOALL, 0);
	assert_int_equal(first_member(m)->ops_tail->seq, 1);
	for (int i = 0; i < 6; i++) {
		e = op_event(0, 7, i % 2 ? OP_SEND : OP_RECV, 0);
		e.op.peer = 1 + i / 4;
		give(m, e);
	}
	assert_int_equal(first_member(m)->p2p[1].next[0], 2); /* Send to 1 */
	assert_int_equal(first_member(m)->p2p[1].next[1], 2);
	assert_int_equal(first_member(m)->p2p[2].next[0], 1);
	e = op_event(0, 7, OP_ALLREDUCE, 0);
	e.op.count = 0; /* NCCL returns at once and counts nothing */
	give(m, e);
	call(m, OP_ALLREDUCE, 0);
	assert_int_equal(first_member(m)->ops_tail->seq, 2);
	model_free(m);
}

static void test_group_enters_at_its_outermost_end(void **state)
{
	struct model *m = model_new();
	const struct member *mb;

	(void)state;
	ready(m, 0, 7, 99);
	group(m, EV_GROUP_START, 0);
	group(m, EV_GROUP_START, 1);
	call(m, OP_ALLREDUCE, 2);
	call(m, OP_ALLREDUCE, 2);
	group(m, EV_GROUP_END, 2);
	mb = first_member(m);
	assert_int_equal(mb->next_seq[SEQ_COLL], 2);
	assert_int_equal(mb->entered_seq[SEQ_COLL], 0);
	assert_int_equal(mb->ops->enqueue_ns, 0);
	group(m, EV_GROUP_END, 1);
	assert_int_equal(mb->entered_seq[SEQ_COLL], 2);
	assert_true(mb->ops->enqueue_ns == JOB_T0 + now && mb->ops->enqueue_ns > mb->ops->call_ns);
	/* the end of a group is lost: the next call outside a group shows that it is over */
	group(m, EV_GROUP_START, 0);
	call(m, OP_ALLREDUCE, 1);
	call(m, OP_ALLREDUCE, 0);
	assert_int_equal(mb->entered_seq[SEQ_COLL], 4);
	model_free(m);
}

static void test_late_attach_starts_from_the_counters(void **state)
{
	struct model *m = model_new();
	const struct member *mb;

	(void)state;
	seen(m, 0, 7, 99, 1000, true);
	group(m, EV_GROUP_START, 0);
	call_counted(m, 1, 1000); /* NCCL counts a group when it ends */
	call_counted(m, 1, 1000);
	group(m, EV_GROUP_END, 1);
	call_counted(m, 0, 1002);
	mb = first_member(m);
	assert_int_equal(mb->ops->seq, 1000);
	assert_int_equal(mb->ops_tail->seq, 1002);
	assert_int_equal(mb->base_seq, 1000);
	assert_false(mb->ops->seq_from_attach);
	model_free(m);

	m = model_new(); /* no counters: counted from the attach, and said so */
	seen(m, 0, 7, 99, 0, false);
	call(m, OP_ALLREDUCE, 0);
	assert_true(first_member(m)->ops->seq_from_attach);
	assert_false(first_member(m)->seq_known);
	model_free(m);
}

static void test_counters_heal_a_loss(void **state)
{
	struct model *m = model_new();
	const struct member *mb;

	(void)state;
	ready(m, 0, 7, 99);
	call_counted(m, 0, 0);
	call_counted(m, 0, 1);
	call_counted(m, 0, 5); /* three records are missing */
	mb = first_member(m);
	assert_int_equal(mb->ops_tail->seq, 5);
	call_counted(m, 0, 4); /* fewer: a launch that NCCL has not counted yet */
	assert_int_equal(mb->ops_tail->seq, 6);
	group(m, EV_GROUP_START, 0);
	call_counted(m, 1, 9); /* the first of a group can be compared too */
	call_counted(m, 1, 9); /* the second cannot: the first is not counted yet */
	assert_int_equal(mb->ops_tail->seq, 10);
	group(m, EV_GROUP_END, 1);
	assert_int_equal(mb->entered_seq[SEQ_COLL], 11);
	model_free(m);
}

static void test_a_split_child_joins_when_its_hash_is_read(void **state)
{
	struct model *m = model_new();
	const struct comm *c;

	(void)state;
	ready(m, 0, 7, 0);
	assert_true(first_member(m)->comm->hash == 0);
	seen(m, 1, 8, 99, 0, true);
	seen(m, 0, 7, 99, 0, true);
	c = first_member(m)->comm;
	assert_true(c->hash == 99);
	assert_int_equal(c->n_seen, 2);
	assert_true(c == model_proc(m, job_pid(1))->members->comm);
	assert_true(c->by_rank[0]->proc->tgid == job_pid(0) && c->by_rank[1]->proc->tgid == job_pid(1));
	assert_true(m->comms == c && !c->next); /* nothing is left of the nameless one */
	assert_true(first_member(m)->from_init);
	model_free(m);
}

static void test_an_address_used_again_is_another_communicator(void **state)
{
	struct model *m = model_new();
	struct event e = job_event(EV_COMM_GONE, 0, 0);

	(void)state;
	ready(m, 0, 7, 99);
	call(m, OP_ALLREDUCE, 0);
	e.comm_gone.addr = 7;
	give(m, e);
	assert_true(first_member(m)->gone);
	ready(m, 0, 7, 100);
	call(m, OP_ALLREDUCE, 0);
	assert_true(first_member(m)->comm->hash == 100);
	assert_int_equal(first_member(m)->ops->seq, 0);
	give(m, job_event(EV_EXEC, 0, 0));
	assert_true(first_member(m)->gone);
	model_free(m);
}

static struct event proc_event(uint32_t tgid, int rank, bool child, uint32_t parent, uint64_t start_ns)
{
	struct event e = { .kind = EV_PROC, .tgid = tgid, .tid = tgid };

	e.proc.rank = e.proc.local_rank = rank;
	e.proc.is_child = child;
	e.proc.parent_tgid = parent;
	e.proc.start_ns = start_ns;
	e.proc.job = "job";
	return e;
}

static void test_children_know_their_rank(void **state)
{
	struct model *m = model_new();
	struct event e = { .kind = EV_FORK, .tgid = 10, .tid = 10 };

	(void)state;
	give(m, proc_event(20, 3, true, 10, 1)); /* given before its rank */
	give(m, proc_event(10, 3, false, 1, 1));
	assert_true(model_proc(m, 20)->leader == model_proc(m, 10));
	e.fork.child_tgid = e.fork.child_tid = 30;
	give(m, e);
	assert_int_equal(model_proc(m, 30)->rank, 3);
	assert_true(model_proc(m, 30)->is_child && model_proc(m, 30)->leader == model_proc(m, 10));
	assert_true(model_rank(m, NULL, 3) == model_proc(m, 10));
	assert_null(model_rank(m, NULL, 4));
	model_free(m);
}

static void test_a_pid_used_again_is_another_process(void **state)
{
	struct model *m = model_new();
	const struct proc *old;

	(void)state;
	give(m, proc_event(10, 3, false, 1, 111));
	give(m, op_event(0, 7, OP_ALLREDUCE, 0));
	old = model_proc(m, 10);
	give(m, proc_event(10, 4, false, 1, 222));
	assert_true(model_proc(m, 10) != old && old->dead);
	assert_int_equal(model_proc(m, 10)->rank, 4);
	model_free(m);
}

static void test_nonsense_is_survived(void **state)
{
	uint64_t rng = test_seed();
	struct model *m = model_new();

	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct event e = { .kind = random_next(&rng) % (EV_COUNTER + 1) };
		int n;

		if (e.kind == EV_START || e.kind == EV_STOP)
			continue;
		for (size_t k = offsetof(struct event, start) / 8; e.kind >= EV_COMM_INIT && k < sizeof(e) / 8; k++)
			((uint64_t *)&e)[k] = random_next(&rng) % 2; /* also for bools */
		if (e.kind == EV_OP) {
			e.op.op = random_next(&rng) % OP_KIND_MAX;
			e.op.peer = (int)(random_next(&rng) % 6) - 2;
			e.op.root = (int)(random_next(&rng) % 6) - 2;
			e.op.group_depth = (int)(random_next(&rng) % 4) - 1;
			e.op.counters_sum = random_next(&rng) % 50;
		}
		if (e.kind == EV_COMM_INIT || e.kind == EV_COMM_READY)
			e.comm_init.kind = random_next(&rng) % COMM_INIT_KIND_MAX;
		e.tgid = 1 + random_next(&rng) % 3;
		e.tid = e.tgid + random_next(&rng) % 2;
		e.ts_ns = JOB_T0 + i * 1000 + random_next(&rng) % 100000;
		if (e.kind >= EV_TASK) /* texts are pointers */
			memset(&e.start, 0, sizeof(e) - offsetof(struct event, start));
		if (e.kind == EV_CAPTURE) {
			e.capture.kind = random_next(&rng) % (CAPTURE_DESTROY + 2);
			e.capture.stream = random_next(&rng) % 2;
			e.capture.graph = random_next(&rng) % 3;
			e.capture.exec = random_next(&rng) % 3;
			e.capture.parent = random_next(&rng) % 3;
		}
		n = model_apply(m, &e);
		assert_true(n == 0 || n == -22);
		if (i % 3 == 0)
			model_next_ended(m);
	}
	model_free(m);
}

static struct op *transfer(struct model *m, int rank, enum op_kind kind)
{
	struct event e = op_event(rank, 7, kind, 0);

	e.op.peer = !rank;
	give(m, e);
	return model_proc(m, job_pid(rank))->members->ops_tail;
}

/* Two ranks met late: the second, which sends, after Sends of its that the first received. By how much its numbers are
 * ahead is the least that any finished Recv shows. */
static void test_which_send_a_recv_receives(void **state)
{
	struct model *m = model_new();
	const struct p2p_seq *s;
	struct op *recv[3];

	(void)state;
	for (int r = 0; r < 2; r++)
		seen(m, r, 7, 99, 0, false);
	for (int i = 0; i < 2; i++) /* of Sends before the attach */
		op_ended(m, transfer(m, 0, OP_RECV), JOB_T0 + (now += MSEC), 0);
	s = &first_member(m)->p2p[1];
	assert_false(s->ahead_known); /* nothing of the peer was counted */
	for (int i = 0; i < 3; i++) {
		transfer(m, 1, OP_SEND);
		recv[i] = transfer(m, 0, OP_RECV);
	}
	op_ended(m, recv[0], JOB_T0 + (now += MSEC), 0); /* three are sent, one is known to be received */
	assert_true(s->ahead_known);
	assert_int_equal(s->ahead, 0);
	op_ended(m, recv[1], JOB_T0 + (now += MSEC), 0);
	op_ended(m, recv[2], JOB_T0 + (now += MSEC), 0);
	assert_int_equal(s->ahead, -2);
	transfer(m, 1, OP_SEND);
	transfer(m, 1, OP_SEND);
	recv[0] = transfer(m, 0, OP_RECV);
	op_ended(m, recv[0], JOB_T0 + (now += MSEC), 0);
	assert_int_equal(s->ahead, -2);
	model_proc(m, job_pid(1))->members->blind = true; /* some of its were missed */
	recv[0] = transfer(m, 0, OP_RECV);
	recv[1] = transfer(m, 0, OP_RECV);
	op_ended(m, recv[1], JOB_T0 + (now += MSEC), 0);
	assert_int_equal(s->ahead, -2);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_space_counts_by_itself),
		cmocka_unit_test(test_group_enters_at_its_outermost_end),
		cmocka_unit_test(test_late_attach_starts_from_the_counters),
		cmocka_unit_test(test_counters_heal_a_loss),
		cmocka_unit_test(test_a_split_child_joins_when_its_hash_is_read),
		cmocka_unit_test(test_an_address_used_again_is_another_communicator),
		cmocka_unit_test(test_children_know_their_rank),
		cmocka_unit_test(test_a_pid_used_again_is_another_process),
		cmocka_unit_test(test_which_send_a_recv_receives),
		cmocka_unit_test(test_nonsense_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
