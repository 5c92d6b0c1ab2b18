/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_snapshot.c - a model that is given the state of another one, as records, and then what comes, says the
 * same: the same operations with the same numbers and ends, and the same verdicts, wherever the stream was cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "pipeline/decode.h"
#include "tests/unit/job/job_script.h"
#include "model/snapshot/snapshot.h"
#include "tests/unit/job/model_copy.h"
#include "pipeline/snapshot_record.h"
#include "schemas/snapshot.h"

struct side {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t ops_hash, n_ops;
	struct intern *strings;
};

static void op_note(struct side *s, const struct op *op)
{
	uint64_t h = s->ops_hash;

	h = hash_mix(hash_mix(hash_mix(h, op->id), op->seq), op->member->comm->hash);
	h = hash_mix(hash_mix(hash_mix(h, op->kind), op->end_ns), op->end_error_ns);
	h = hash_mix(hash_mix(hash_mix(h, op->enqueue_ns), op->start_bound_ns), op->nth);
	s->ops_hash = hash_mix(h, op->seq_from_attach);
	s->n_ops++;
}

static void give(struct side *s, const struct event *e)
{
	const struct op *op;

	assert_int_equal(model_apply(s->m, e), 0);
	while ((op = model_next_ended(s->m)))
		op_note(s, op);
	if (e->kind == EV_TICK)
		assert_int_equal(detectors_tick(s->d, s->m, &s->list), 0);
}

/* What is over is not reported. */
static const struct comm *comm_live(const struct comm *c)
{
	for (; c; c = c->next)
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
			if (!mb->gone)
				return c;
	return NULL;
}

static const struct member *member_live(const struct member *mb)
{
	while (mb && mb->gone)
		mb = mb->next_in_proc;
	return mb;
}

static const struct comm *comm_of(const struct model *m, const struct member *by)
{
	const struct proc *p = model_proc(m, by->proc->tgid);

	for (const struct member *mb = p ? p->members : NULL; mb; mb = mb->next_in_proc)
		if (!mb->gone && mb->addr == by->addr)
			return mb->comm;
	return NULL;
}

static void comms_same(const struct model *a, const struct model *b)
{
	for (const struct comm *x = comm_live(a->comms); x; x = comm_live(x->next)) {
		const struct member *by = x->members;
		const struct comm *y;

		while (by->gone)
			by = by->next_in_comm;
		y = comm_of(b, by);
		assert_non_null(y);
		assert_true(x->hash == y->hash && x->nranks == y->nranks && x->n_complete == y->n_complete);
		assert_true(x->lag_p999_s == y->lag_p999_s && x->duration_p999_s == y->duration_p999_s);
		assert_int_equal(comm_lag_limit_ns(a, x), comm_lag_limit_ns(b, y));
		assert_memory_equal(x->highest_seq, y->highest_seq, sizeof(x->highest_seq));
	}
}

static void procs_same(const struct model *a, const struct model *b)
{
	const struct proc *x = a->procs, *y = b->procs;

	for (; x && y; x = x->next, y = y->next) {
		const struct member *mx = member_live(x->members), *my = member_live(y->members);

		assert_true(x->tgid == y->tgid && x->rank == y->rank && x->n_ops == y->n_ops &&
			    x->last_call_ns == y->last_call_ns);
		assert_true(x->steps->period_ops == y->steps->period_ops && x->steps->n == y->steps->n);
		assert_string_equal(x->job->shown, y->job->shown);

		for (; mx; mx = member_live(mx->next_in_proc), my = member_live(my->next_in_proc)) {
			assert_non_null(my);
			assert_true(mx->addr == my->addr && mx->comm->hash == my->comm->hash && mx->rank == my->rank);
			assert_memory_equal(mx->next_seq, my->next_seq, sizeof(mx->next_seq));
			assert_memory_equal(mx->entered_seq, my->entered_seq, sizeof(mx->entered_seq));
			assert_true(mx->base_seq == my->base_seq && mx->seq_known == my->seq_known &&
				    mx->n_pending == my->n_pending);
		}
	}
	assert_true(!x && !y);
}

static const struct finding *hang_of(const struct side *s)
{
	for (size_t i = 0; i < s->list.n; i++)
		if (s->list.items[i].kind == FINDING_HANG)
			return &s->list.items[i];
	return NULL;
}

static void side_free(struct side *s)
{
	finding_list_free(&s->list);
	detectors_free(s->d);
	model_free(s->m);
}

