/* SPDX-License-Identifier: Apache-2.0
 *
 * test_snapshot_fields.c - every field that a snapshot has comes over: each is given a value of its own in a model, and
 * the copy has it. What a snapshot has for sinks (names, stacks, waits), and what it says of places.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/snapshot/snapshot.h"
#include "schemas/snapshot.h"
#include "tests/unit/job/busy_model.h"
#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

struct field {
	const char *name;
	size_t at, bytes;
};

#define F(type, field) \
	{ \
#field, offsetof(struct type, field), sizeof(((struct type *)0)->field) \
	}

static const struct field of_proc[] = {
	F(proc, start_ns),
	F(proc, first_ns),
	F(proc, parent_tgid),
	F(proc, ns_pid),
	F(proc, local_rank),
	F(proc, world_size),
	F(proc, exit_ns),
	F(proc, exit_code),
	F(proc, exit_signal),
	F(proc, io_bytes),
	F(proc, prev_io_bytes),
	F(proc, io_seen_ns),
	F(proc, prev_io_seen_ns),
	F(proc, last_call_ns),
	F(proc, attached_ns),
	F(proc, last_sync_ns),
	F(proc, cuda_error),
	F(proc, cuda_error_ns),
	F(proc, throttled_ns),
	F(proc, throttle_seen_ns),
	F(proc, prev_throttled_ns),
	F(proc, prev_throttle_seen_ns),
	F(proc, n_gpu_spans),
	F(proc, call_ns[0]),
	F(proc, call_ns[1]),
	F(proc, gpu_spans[0].ts_ns),
	F(proc, gpu_spans[0].gpu_ns),
	F(proc, gpu_spans[GPU_SPANS_KEPT - 1].ts_ns),
	F(proc, gpu_spans[GPU_SPANS_KEPT - 1].gpu_ns),
	F(proc, outside.disk.at_ns[0]),
	F(proc, outside.disk.at_ns[DISK_LOOKS - 1]),
	F(proc, outside.disk.seen_ns),
	F(proc, outside.disk.seen_tid),
};
static const struct field of_task[] = {
	F(task, since_ns),         F(task, seen_ns),       F(task, run_ns),     F(task, wait_ns),
	F(task, sleep_ns),         F(task, disk_ns),       F(task, stopped_ns), F(task, prev_run_ns),
	F(task, prev_seen_ns),     F(task, prev_wait_ns),  F(task, preempted),  F(task, prev_preempted),
	F(task, blocked_since_ns), F(task, at_ns),         F(task, stack.ns),   F(task, wait.ns),
	F(task, wait.pid),         F(task, wait.since_ns),
};
static const struct field of_member[] = {
	F(member, base_seq),
	F(member, last_call_ns),
	F(member, checked_ns),
	F(member, device),
	F(member, samples.n),
	F(member, samples.seen_ns),
	F(member, samples.since_ns),
	F(member, samples.after_ns),
	F(member, samples.stood_ns),
	F(member, samples.stood_seq),
	F(member, samples.async_result),
	F(member, samples.init_state),
	F(member, samples.counters[0]),
	F(member, samples.counters[4]),
};
static const struct field of_op[] = {
	F(op, dtype),       F(op, redop),          F(op, root),           F(op, count),        F(op, seq),
	F(op, stream),      F(op, call_ns),        F(op, start_bound_ns), F(op, end_error_ns), F(op, arrive_bound_ns),
	F(op, not_done_ns), F(op, seq_checked_ns), F(op, gpu_ns),         F(op, sync_ns),      F(op, graph_i),
	F(op, graph_n),     F(op, graph_exec),
};
static const struct field of_qp[] = {
	F(qp, dest_qpn), F(qp, dlid),     F(qp, type),      F(qp, port),     F(qp, state),
	F(qp, first_ns), F(qp, state_ns), F(qp, totals_ns), F(qp, error_ns), F(qp, error_status),
	F(qp, async_ns), F(qp, gid[0]),   F(qp, gid[15]),   F(qp, totals.n), F(qp, totals.first_status),
	F(qp, gone_ns),
};
#define N(table) (sizeof(table) / sizeof(*(table)))

/* Small numbers, that any field may have; each byte of larger ones is another. */
static void poke(void *to, const struct field *f, size_t n, uint8_t first)
{
	for (size_t i = 0; i < n; i++)
		for (size_t b = 0; b < f[i].bytes && (b < 4 || f[i].bytes > 8); b++)
			((uint8_t *)to)[f[i].at + b] =
				b && f[i].bytes <= 4 && b == 3 ? 0 : (first + 7 * i + b) % 100 + 1;
}

