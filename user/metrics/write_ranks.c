/* SPDX-License-Identifier: Apache-2.0
 *
 * write_ranks.c - jobs and ranks: steps, operations, waits, the main thread, CPU quota, files.
 */
#include "metrics/write.h"
#include "model/storage/storage.h"

#include <stdio.h>
#include <string.h>

#define JOBS_MAX 64

struct job_sum {
	const char *name;
	unsigned int ranks, seen, steps;
};

struct job_sums {
	struct job_sum all[JOBS_MAX];
	size_t n;
};

struct rank_name {
	const char *job;
	char rank[16];
};

static struct rank_name name_of(const struct tally_rank *r)
{
	struct rank_name n = { .job = r->job->shown };

	snprintf(n.rank, sizeof(n.rank), "%d", r->rank);
	return n;
}

static bool has_steps(const struct tally_rank *r)
{
	return rank_steps(r->proc, r->rank)->period_ops;
}

/* NULL: there are too many. */
static struct job_sum *job_of(struct job_sums *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->all[i].name, name))
			return &s->all[i];
	if (s->n == JOBS_MAX)
		return NULL;
	s->all[s->n] = (struct job_sum){ .name = name };
	return &s->all[s->n++];
}

static void job_count(struct job_sums *s, const struct tally_rank *r)
{
	struct job_sum *j = job_of(s, r->job->shown);

	if (!j)
		return;
	j->ranks++;
	j->seen += r->seen;
	j->steps += has_steps(r);
}

static void jobs_write(struct page *p, const struct job_sums *s)
{
	for (const struct job_sum *j = s->all; j < s->all + s->n; j++) {
		page_put(p, METRIC_JOB_RANKS, j->ranks, j->name);
		page_put(p, METRIC_JOB_RANKS_SEEN, j->seen, j->name);
		page_put(p, METRIC_STEPS_SEEN, j->steps, j->name);
	}
}

static void steps_write(struct page *p, const struct rank_name *n, const struct tally_rank *r)
{
	const struct steps *s = rank_steps(r->proc, r->rank);

	if (!has_steps(r))
		return;
	page_put(p, METRIC_STEPS, (double)s->n, n->job, n->rank);
	if (s->median_s > 0)
		page_put(p, METRIC_STEP_SECONDS, s->median_s, n->job, n->rank);
}

static void phases_write(struct page *p, const struct rank_name *n, const struct proc *proc)
{
	const struct phase_totals *t = &proc->phase_totals;

	if (proc->shared || !t->n_steps)
		return;
	for (int i = 0; i < PHASES_AND_OTHER; i++)
		page_put(p, METRIC_STEP_PHASES, (double)t->host_ns[i] * 1e-9, n->job, n->rank, step_phase_name(i));
	page_put(p, METRIC_STEP_PHASES, (double)t->gpu_wait_ns * 1e-9, n->job, n->rank, "gpu_wait");
}

static void probed_write(struct page *p, const struct rank_name *n, const struct tally_ops *o, const char *kind)
{
	page_put(p, METRIC_OPERATIONS, (double)o->ops, n->job, n->rank, kind);
	page_put(p, METRIC_OPERATION_BYTES, (double)o->bytes, n->job, n->rank, kind);
	page_put(p, METRIC_PEER_WAIT, (double)o->wait_ns * 1e-9, n->job, n->rank, kind);
	page_put(p, METRIC_LAST_ARRIVALS, (double)o->last, n->job, n->rank, kind);
}

static void operations_write(struct page *p, const struct rank_name *n, const struct tally_rank *r)
{
	for (enum tally_kind k = 0; k < TALLY_KINDS; k++) {
		const struct tally_ops *o = &r->of[k];
		const char *kind = tally_kind_name(k);

		if (o->any) {
			page_put(p, METRIC_COLLECTIVES, (double)o->collectives, n->job, n->rank, kind);
			page_put(p, METRIC_SEQUENCE_LAG, (double)o->lag, n->job, n->rank, kind);
		}
		if (o->ops)
			probed_write(p, n, o, kind);
	}
}

