/* SPDX-License-Identifier: Apache-2.0
 *
 * test_snapshot_refused.c - what a foreign file may claim: a record of a snapshot with one number that cannot be is
 * refused, and leaves nothing behind; a few numbers that are only too large are taken as large as they may be.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/snapshot/snapshot.h"
#include "schemas/snapshot.h"
#include "tests/unit/job/busy_model.h"
#include "tests/unit/job/job_script.h"

#define EINVAL_IS (-22)

/* The number at `at` of a body, of so many bytes. */
struct change {
	int what;
	size_t at, bytes;
	uint64_t value;
};

#define FIELD(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)
#define ITEM0(field) \
	offsetof(struct snapshot_captured_list, items) + offsetof(struct snapshot_captured, field), \
		sizeof(((struct snapshot_captured *)0)->field)
#define BUCKET0(field) \
	offsetof(struct snapshot_comm, buckets) + offsetof(struct snapshot_bucket, field), \
		sizeof(((struct snapshot_bucket *)0)->field)

static const struct change refused[] = {
	{ SNAPSHOT_TASK, FIELD(snapshot_task, state), TASK_DEAD + 1 },
	{ SNAPSHOT_P2P, FIELD(snapshot_p2p, addr), 0xdead },
	{ SNAPSHOT_P2P, FIELD(snapshot_p2p, peer), 1 << 20 },
	{ SNAPSHOT_COMM, FIELD(snapshot_comm, addr), 0xdead },
	{ SNAPSHOT_COMM, FIELD(snapshot_comm, n_buckets), 1000 },
	{ SNAPSHOT_COMM, BUCKET0(bucket), 4000 },
	{ SNAPSHOT_COMM, BUCKET0(kind), SNAPSHOT_HABIT + 1 },
	{ SNAPSHOT_COMM_INIT, FIELD(snapshot_comm_init, parent), 0xdead },
	{ SNAPSHOT_COMM_INIT, FIELD(snapshot_comm_init, kind), COMM_INIT_KIND_MAX },
	{ SNAPSHOT_COMM_INIT, FIELD(snapshot_comm_init, parent), 0 }, /* of a split: no id either */
	{ SNAPSHOT_WORK, FIELD(snapshot_work, work), 0 },
	{ SNAPSHOT_WORK, FIELD(snapshot_work, work), 2 },
	{ SNAPSHOT_WORK, FIELD(snapshot_work, n_lanes), 0 },
	{ SNAPSHOT_WORK, FIELD(snapshot_work, n_lanes), 257 },
	{ SNAPSHOT_CAPTURED, FIELD(snapshot_captured_list, work), 0 },
	{ SNAPSHOT_CAPTURED, FIELD(snapshot_captured_list, work), 99 },
	{ SNAPSHOT_CAPTURED, FIELD(snapshot_captured_list, n), 65 },
	{ SNAPSHOT_CAPTURED, ITEM0(lane), UINT32_MAX },
	{ SNAPSHOT_CAPTURED, ITEM0(lane), 2 },
	{ SNAPSHOT_CAPTURED, ITEM0(dep_lane), UINT32_MAX },
	{ SNAPSHOT_CAPTURED, ITEM0(dep_lane), 2 },
	{ SNAPSHOT_CAPTURED, ITEM0(kind), OP_KIND_MAX },
	{ SNAPSHOT_CAPTURED, ITEM0(dep_n), 1 }, /* nothing stands there yet */
	{ SNAPSHOT_GRAPH, FIELD(snapshot_graph, work), 0 },
	{ SNAPSHOT_GRAPH, FIELD(snapshot_graph, work), 99 },
	{ SNAPSHOT_CAPTURE, FIELD(snapshot_capture, work), 0 },
	{ SNAPSHOT_CAPTURE, FIELD(snapshot_capture, work), 1 }, /* a graph's */
	{ SNAPSHOT_STREAM, FIELD(snapshot_stream, lane), UINT32_MAX },
	{ SNAPSHOT_STREAM, FIELD(snapshot_stream, lane), 257 },
	{ SNAPSHOT_STREAM, FIELD(snapshot_stream, pos), 0 }, /* before what is over */
	{ SNAPSHOT_OP, FIELD(snapshot_op, addr), 0xdead },
	{ SNAPSHOT_OP, FIELD(snapshot_op, kind), OP_KIND_MAX },
	{ SNAPSHOT_OP, FIELD(snapshot_op, nth), (1ull << 62) + 1 },
	{ SNAPSHOT_ITEM, FIELD(snapshot_item, stream), 0xdead },
	{ SNAPSHOT_ITEM, FIELD(snapshot_item, lane), UINT32_MAX },
	{ SNAPSHOT_ITEM, FIELD(snapshot_item, lane), 99 },
	{ SNAPSHOT_ITEM, FIELD(snapshot_item, pos), 1 << 20 },
	{ SNAPSHOT_ITEM, FIELD(snapshot_item, pos), 0 },
	{ SNAPSHOT_CUDA_EVENT, FIELD(snapshot_cuda_event, stream), 0xdead },
	{ SNAPSHOT_CUDA_EVENT, FIELD(snapshot_cuda_event, pos), 1 << 20 },
	{ SNAPSHOT_CALL, FIELD(snapshot_call, kind), SYNC_COPY + 1 },
	{ SNAPSHOT_CALL, FIELD(snapshot_call, pos), 1 << 20 },
	{ SNAPSHOT_GPU, FIELD(snapshot_gpu, index), GPUS_MAX },
	{ SNAPSHOT_GPU, FIELD(snapshot_gpu, n_pids), GPU_PIDS_MAX + 1 },
	{ SNAPSHOT_GPU, FIELD(snapshot_gpu, answer), GPU_NO_ANSWER + 1 },
	{ SNAPSHOT_GPU, FIELD(snapshot_gpu, driver), GPU_NO_ANSWER + 1 },
	{ SNAPSHOT_QP, FIELD(snapshot_qp, qpn), 0 },
	{ SNAPSHOT_RANK_CLOCK, FIELD(snapshot_rank_clock, n_ops), (1ull << 62) + 1 },
	{ SNAPSHOT_RANK_CLOCK, FIELD(snapshot_rank_clock, device), 7 }, /* no member has it */
};
#define N_REFUSED (sizeof(refused) / sizeof(refused[0]))