static void assert_same(const void *a, const void *b, const struct field *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp((const char *)a + f[i].at, (const char *)b + f[i].at, f[i].bytes))
			fail_msg("%s", f[i].name);
}

static void assert_flags(bool is, bool as)
{
	assert_int_equal(is, as);
}

static struct model *from;
static struct model_copy to;

static int fresh(void **state)
{
	(void)state;
	from = busy_model_new();
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(from);
	if (to.m) {
		model_free(to.m);
		model_copy_free(&to);
	}
	to = (struct model_copy){ 0 };
	return 0;
}

static struct proc *proc_in(struct model *m)
{
	return (struct proc *)model_proc(m, job_pid(0));
}

static void a_process(void **state)
{
	struct proc *p = proc_in(from), *q;

	(void)state;
	poke(p, of_proc, N(of_proc), 3);
	p->quota_cores = 1.5;
	p->cuda_error_call = "cuLaunchKernel";
	p->cuda_error_name = "CUDA_ERROR_ILLEGAL_ADDRESS";
	p->shed = 5;
	model_copy(from, &to);
	q = proc_in(to.m);
	assert_same(p, q, of_proc, N(of_proc));
	assert_true(q->quota_cores == 1.5 && q->shed == 5 && q->n_ops == p->n_ops);
	assert_string_equal(q->cuda_error_call, "cuLaunchKernel");
	assert_string_equal(q->cuda_error_name, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_string_equal(q->name, p->name);
	assert_string_equal(q->container, "0123456789ab");
	assert_string_equal(q->pod, "uid");
	assert_string_equal(q->pod_name, "train-0");
	assert_string_equal(q->namespace, "team");
	assert_string_equal(q->slurm_job, "77");
	assert_string_equal(q->slurm_step, "0");
	assert_string_equal(q->node->boot_id, "boot");
	assert_memory_equal(q->steps, p->steps, sizeof(*p->steps));
}

static void a_thread(void **state)
{
	static const char *const flags[] = { "none", "blocked", "lock held", "both" };

	for (int i = 0; i < 4; i++) {
		struct task *t = proc_in(from)->tasks;
		const struct task *u;

		poke(t, of_task, N(of_task), 50);
		t->state = TASK_DISK;
		t->blocked = i & 1;
		t->mmap_lock_held = i & 2;
		t->stalled = i == 2;
		t->frozen = i == 1;
		t->name = "main";
		t->preempted_by = "stress";
		t->kernel_stack = "k";
		t->user_stack = "u";
		t->wchan = "w";
		t->syscall = "read";
		t->file = "/data";
		t->mount = "/ (ext4 /dev/sda, 8:0)";
		t->stack.sampled = i & 1;
		t->stack.wait = "futex";
		t->stack.file = "f";
		t->stack.kernel = "a;b";
		t->stack.frames = "c\nd";
		t->stack.python = "e.py:1 g";
		t->stack.native = "h";
		t->stack.end = "i";
		model_copy(from, &to);
		u = model_task(to.m, t->proc->key, t->tid);
		assert_same(t, u, of_task, N(of_task));
		if (u->blocked != t->blocked || u->stalled != t->stalled || u->frozen != t->frozen ||
		    u->mmap_lock_held != t->mmap_lock_held || u->stack.sampled != t->stack.sampled)
			fail_msg("%s", flags[i]);
		assert_int_equal(u->state, TASK_DISK);
		assert_string_equal(u->name, "main");
		assert_string_equal(u->preempted_by, "stress");
		assert_string_equal(u->kernel_stack, "k");
		assert_string_equal(u->user_stack, "u");
		assert_string_equal(u->mount, "/ (ext4 /dev/sda, 8:0)");
		assert_string_equal(u->wchan, "w");
		assert_string_equal(u->syscall, "read");
		assert_string_equal(u->file, "/data");
		assert_string_equal(u->stack.wait, "futex");
		assert_string_equal(u->stack.file, "f");
		assert_string_equal(u->stack.kernel, "a;b");
		assert_string_equal(u->stack.frames, "c\nd");
		assert_string_equal(u->stack.python, "e.py:1 g");
		assert_string_equal(u->stack.native, "h");
		assert_string_equal(u->stack.end, "i");
		done(state);
		fresh(state);
	}
}

static struct member *member_in(struct model *m)
{
	struct member *mb = proc_in(m)->members;

	while (mb->gone)
		mb = mb->next_in_proc;
	return mb;
}

static void a_member(void **state)
{
	for (int i = 0; i < 6; i++) {
		struct member *mb = member_in(from), *o;

		poke(mb, of_member, N(of_member), 20);
		mb->from_init = i == 0;
		mb->seq_known = i == 1;
		mb->blind = i == 2;
		mb->samples.counted = i == 3;
		mb->samples.moved = i == 4;
		mb->samples.aborted = i == 5;
		for (int s = 0; s < SEQ_SPACES; s++) {
			mb->next_seq[s] = 1000 + 10 * s;
			mb->entered_seq[s] = 1000 + 10 * s - (s == i);
			mb->comm->highest_seq[s] = 2000 + s;
		}
		mb->comm->first_ns = 77;
		mb->comm->n_complete = 88;
		mb->comm->n_ended = 99;
		model_copy(from, &to);
		o = member_in(to.m);
		assert_same(mb, o, of_member, N(of_member));
		assert_flags(o->from_init, i == 0);
		assert_flags(o->seq_known, i == 1);
		assert_flags(o->blind, i == 2);
		assert_flags(o->samples.counted, i == 3);
		assert_flags(o->samples.moved, i == 4);
		assert_flags(o->samples.aborted, i == 5);
		assert_memory_equal(o->entered_seq, mb->entered_seq, sizeof(mb->entered_seq));
		assert_memory_equal(o->next_seq, mb->next_seq, sizeof(mb->next_seq));
		assert_memory_equal(o->comm->highest_seq, mb->comm->highest_seq, sizeof(mb->comm->highest_seq));
		assert_true(o->comm->first_ns == 77 && o->comm->n_complete == 88 && o->comm->n_ended == 99);
		assert_true(o->rank == mb->rank && o->comm->nranks == mb->comm->nranks && o->addr == mb->addr &&
			    o->comm->hash == mb->comm->hash);
		done(state);
		fresh(state);
	}
}

static const struct op *op_in(const struct model *m, uint64_t id)
{
	const struct op *op = model_proc(m, job_pid(0))->last_op;

	while (op->id != id)
		op = op->prev_in_proc;
	return op;
}

/* The newest: nothing that follows from its numbers stands behind it. */
static void an_operation(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct op *op = proc_in(from)->last_op;
		const struct op *o;

		poke(op, of_op, N(of_op), 10);
		op->redop = 3; /* there are five, and one number for all others */
		op->seq_from_attach = i == 1;
		op->grouped = i == 2;
		op->enqueue_ns = op->enqueue_ns ? op->enqueue_ns : 5;
		model_copy(from, &to);
		o = op_in(to.m, op->id);
		assert_same(op, o, of_op, N(of_op));
		assert_flags(o->seq_from_attach, i == 1);
		assert_flags(o->grouped, i == 2);
		assert_true(o->kind == op->kind && o->peer == op->peer && o->nth == op->nth && o->tid == op->tid &&
			    o->enqueue_ns == op->enqueue_ns && o->end_ns == op->end_ns &&
			    o->member->addr == op->member->addr);
		done(state);
		fresh(state);
	}
}

