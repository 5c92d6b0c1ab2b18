/* SPDX-License-Identifier: Apache-2.0
 *
 * test_snapshot_again.c - nothing of a snapshot gets lost on the way: a model that was given one writes the same
 * records again. Of jobs cut anywhere, and of a model in which every kind of thing is under way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/snapshot/snapshot.h"
#include "pipeline/snapshot_record.h"
#include "schemas/collector.h"
#include "schemas/snapshot.h"
#include "tests/unit/job/busy_model.h"
#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

static struct model *m;

/* --- what is written --- */

struct record {
	int what;
	size_t size;
	char *bytes;
};

struct written {
	size_t n, kinds[SNAPSHOT_WHAT_MAX];
	struct record *all;
};

static int keep(void *to, const struct event *e)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} raw;
	struct written *w = to;
	int size = snapshot_encode(e, &raw.h);

	assert_true(size > 0);
	if (e->kind == EV_SNAPSHOT && e->snapshot.what == SNAPSHOT_COMM) { /* told by any of its members */
		raw.h.tgid = raw.h.tid = 0;
		((struct snapshot_comm *)((struct record_snapshot *)&raw + 1))->addr = 0;
	}
	w->all = realloc(w->all, (w->n + 1) * sizeof(*w->all));
	assert_non_null(w->all);
	w->all[w->n].what = e->kind == EV_SNAPSHOT ? e->snapshot.what : 0;
	w->kinds[w->all[w->n].what]++;
	w->all[w->n].size = size;
	w->all[w->n].bytes = malloc(size);
	memcpy(w->all[w->n++].bytes, &raw, size);
	return 0;
}

static struct written written_of(struct model *from)
{
	struct written w = { 0 };

	assert_int_equal(model_snapshot(from, keep, &w), 0);
	return w;
}

static void written_free(struct written *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->all[i].bytes);
	free(w->all);
}

/* Communicators stand in the order in which their hash was known, and that is not told. */
static int by_bytes(const void *x, const void *y)
{
	const struct record *a = x, *b = y;
	size_t n = a->size < b->size ? a->size : b->size;
	int d = a->what != b->what ? a->what - b->what : memcmp(a->bytes, b->bytes, n);

	return d ? d : (a->size > b->size) - (a->size < b->size);
}

static void again_is_the_same(struct model *from, size_t kinds[SNAPSHOT_WHAT_MAX])
{
	struct model_copy c;
	struct written a, b;

	model_copy(from, &c);
	a = written_of(from);
	b = written_of(c.m);
	qsort(a.all, a.n, sizeof(*a.all), by_bytes);
	qsort(b.all, b.n, sizeof(*b.all), by_bytes);
	for (size_t i = 0; i < a.n && i < b.n; i++) {
		if (a.all[i].what != b.all[i].what || a.all[i].size != b.all[i].size)
			printf("record %zu: of %d, then of %d\n", i, a.all[i].what, b.all[i].what);
		assert_int_equal(a.all[i].what, b.all[i].what);
		assert_int_equal(a.all[i].size, b.all[i].size);
		if (memcmp(a.all[i].bytes, b.all[i].bytes, a.all[i].size))
			printf("record %zu, of %d\n", i, a.all[i].what);
		assert_memory_equal(a.all[i].bytes, b.all[i].bytes, a.all[i].size);
	}
	assert_int_equal(a.n, b.n);
	if (kinds)
		memcpy(kinds, a.kinds, sizeof(a.kinds));
	written_free(&a);
	written_free(&b);
	model_free(c.m);
	model_copy_free(&c);
}

static void test_jobs_cut_anywhere(void **state)
{
	static const int layouts[][3] = { { 1, 2, 1 }, { 2, 2, 2 }, { 1, 4, 2 } };
	static const enum fault_kind kinds[] = { FAULT_HANG, FAULT_KILL, FAULT_INIT, FAULT_NONE };
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 12; i++) {
		const int *l = layouts[i % 3];
		struct job_opts o = job_usual(l[0], l[1], l[2], random_next(&rng));
		struct job *j;
		size_t cut;

		o.run_ahead = random_next(&rng) % 2;
		o.grouped = random_next(&rng) % 2;
		o.attach_step = i % 4 ? 0 : 3;
		o.faults[0] = (struct fault){ kinds[i % 4], 1, 12, 0, JOB_FOREVER, 0 };
		j = job_new(&o);
		cut = j->n_events / 4 + random_next(&rng) % (3 * j->n_events / 4);
		printf("layout %d, fault %d, ahead %d, grouped %d, cut %zu\n", i % 3, o.faults[0].kind, o.run_ahead,
		       o.grouped, cut);
		m = model_new();
		for (size_t k = 0; k < cut; k++)
			assert_int_equal(model_apply(m, &j->events[k]), 0);
		while (model_next_ended(m))
			;
		again_is_the_same(m, NULL);
		model_free(m);
		job_free(j);
	}
}