/* --- from one model to another --- */

struct way {
	struct model *to;
	const struct change *change; /* of the first record of its kind that it changes; NULL none */
	bool is_refused, done;
	bool each_twice, each_short;
	size_t n_refused;
};

static int give(struct model *m, const struct event *e, const void *body, size_t bytes)
{
	struct event changed = *e;

	changed.snapshot.body = body;
	changed.snapshot.bytes = bytes;
	return model_apply(m, &changed);
}

static bool is_due(const struct way *w, const struct event *e)
{
	uint64_t was = 0;

	if (!w->change || w->done || e->kind != EV_SNAPSHOT || e->snapshot.what != w->change->what ||
	    w->change->at + w->change->bytes > e->snapshot.bytes)
		return false;
	memcpy(&was, (const char *)e->snapshot.body + w->change->at, w->change->bytes);
	if ((w->change->what == SNAPSHOT_COMM_INIT && w->change->at == offsetof(struct snapshot_comm_init, parent)) ||
	    (w->change->what == SNAPSHOT_CALL && w->change->at == offsetof(struct snapshot_call, pos)))
		return was != 0; /* one with a parent, one that waits for an event */
	return was != w->change->value;
}

static int pass(void *to, const struct event *e)
{
	static uint64_t body[WIRE_SIZE_MAX / 8];
	struct way *w = to;

	if (e->kind == EV_SNAPSHOT && e->snapshot.bytes)
		memcpy(body, e->snapshot.body, e->snapshot.bytes);
	if (is_due(w, e)) {
		memcpy((char *)body + w->change->at, &w->change->value, w->change->bytes);
		w->done = true;
		if (!w->is_refused)
			return give(w->to, e, body, e->snapshot.bytes);
		w->n_refused += give(w->to, e, body, e->snapshot.bytes) == EINVAL_IS;
	}
	if (w->each_short && e->kind == EV_SNAPSHOT && e->snapshot.bytes) {
		size_t least = e->snapshot.what == SNAPSHOT_MEMBER     ? offsetof(struct snapshot_member, stood)
			       : e->snapshot.what == SNAPSHOT_PROC     ? offsetof(struct snapshot_proc, disk)
			       : e->snapshot.what == SNAPSHOT_COMM     ? sizeof(struct snapshot_comm)
			       : e->snapshot.what == SNAPSHOT_OP       ? offsetof(struct snapshot_op, process_group_seq)
			       : e->snapshot.what == SNAPSHOT_CAPTURED ? sizeof(struct snapshot_captured_list)
								       : e->snapshot.bytes;

		assert_int_equal(give(w->to, e, body, least - 8), EINVAL_IS);
	}
	assert_int_equal(model_apply(w->to, e), 0);
	if (w->each_twice && e->kind == EV_SNAPSHOT &&
	    (e->snapshot.what == SNAPSHOT_OP || e->snapshot.what == SNAPSHOT_ITEM))
		assert_int_equal(model_apply(w->to, e), EINVAL_IS); /* it is there */
	return 0;
}