static void a_queue_pair(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct qp *q = from->qps.newest;
		const struct qp *o;

		assert_non_null(q);
		poke(q, of_qp, N(of_qp), 1);
		q->state = QP_ERR;
		q->error_name = "retry";
		q->async_name = "fatal";
		q->gone = i == 0;
		q->has_gid = i == 1;
		q->closing = i == 0;
		q->failed = i == 1;
		q->totals.from_start = i == 2;
		q->totals.cut = i == 3;
		model_copy(from, &to);
		o = to.m->qps.newest;
		assert_same(q, o, of_qp, N(of_qp));
		assert_int_equal(o->qpn, q->qpn);
		assert_int_equal(o->context, q->context);
		assert_string_equal(o->device, q->device);
		assert_string_equal(o->error_name, "retry");
		assert_string_equal(o->async_name, "fatal");
		assert_flags(o->gone, i == 0);
		assert_flags(o->has_gid, i == 1);
		assert_flags(o->closing, i == 0);
		assert_flags(o->failed, i == 1);
		assert_flags(o->totals.from_start, i == 2);
		assert_flags(o->totals.cut, i == 3);
		done(state);
		fresh(state);
	}
}

/* Without an error it has no name of one. */
static void a_queue_pair_without_errors(void **state)
{
	struct qp *q = from->qps.newest;

	(void)state;
	q->error_ns = q->async_ns = 0;
	q->error_name = "retry";
	q->async_name = "fatal";
	model_copy(from, &to);
	assert_null(to.m->qps.newest->error_name);
	assert_null(to.m->qps.newest->async_name);
}