/* In the middle of a restart, transfers of those that are through name peers of which nothing is reported. */
static bool comm_half_gone(const struct model *m)
{
	for (const struct comm *c = m->comms; c; c = c->next) {
		size_t n = 0, gone = 0;

		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm, n++)
			gone += mb->gone;
		if (gone && gone < n)
			return true;
	}
	return false;
}

/* Cuts the job's events at `cut`; from there on both sides must agree. True: both found the hang. */
static bool play_cut(const struct job *j, size_t cut)
{
	struct side a = { .m = model_new(), .d = detectors_new() }, b = { .d = detectors_new() };
	struct model_copy copy;
	bool hang;

	for (size_t i = 0; i < cut; i++) {
		give(&a, &j->events[i]);
		cut += i + 1 == cut && cut < j->n_events && comm_half_gone(a.m);
	}
	model_copy(a.m, &copy);
	b.m = copy.m;
	comms_same(a.m, b.m);
	procs_same(a.m, b.m);
	a.ops_hash = a.n_ops = 0;
	for (size_t i = cut; i < j->n_events; i++) {
		give(&a, &j->events[i]);
		give(&b, &j->events[i]);
		if (j->events[i].kind == EV_TICK)
			assert_true(!hang_of(&a) == !hang_of(&b));
	}
	comms_same(a.m, b.m);
	procs_same(a.m, b.m);
	assert_int_equal(a.n_ops, b.n_ops);
	assert_true(a.ops_hash == b.ops_hash);
	hang = hang_of(&a) && hang_of(&b);
	if (hang) {
		assert_int_equal(hang_of(&a)->ranks[0], hang_of(&b)->ranks[0]);
		assert_int_equal(hang_of(&a)->class, hang_of(&b)->class);
		assert_true(hang_of(&a)->comm == hang_of(&b)->comm && hang_of(&a)->seq == hang_of(&b)->seq &&
			    hang_of(&a)->since_ns == hang_of(&b)->since_ns);
	}
	side_free(&a);
	side_free(&b);
	model_copy_free(&copy);
	return hang;
}

static void test_the_cut_is_not_seen(void **state)
{
	static const int layouts[][3] = { { 1, 2, 1 }, { 1, 8, 1 }, { 2, 2, 2 }, { 1, 4, 2 }, { 2, 4, 1 } };
	uint64_t rng = test_seed();
	int n_hangs = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		const int *l = layouts[random_next(&rng) % 5];
		struct job_opts o = job_usual(l[0], l[1], l[2], random_next(&rng));
		enum fault_kind kinds[] = { FAULT_HANG, FAULT_STOP, FAULT_KILL, FAULT_NONE, FAULT_RESTART };
		struct job *j;
		size_t cut;

		o.run_ahead = random_next(&rng) % 2;
		o.grouped = random_next(&rng) % 2;
		o.attach_step = random_next(&rng) % 4 ? 0 : 3;
		o.faults[0] = (struct fault){ kinds[random_next(&rng) % 5],
					      random_next(&rng) % o.ranks,
					      10 + random_next(&rng) % 6,
					      0,
					      JOB_FOREVER,
					      random_next(&rng) % 4 };
		if (o.faults[0].kind == FAULT_RESTART)
			o.faults[0].seconds = 2;
		j = job_new(&o);
		cut = random_next(&rng) % j->n_events;
		printf("tp=%d dp=%d pp=%d fault=%d ahead=%d grouped=%d attach=%d cut=%zu of %zu\n", o.tp, o.dp, o.pp,
		       o.faults[0].kind, o.run_ahead, o.grouped, o.attach_step, cut, j->n_events);
		n_hangs += play_cut(j, cut);
		job_free(j);
	}
	assert_true(n_hangs > 8);
}

/* A record is cut to 8 KiB, text by text, and what is left can be read. */
static void test_long_texts_fit(void **state)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} raw;
	struct event e = { .kind = EV_SNAPSHOT, .tgid = 5, .tid = 6, .ts_ns = 7 }, out[DECODE_EVENTS_MAX];
	struct snapshot_task body = { .state = TASK_DISK, .at_ns = 9 };
	struct intern *strings = intern_new();
	char *text = malloc(20001);

	(void)state;
	memset(text, 'x', 20000);
	text[20000] = '\0';
	e.snapshot.what = SNAPSHOT_TASK;
	e.snapshot.body = &body;
	e.snapshot.bytes = sizeof(body);
	for (int i = 0; i < SNAPSHOT_TEXTS; i++)
		e.snapshot.text[i] = i == 0 ? "python" : text;
	assert_int_equal(snapshot_encode(&e, &raw.h), WIRE_SIZE_MAX);
	assert_int_equal(decode_record(&raw.h, strings, out), 1);
	assert_true(out[0].tgid == 5 && out[0].tid == 6 && out[0].ts_ns == 7 && out[0].snapshot.what == SNAPSHOT_TASK);
	assert_memory_equal(out[0].snapshot.body, &body, sizeof(body));
	assert_string_equal(out[0].snapshot.text[0], "python");
	assert_string_equal(out[0].snapshot.text[6], "");
	intern_free(strings);
	free(text);
}