struct sum {
	size_t n, bytes;
	uint64_t h;
};

static int add(void *to, const struct event *e)
{
	struct sum *s = to;

	s->n++;
	if (e->kind != EV_SNAPSHOT)
		return 0;
	s->bytes += e->snapshot.bytes;
	for (size_t i = 0; i < e->snapshot.bytes; i++)
		s->h = (s->h ^ ((const uint8_t *)e->snapshot.body)[i]) * 0x100000001b3ull;
	return 0;
}

static struct sum sum_of(struct model *m)
{
	struct sum s = { 0 };

	assert_int_equal(model_snapshot(m, add, &s), 0);
	return s;
}

static void is_whole(struct model *m, struct model *from)
{
	struct sum a = sum_of(from), b = sum_of(m);

	assert_int_equal(a.n, b.n);
	assert_int_equal(a.bytes, b.bytes);
	assert_true(a.h == b.h);
}

static void test_nothing_is_left_of_what_is_refused(void **state)
{
	struct model *from = busy_model_new();

	(void)state;
	for (size_t i = 0; i < N_REFUSED; i++) {
		struct way w = { .to = model_new(), .change = &refused[i], .is_refused = true };

		assert_int_equal(model_snapshot(from, pass, &w), 0);
		if (!w.done || w.n_refused != 1)
			fail_msg("kind %d, byte %zu, %llu: %s", refused[i].what, refused[i].at,
				 (unsigned long long)refused[i].value, w.done ? "taken" : "no such record");
		is_whole(w.to, from);
		model_free(w.to);
	}
	model_free(from);
}

static void test_records_twice_or_cut_short(void **state)
{
	struct model *from = busy_model_new();

	(void)state;
	for (int cut = 0; cut < 2; cut++) {
		struct way w = { .to = model_new(), .each_twice = !cut, .each_short = cut };

		assert_int_equal(model_snapshot(from, pass, &w), 0);
		is_whole(w.to, from);
		model_free(w.to);
	}
	model_free(from);
}

/* A creation's callers stand behind it. */
static void test_a_caller_of_nothing(void **state)
{
	struct event e = { .kind = EV_SNAPSHOT, .tgid = 5, .tid = 5, .ts_ns = 1 };
	struct snapshot_caller body = { .since_ns = 1 };
	struct model *m = model_new();

	(void)state;
	e.snapshot.what = SNAPSHOT_CALLER;
	assert_int_equal(give(m, &e, &body, sizeof(body)), EINVAL_IS);
	model_free(m);
}

/* --- what is taken otherwise than it says --- */

struct found {
	struct change c;
	uint64_t value;
	bool any;
};

static int find(void *to, const struct event *e)
{
	struct found *f = to;

	if (f->any || e->kind != EV_SNAPSHOT || e->snapshot.what != f->c.what)
		return 0;
	f->any = true;
	memcpy(&f->value, (const char *)e->snapshot.body + f->c.at, f->c.bytes);
	return 0;
}