static void test_everything_under_way(void **state)
{
	size_t kinds[SNAPSHOT_WHAT_MAX];

	(void)state;
	m = busy_model_new();
	again_is_the_same(m, kinds);
	for (int what = SNAPSHOT_SESSION; what < SNAPSHOT_WHAT_MAX; what++) {
		if (!kinds[what])
			printf("none of %d\n", what);
		assert_true(kinds[what] > 0);
	}
	model_free(m);
}

/* --- what a copy knows --- */

static void task_same(const struct task *a, const struct task *b)
{
	const struct task_stack *x = &a->stack, *y = &b->stack;

	assert_true(a->tid == b->tid && a->state == b->state && a->blocked == b->blocked && a->since_ns == b->since_ns);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->file, b->file);
	assert_true(x->ns == y->ns && x->sampled == y->sampled);
	if (!x->ns)
		return;
	assert_string_equal(x->wait, y->wait);
	assert_string_equal(x->file, y->file);
	assert_string_equal(x->kernel, y->kernel);
	assert_string_equal(x->frames, y->frames);
	assert_string_equal(x->python, y->python);
	assert_string_equal(x->native, y->native);
	assert_string_equal(x->end, y->end);
	assert_true(a->wait.ns == b->wait.ns && a->wait.kind == b->wait.kind);
	assert_string_equal(a->wait.what, b->wait.what);
}

static void proc_same(const struct proc *a, const struct proc *b)
{
	const struct task *x = a->tasks, *y = b->tasks;

	assert_true(a->start_ns == b->start_ns && a->parent_tgid == b->parent_tgid && a->ns_pid == b->ns_pid &&
		    a->first_ns == b->first_ns);
	assert_true(a->rank == b->rank && a->local_rank == b->local_rank && a->world_size == b->world_size &&
		    a->is_child == b->is_child && a->dead == b->dead);
	assert_string_equal(a->job->name, b->job->name);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->container, b->container);
	assert_string_equal(a->pod, b->pod);
	assert_string_equal(a->pod_name, b->pod_name);
	assert_string_equal(a->namespace, b->namespace);
	assert_string_equal(a->slurm_job, b->slurm_job);
	assert_string_equal(a->slurm_step, b->slurm_step);
	assert_string_equal(a->node->boot_id, b->node->boot_id);
	assert_memory_equal(a->call_ns, b->call_ns, sizeof(a->call_ns));
	assert_memory_equal(a->gpu_spans, b->gpu_spans, sizeof(a->gpu_spans));
	for (; x && y; x = x->next, y = y->next)
		task_same(x, y);
	assert_true(!x && !y);
}

static void test_a_copy_knows_who_all_are(void **state)
{
	const struct proc *x, *y;
	const struct member *mb;
	struct model_copy c;

	(void)state;
	m = busy_model_new();
	model_copy(m, &c);
	for (x = m->procs, y = c.m->procs; x && y; x = x->next, y = y->next)
		proc_same(x, y);
	assert_true(!x && !y);
	assert_true(m->start_ns == c.m->start_ns && m->start_realtime_ns == c.m->start_realtime_ns &&
		    m->realtime_offset_ns == c.m->realtime_offset_ns && m->lost == c.m->lost &&
		    m->last_loss_ns == c.m->last_loss_ns && c.m->resumed_ns == m->now_ns);
	assert_true(m->hang_floor_ns == c.m->hang_floor_ns && m->dstate_limit_ns == c.m->dstate_limit_ns &&
		    m->busy_limit_ns == c.m->busy_limit_ns && m->by_session && c.m->by_session && !c.m->by_autopsy);
	assert_string_equal(m->host, c.m->host);
	for (mb = model_proc(m, job_pid(2))->members; mb; mb = mb->next_in_proc) {
		const struct member *other = model_proc(c.m, job_pid(2))->members;

		while (other->addr != mb->addr)
			other = other->next_in_proc;
		assert_memory_equal(other->samples.counters, mb->samples.counters, sizeof(mb->samples.counters));
		assert_memory_equal(other->entered_seq, mb->entered_seq, sizeof(mb->entered_seq));
		assert_true(other->device == mb->device && other->rank == mb->rank &&
			    other->comm->hash == mb->comm->hash);
		assert_memory_equal(other->comm->highest_seq, mb->comm->highest_seq, sizeof(mb->comm->highest_seq));
	}
	assert_memory_equal(m->qps.newest->gid, c.m->qps.newest->gid, 16);
	assert_memory_equal(&m->qps.newest->totals, &c.m->qps.newest->totals, sizeof(m->qps.newest->totals));
	assert_memory_equal(&m->nodes[0]->gpus.all->procs.pids, &c.m->nodes[0]->gpus.all->procs.pids,
			    sizeof(m->nodes[0]->gpus.all->procs.pids));
	model_free(c.m);
	model_copy_free(&c);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_cut_anywhere),
		cmocka_unit_test(test_everything_under_way),
		cmocka_unit_test(test_a_copy_knows_who_all_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