/* --- for sinks --- */

struct seen {
	int procs, names, stacks, waits;
	const char *name;
};

static int see(void *arg, const struct event *e)
{
	struct seen *s = arg;

	s->procs += e->kind == EV_PROC;
	s->stacks += e->kind == EV_STACK;
	s->waits += e->kind == EV_WAIT;
	if (e->kind != EV_THREAD)
		return 0;
	s->names++;
	s->name = e->thread.name;
	assert_true(*s->name);
	return 0;
}

static void names_stacks_and_waits(void **state)
{
	struct seen s = { 0 };
	int procs = 0;

	(void)state;
	for (struct proc *p = from->procs; p; p = p->next) {
		procs++;
		for (struct task *t = p->tasks; t; t = t->next) {
			t->name = "";
			t->stack.ns = t->wait.ns = 0;
		}
	}
	assert_int_equal(model_snapshot(from, see, &s), 0);
	assert_true(s.procs == procs && !s.names && !s.stacks && !s.waits);
	proc_in(from)->tasks->name = "loader";
	proc_in(from)->tasks->stack.ns = 5;
	s = (struct seen){ 0 };
	assert_int_equal(model_snapshot(from, see, &s), 0);
	assert_true(s.procs == procs && s.names == 1 && s.stacks == 1 && !s.waits);
	assert_string_equal(s.name, "loader");
	proc_in(from)->tasks->wait.ns = 5;
	s = (struct seen){ 0 };
	assert_int_equal(model_snapshot(from, see, &s), 0);
	assert_true(s.stacks == 1 && s.waits == 1);
}

/* --- places: which job a process is of follows from where it is --- */

struct placed {
	uint64_t netns;
	uint32_t user;
	const char *container, *cgroup;
};

static void lives_at(struct model *m, int r, const struct placed *at)
{
	struct event e = job_proc_event(0, 2, JOB_T0);

	e.tgid = e.tid = 900 + r;
	e.proc.netns = at->netns;
	e.proc.user = at->user;
	e.proc.container = at->container;
	e.proc.cgroup = at->cgroup;
	assert_int_equal(model_apply(m, &e), 0);
}

static void tick(struct model *m)
{
	struct event e = { .kind = EV_TICK, .ts_ns = JOB_T0 + SEC };

	assert_int_equal(model_apply(m, &e), 0);
}