static void lateness_write(struct page *p, const struct rank_name *n, const struct histogram *h)
{
	if (histogram_n(h))
		page_put_histogram(p, METRIC_LATENESS, h, n->job, n->rank);
}

static void main_thread_write(struct page *p, const struct rank_name *n, const struct model *m, const struct proc *proc)
{
	const struct task *t = model_task(m, proc->key, proc->tgid);

	if (!t || !t->prev_seen_ns) /* of the first scan totals are not known yet */
		return;
	page_put(p, METRIC_MAIN_THREAD, (double)t->run_ns * 1e-9, n->job, n->rank, "running");
	page_put(p, METRIC_MAIN_THREAD, (double)t->wait_ns * 1e-9, n->job, n->rank, "runnable");
	page_put(p, METRIC_MAIN_THREAD, (double)t->disk_ns * 1e-9, n->job, n->rank, "blocked");
}

/* One histogram for each file system: the calls of all kinds, whose own share of the time is beside it. */
static void storage_calls_write(struct page *p, const struct rank_name *n, const struct proc *proc,
				const struct storage *first, const struct mount_parts *mount)
{
	uint32_t device = STORAGE_DEVICE(first->sum.at);
	struct histogram h = { .sum_ns = 0 };

	_Static_assert(STORAGE_BOUNDS == HISTOGRAM_BOUNDS, "lengths of calls are the buckets");
	for (const struct storage *s = proc->storage_of_rank; s != first; s = s->next)
		if (STORAGE_DEVICE(s->sum.at) == device) /* it is written already */
			return;
	for (const struct storage *s = first; s; s = s->next) {
		if (STORAGE_DEVICE(s->sum.at) != device)
			continue;
		h.sum_ns += s->sum.blocked_ns;
		for (int i = 0; i <= STORAGE_BOUNDS; i++)
			h.counts[i] += s->sum.by_length[i];
	}
	page_put_histogram(p, METRIC_STORAGE_CALLS, &h, n->job, n->rank, mount->point, mount->type);
}

static void storage_write(struct page *p, const struct rank_name *n, const struct proc *proc)
{
	struct mount_parts mount;

	for (const struct storage *s = proc->storage_of_rank; s; s = s->next) {
		mount_split(storage_mount(proc, s->sum.at), &mount);
		page_put(p, METRIC_STORAGE_BLOCKED, (double)s->sum.blocked_ns * 1e-9, n->job, n->rank, mount.point,
			 mount.type, storage_act_name(s->sum.at));
		storage_calls_write(p, n, proc, s, &mount);
	}
}

static void host_write(struct page *p, const struct rank_name *n, const struct model *m, const struct proc *proc)
{
	if (proc->shared) /* what its ranks take is not known apart */
		return;
	main_thread_write(p, n, m, proc);
	storage_write(p, n, proc);
	if (proc->throttle_seen_ns && proc->quota_cores > 0)
		page_put(p, METRIC_THROTTLED, (double)proc->throttled_ns * 1e-9, n->job, n->rank);
	if (proc->io_seen_ns)
		page_put(p, METRIC_IO, (double)proc->io_bytes, n->job, n->rank);
}

static void rank_write(struct page *p, const struct tally_rank *r, const struct model *m)
{
	struct rank_name n = name_of(r);

	steps_write(p, &n, r);
	phases_write(p, &n, r->proc);
	operations_write(p, &n, r);
	lateness_write(p, &n, &r->lateness);
	if (r->moved_ns)
		page_put(p, METRIC_LAST_COLLECTIVE, (double)(r->moved_ns + m->realtime_offset_ns) * 1e-9, n.job,
			 n.rank);
	host_write(p, &n, m, r->proc);
}

void write_ranks(struct page *p, const struct tally *t, const struct model *m)
{
	struct job_sums jobs = { .n = 0 };

	for (const struct tally_rank *r = tally_next(t, NULL); r; r = tally_next(t, r)) {
		job_count(&jobs, r);
		rank_write(p, r, m);
	}
	jobs_write(p, &jobs);
}