static uint64_t bits_of(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

#define HANDLE 0x1234abcd /* of a reduction that a program made, as versions before decision 831 kept it */

static void test_as_large_as_it_may_be(void **state)
{
	const struct {
		struct change given;
		uint64_t is;
	} cases[] = {
		{ { SNAPSHOT_SESSION, FIELD(snapshot_session, ops_kept), 1 }, 2 * MODEL_OPS_KEPT },
		{ { SNAPSHOT_SESSION, FIELD(snapshot_session, ops_kept), 2 * MODEL_OPS_KEPT + 1 }, 2 * MODEL_OPS_KEPT },
		{ { SNAPSHOT_SESSION, FIELD(snapshot_session, ops_kept), 2 * MODEL_OPS_KEPT - 1 },
		  2 * MODEL_OPS_KEPT - 1 },
		{ { SNAPSHOT_SESSION, FIELD(snapshot_session, ops_kept), MODEL_OPS_KEPT }, MODEL_OPS_KEPT },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, quota_bits), bits_of(NAN) }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, quota_bits), bits_of(-1) }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, quota_bits), bits_of(1e18) }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, quota_bits), bits_of(9e17) }, bits_of(9e17) },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, shed), 0xfff }, (1u << PROBE_GROUPS) - 1 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.period_ops), MODEL_OPS_KEPT + 1 }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.base), 0 }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.base), 4 }, 0 }, /* more than the period */
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.checked_n), 1 << 20 }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.found_n), 1 << 20 }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.from_n), 1 << 20 }, 0 },
		{ { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.searched_n), 1 << 20 }, 0 },
		{ { SNAPSHOT_OP, FIELD(snapshot_op, redop), HANDLE }, REDOP_OWN },
		{ { SNAPSHOT_CAPTURED, ITEM0(redop), HANDLE }, REDOP_OWN },
	};
	struct model *from = busy_model_new();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct way w = { .to = model_new(), .change = &cases[i].given };
		struct found f = { .c = cases[i].given };

		assert_int_equal(model_snapshot(from, pass, &w), 0);
		assert_true(w.done);
		assert_int_equal(model_snapshot(w.to, find, &f), 0);
		if (f.value != cases[i].is)
			fail_msg("case %zu: %llx", i, (unsigned long long)f.value);
		if (cases[i].given.at >= offsetof(struct snapshot_proc, steps) &&
		    cases[i].given.at < offsetof(struct snapshot_proc, n_gpu_spans)) {
			struct found clock = { .c = { SNAPSHOT_PROC, FIELD(snapshot_proc, steps.period_ops), 0 } };

			assert_int_equal(model_snapshot(w.to, find, &clock), 0);
			assert_int_equal(clock.value, 0); /* none of it is believed */
		}
		model_free(w.to);
	}
	model_free(from);
}

/* More was entered than was called: no more than was called. */
static void test_entered_is_called(void **state)
{
	const struct change member = { SNAPSHOT_MEMBER, FIELD(snapshot_member, entered_seq[SEQ_COLL]), 1 << 20 },
			    peer = { SNAPSHOT_P2P, FIELD(snapshot_p2p, entered[0]), 1 << 20 };
	struct model *from = busy_model_new();
	struct way w = { .to = model_new(), .change = &member };
	const struct member *mb;

	(void)state;
	assert_int_equal(model_snapshot(from, pass, &w), 0);
	for (mb = model_proc(w.to, job_pid(0))->members; mb; mb = mb->next_in_proc)
		assert_true(mb->entered_seq[SEQ_COLL] <= mb->next_seq[SEQ_COLL]);
	model_free(w.to);
	w = (struct way){ .to = model_new(), .change = &peer };
	assert_int_equal(model_snapshot(from, pass, &w), 0);
	for (mb = model_proc(w.to, job_pid(0))->members; mb; mb = mb->next_in_proc)
		for (int i = 0; i < mb->n_p2p; i++)
			assert_true(mb->p2p[i].entered[0] <= mb->p2p[i].next[0]);
	model_free(w.to);
	model_free(from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_left_of_what_is_refused),
		cmocka_unit_test(test_records_twice_or_cut_short),
		cmocka_unit_test(test_a_caller_of_nothing),
		cmocka_unit_test(test_as_large_as_it_may_be),
		cmocka_unit_test(test_entered_is_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