static void which_job_it_is(void **state)
{
	static const struct placed at[][2] = {
		{ { 1, 0, "", "" }, { 2, 0, "", "" } },     { { 1, 1, "", "" }, { 1, 2, "", "" } },
		{ { 1, 0, "", "/a" }, { 1, 0, "", "/b" } }, { { 1, 0, "x", "" }, { 1, 0, "y", "" } },
		{ { 1, 1, "", "/a" }, { 1, 1, "", "/a" } },
	};

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct model *m = model_new();
		const struct proc *p, *q;

		lives_at(m, 0, &at[i][0]);
		lives_at(m, 1, &at[i][1]);
		tick(m);
		assert_int_equal(model_proc(m, 900)->job == model_proc(m, 901)->job, i == 4);
		model_copy(m, &to);
		tick(to.m);
		p = model_proc(to.m, 900);
		q = model_proc(to.m, 901);
		assert_int_equal(p->job == q->job, i == 4);
		assert_string_equal(p->job->shown, model_proc(m, 900)->job->shown);
		assert_string_equal(q->job->shown, model_proc(m, 901)->job->shown);
		model_free(m);
		model_free(to.m);
		model_copy_free(&to);
		to = (struct model_copy){ 0 };
	}
}

/* --- which operations all have entered --- */

struct complete {
	int n, of;
};

static int flags_see(void *arg, const struct event *e)
{
	const struct snapshot_op *b = e->kind == EV_SNAPSHOT ? e->snapshot.body : NULL;
	struct complete *to = arg;

	if (!b || e->snapshot.what != SNAPSHOT_OP)
		return 0;
	to->n++;
	to->of += !!(b->flags & SNAPSHOT_OP_COMPLETE);
	if (b->seq == 0)
		assert_true(b->flags & SNAPSHOT_OP_COMPLETE);
	return 0;
}

static void a_host_seen_in_part(void **state)
{
	struct model *m = model_new();

	(void)state;
	model_copy(from, &to);
	assert_false(model_node(to.m, 0)->partial);
	done(NULL);
	from = busy_model_new();
	assert_int_equal(model_apply(m, &(struct event){ .kind = EV_PARTIAL, .ts_ns = JOB_T0 }), 0);
	model_copy(m, &to);
	assert_true(model_node(to.m, 0)->partial);
	model_free(m);
}

/* Both called the first of each kind, one of them the second: the copy does not count the first ones again. */
static void what_all_entered(void **state)
{
	static const enum op_kind kinds[] = { OP_ALLREDUCE, OP_ALLTOALL, OP_GATHER };
	struct model *m = model_new();
	struct complete ops = { 0 };
	uint64_t at_ns = JOB_T0;

	(void)state;
	for (int r = 0; r < 2; r++) {
		struct event e = job_ready_event(r, 2, 7, 97);

		e.ts_ns = at_ns;
		assert_int_equal(model_apply(m, &e), 0);
	}
	for (int i = 0; i < 9; i++) {
		struct event e = job_call_event(i % 3 == 1, kinds[i / 3], 7, 100, 10);

		e.ts_ns = at_ns += MSEC;
		assert_int_equal(model_apply(m, &e), 0);
	}
	assert_int_equal(m->comms->n_complete, 3);
	assert_int_equal(model_snapshot(m, flags_see, &ops), 0);
	assert_true(ops.n == 9 && ops.of == 6);
	model_copy(m, &to);
	assert_int_equal(to.m->comms->n_complete, 3);
	model_free(m);
}

/* --- a record that comes again --- */

static struct model *again;

static int give_again(void *arg, const struct event *e)
{
	size_t *n = arg;

	if (e->kind != EV_SNAPSHOT)
		return 0;
	if (e->snapshot.what == SNAPSHOT_STREAM) {
		int err = model_apply(again, e);

		assert_true(err == 0 || err == -22);
		n[!!err]++;
	}
	return 0;
}

/* A stream on which something is queued does not begin anew; one that is empty may. */
static void a_stream_that_is_there(void **state)
{
	size_t n[2] = { 0 };

	(void)state;
	model_copy(from, &to);
	again = to.m;
	assert_int_equal(model_snapshot(from, give_again, n), 0);
	assert_true(n[1] > 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(a_process),
		TEST(a_thread),
		TEST(a_member),
		TEST(an_operation),
		TEST(a_queue_pair),
		TEST(a_queue_pair_without_errors),
		TEST(names_stacks_and_waits),
		TEST(which_job_it_is),
		TEST(what_all_entered),
		TEST(a_host_seen_in_part),
		TEST(a_stream_that_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