/* What a foreign file may claim: refused, and the model stays whole. */
static int gpu_again(void *to, const struct event *e)
{
	union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} u;
	struct side *s = to;
	struct event all[DECODE_EVENTS_MAX];

	assert_true(snapshot_encode(e, &u.h) > 0);
	assert_int_equal(decode_record(&u.h, s->strings, all), 1);
	return model_apply(s->m, &all[0]);
}

static void test_gpus_are_reported(void **state)
{
	struct side a = { .m = model_new() }, b = { .m = model_new(), .strings = intern_new() };
	struct event e = { .kind = EV_GPU_DEVICE, .ts_ns = 7 };
	const struct gpu *g;

	(void)state;
	e.gpu_device = (struct gpu_device){ .index = 3, .pci = 0x1300, .pcie_width_max = 16, .n_nvlinks = 18 };
	e.gpu_name = "one";
	e.gpu_uuid = "two";
	assert_int_equal(model_apply(a.m, &e), 0);
	e = (struct event){ .kind = EV_GPU_PROCS, .ts_ns = 8 };
	e.gpu_procs.index = 3;
	e.gpu_procs.n = 1;
	e.gpu_procs.pids[0] = 4711;
	assert_int_equal(model_apply(a.m, &e), 0);
	e = (struct event){ .kind = EV_GPU_STATE, .ts_ns = 9 };
	e.gpu_state.index = 3;
	e.gpu_state.answer = GPU_IS_LOST;
	e.gpu_state.since_ns = 9;
	assert_int_equal(model_apply(a.m, &e), 0);
	assert_int_equal(model_snapshot(a.m, gpu_again, &b), 0);
	g = node_gpu_at(b.m->nodes[0], 0x1300);
	assert_non_null(g);
	assert_int_equal(g->device.index, 3);
	assert_string_equal(g->uuid, "two");
	assert_int_equal(g->procs.n, 1);
	assert_int_equal(g->procs.pids[0], 4711);
	assert_int_equal(g->answer, GPU_IS_LOST);
	assert_int_equal(g->answer_ns, 9);
	model_free(a.m);
	model_free(b.m);
	intern_free(b.strings);
}

static void test_nonsense_is_refused(void **state)
{
	struct event e = { .kind = EV_SNAPSHOT, .tgid = 1, .tid = 1, .ts_ns = 1 };
	struct {
		struct snapshot_captured_list l;
		struct snapshot_captured c;
	} list = { .l = { .work = 1, .n = 9 } };
	struct snapshot_work work = { .work = 2, .n_lanes = 1 };
	struct snapshot_stream stream = { .handle = 3, .pos = 4, .done_pos = 5 };
	struct snapshot_op op = { .addr = 8, .id = 1 };
	struct model *m = model_new();
	const struct {
		int what;
		const void *body;
		size_t bytes;
	} wrong[] = {
		{ 0, &op, sizeof(op) },
		{ SNAPSHOT_WHAT_MAX, &op, sizeof(op) },
		{ SNAPSHOT_OP, &op, sizeof(op) - 8 },
		{ SNAPSHOT_OP, &op, sizeof(op) },
		{ SNAPSHOT_WORK, &work, sizeof(work) },
		{ SNAPSHOT_CAPTURED, &list, sizeof(list) },
		{ SNAPSHOT_STREAM, &stream, sizeof(stream) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		e.snapshot.what = wrong[i].what;
		e.snapshot.body = wrong[i].body;
		e.snapshot.bytes = wrong[i].bytes;
		assert_int_equal(model_apply(m, &e), -22);
	}
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_cut_is_not_seen),
		cmocka_unit_test(test_gpus_are_reported),
		cmocka_unit_test(test_long_texts_fit),
		cmocka_unit_test(test_nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
