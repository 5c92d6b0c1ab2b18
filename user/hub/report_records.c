/* SPDX-License-Identifier: Apache-2.0
 *
 * report_records.c - see report_records.h. Read report_feed() first. Times become those of the hub's axis; the start of
 * a process is its identity and is worked out once.
 */
#include "hub/report_records.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/larger.h"
#include "hub/record_feed.h"
#include "model/ahead.h"
#include "schemas/collector.h"
#include "tracers/nccl/wire/comm.h"
#include "tracers/process/life.h"
#include "tracers/process/proc_wire.h"

/* Of its host. Who ends is listed as dead; a new run of an agent takes a while to find who lives on a busy host. */
#define ABSENT_REPORTS 30
#define TOGETHER_NS 1000000000ull /* reads of one process' communicators that are one round */

struct fed_proc { /* by host and pid */
	struct keyed keyed;
	uint64_t start_raw_ns, start_ns;
	uint64_t identity;     /* hash; 0: not fed */
	uint64_t round_raw_ns; /* the newest read of its communicators that was fed */
	uint64_t nth;          /* report of the host that listed it */
	struct fed_halted halted;
	bool dead, absent, calls; /* absent: dead as it is listed no more; calls: of its newest report */
};

struct fed_node {
	struct keyed keyed; /* by number */
	const struct host *host;
	uint64_t nth; /* reports so far */
	bool known, silent, left_out, partial;
};

void fed_free(struct fed *f)
{
	keyed_free(&f->procs);
	keyed_free(&f->threads);
	keyed_free(&f->nodes);
	keyed_free(&f->gpus);
	keyed_free(&f->blocked);
}

bool fed_knows(const struct fed *f, const struct host *h)
{
	return keyed_find(&f->nodes, h->number, 0);
}

/* --- hosts --- */

static int node_feed(const struct feed_to *to)
{
	union {
		struct record_node f;
		char bytes[sizeof(struct record_node) + 272];
	} u = {};

	u.f.hdr = record_hdr(to, RECORD_NODE, sizeof(u.f), 0);
	u.f.node = to->host->number;
	u.f.clock_error_ns = ~0ull; /* of two hosts to a delay, which is not known */
	u.f.host_len = record_text_put(&u.f.hdr, sizeof(u) - 8, to->host->name);
	record_pad(&u.f.hdr);
	return pipeline_feed(to->pipeline, &u.f.hdr);
}

int host_heard_feed(struct fed *f, struct pipeline *p, const struct host *h, bool silent)
{
	struct feed_to to = { .pipeline = p, .host = h };
	struct fed_node *n = keyed_find(&f->nodes, h->number, 0);
	struct record_node_heard heard = { .hdr = record_hdr(&to, RECORD_NODE_HEARD, sizeof(heard), 0),
					   .silent = silent };
	int err;

	if (!n || (n->known && n->silent == silent))
		return 0;
	n->known = true;
	n->silent = silent;
	err = node_feed(&to);
	return err ? err : pipeline_feed(p, &heard.hdr);
}

static int partial_feed(const struct feed_to *to, struct fed_node *n, const Cluster__NodeReport *r)
{
	const struct record_partial partial = { .hdr = record_hdr(to, RECORD_PARTIAL, sizeof(partial), 0) };

	if (!r->partial || n->partial)
		return 0;
	n->partial = true;
	return pipeline_feed(to->pipeline, &partial.hdr);
}

/* --- processes --- */

static uint64_t identity_hash(const Cluster__Process *p)
{
	const char *texts[] = { p->job,        p->name,   p->container, p->pod,       p->pod_name,
				p->namespace_, p->cgroup, p->slurm_job, p->slurm_step };
	const uint64_t numbers[] = {
		p->start_ns, p->parent, p->ns_pid, (uint64_t)p->rank, (uint64_t)p->local_rank, (uint64_t)p->world_size,
		p->is_child, p->user,   p->netns
	};
	uint64_t h = 1;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		h = hash_text(h, texts[i] ? texts[i] : "");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		h = hash_mix(h, numbers[i]);
	return h ? h : 1;
}

static int identity_feed(const struct feed_to *to, const Cluster__Process *p, const struct fed_proc *fed,
			 const char *boot_id)
{
	union {
		struct record_proc f;
		char bytes[PROC_WIRE_BYTES];
	} u = {};
	struct event_proc who = {
		.start_ns = fed->start_ns,
		.parent_tgid = p->parent,
		.ns_pid = p->ns_pid,
		.rank = p->rank,
		.local_rank = p->local_rank,
		.world_size = p->world_size,
		.is_child = p->is_child,
		.rank_inherited = p->is_child,
		.user = p->user,
		.netns = p->netns,
		.job = p->job,
		.name = p->name,
		.container = p->container,
		.pod = p->pod,
		.pod_name = p->pod_name,
		.namespace = p->namespace_,
		.cgroup = p->cgroup,
		.boot_id = boot_id,
		.slurm_job = p->slurm_job,
		.slurm_step = p->slurm_step,
	};

	u.f.hdr = record_hdr(to, RECORD_PROC, sizeof(u.f), p->pid);
	proc_wire_write(&who, &u.f);
	return pipeline_feed(to->pipeline, &u.f.hdr);
}

static int exit_feed(const struct feed_to *to, uint32_t pid, uint64_t ns, uint32_t code, uint32_t signal)
{
	struct life_exit f = { .hdr = record_hdr(to, LIFE_EXIT, sizeof(f), pid),
			       .code = (int32_t)(code << 8 | signal),
			       .last = 1 };

	f.hdr.tracer = WIRE_LIFE;
	f.hdr.ts_ns = ns < f.hdr.ts_ns ? ns : f.hdr.ts_ns;
	return pipeline_feed(to->pipeline, &f.hdr);
}

/* --- communicators --- */

static int sample_feed(const struct feed_to *to, uint32_t pid, const Cluster__Member *mb, uint64_t raw_ns)
{
	struct record_comm_sample f = { .hdr = record_hdr(to, RECORD_COMM_SAMPLE, sizeof(f), pid) };

	f.hdr.ts_ns = host_time(to->host, raw_ns);
	f.body = (struct comm_sample){
		.comm = mb->addr,
		.hash = mb->hash,
		.rank = mb->rank,
		.nranks = mb->nranks,
		.device = mb->device,
		.n_counters = mb->n_counters,
		.async_result = mb->async_result,
		.init_state = mb->init_state,
		.abort = mb->aborted,
		.known = COMM_SAMPLE_ASYNC_RESULT | COMM_SAMPLE_INIT_STATE | COMM_SAMPLE_ABORT,
	};
	for (size_t i = 0; i < mb->n_counters; i++)
		f.body.counters[i] = mb->counters[i];
	return pipeline_feed(to->pipeline, &f.hdr);
}

/* All communicators as they were at one time. */
static int round_feed(const struct feed_to *to, const Cluster__Process *p, struct fed_proc *fed, uint64_t raw_ns)
{
	int err = 0;

	if (raw_ns <= fed->round_raw_ns)
		return 0;
	fed->round_raw_ns = raw_ns;
	for (size_t i = 0; i < p->n_comms && !err; i++) {
		const Cluster__Member *mb = p->comms[i];

		if (mb->has_sampled_age_ns && to->now_raw_ns - mb->sampled_age_ns + TOGETHER_NS >= raw_ns)
			err = sample_feed(to, p->pid, mb, raw_ns);
	}
	return err;
}

/* Two rounds: at the newest change of any counter all were as they are now, and at the newest read still. So it is
 * known since when they do not move, and that they do not. */
static int comms_feed(const struct feed_to *to, const Cluster__Process *p, struct fed_proc *fed)
{
	uint64_t changed_age = UINT64_MAX, read_age = UINT64_MAX;
	int err;

	for (size_t i = 0; i < p->n_comms; i++) {
		const Cluster__Member *mb = p->comms[i];

		if (!mb->has_sampled_age_ns || mb->same_age_ns > to->now_raw_ns)
			continue;
		changed_age = mb->same_age_ns < changed_age ? mb->same_age_ns : changed_age;
		read_age = mb->sampled_age_ns < read_age ? mb->sampled_age_ns : read_age;
	}
	if (read_age == UINT64_MAX)
		return 0;
	err = round_feed(to, p, fed, to->now_raw_ns - changed_age);
	return err ? err : round_feed(to, p, fed, to->now_raw_ns - read_age);
}

/* --- one process, all processes --- */

static void fed_begin(struct fed_proc *fed, const struct feed_to *to, const Cluster__Process *p)
{
	fed->dead = fed->absent = fed->calls = false;
	fed->identity = 0;
	fed->halted.n = 0;
	fed->round_raw_ns = 0;
	fed->start_raw_ns = p->start_ns;
	fed->start_ns = host_time(to->host, p->start_ns);
	fed->start_ns = fed->start_ns ? fed->start_ns : 1;
}

static int process_feed(struct fed *f, const struct feed_to *to, const Cluster__Process *p, struct fed_proc *fed,
			const Cluster__NodeReport *r)
{
	uint64_t identity = identity_hash(p);
	int err = 0;

	/* Another one of that pid, or one that lives after all. */
	if (!fed->start_ns || fed->start_raw_ns != p->start_ns || (fed->absent && !p->dead))
		fed_begin(fed, to, p);
	if (fed->dead)
		return 0;
	if (identity != fed->identity)
		err = identity_feed(to, p, fed, r->boot_id);
	fed->identity = identity;
	err = err ? err : comms_feed(to, p, fed);
	err = err ? err : threads_feed(&f->threads, &fed->halted, to, p, !r->left_out);
	err = err ? err : calls_feed(&fed->calls, to, p);
	if (err || !p->dead)
		return err;
	fed->dead = true;
	return exit_feed(to, p->pid, host_time(to->host, to->now_raw_ns - p->exit_age_ns), p->exit_code,
			 p->exit_signal);
}

static bool is_of(const Cluster__Process *p, const char *job)
{
	return !strcmp(p->job ? p->job : "", job);
}

/* Some process of this job computes on it. */
static bool gpu_is_of(const Cluster__Gpu *g, const Cluster__NodeReport *r, const char *job)
{
	for (size_t i = 0; i < r->n_processes; i++)
		for (size_t k = 0; k < g->n_pids && is_of(r->processes[i], job); k++)
			if (g->pids[k] == r->processes[i]->pid)
				return true;
	return false;
}

static int gpus_feed(struct fed *f, const struct feed_to *to, const Cluster__NodeReport *r, const char *job)
{
	int err = 0;

	for (size_t i = 0; i < r->n_gpus && !err; i++)
		if (gpu_is_of(r->gpus[i], r, job))
			err = gpu_feed(&f->gpus, to, r->gpus[i]);
	return err;
}

/* Its agent lists it no more, though it has room: it is gone, and how is not known. */
static int absent_feed(const struct fed *f, struct pipeline *p, struct fed_proc *fed)
{
	const struct fed_node *n = keyed_find(&f->nodes, fed->keyed.a, 0);
	struct feed_to to = { .pipeline = p, .host = n->host };
	int err;

	if (fed->dead || n->left_out || fed->nth + ABSENT_REPORTS > n->nth)
		return 0;
	fed->dead = fed->absent = true;
	err = node_feed(&to);
	return err ? err : exit_feed(&to, (uint32_t)fed->keyed.b, n->host->at_ns, 0, 0);
}

static bool proc_is_kept(void *entry, const void *arg)
{
	const struct fed_proc *fed = entry;

	return !fed->dead || model_proc(arg, fed->keyed.a << 32 | fed->keyed.b);
}

static bool thread_is_kept(void *entry, const void *arg)
{
	const struct proc *p = model_proc(arg, ((const struct keyed *)entry)->a);

	return p && !p->dead;
}

int fed_settle(struct fed *f, struct pipeline *p)
{
	int err = 0;

	for (struct fed_proc *fed = f->procs.all; fed && !err; fed = fed->keyed.next)
		err = absent_feed(f, p, fed);
	keyed_keep(&f->procs, proc_is_kept, pipeline_model(p));
	keyed_keep(&f->threads, thread_is_kept, pipeline_model(p));
	return err;
}

#define FETCHED_MAX 16

/* What the report will be added to lies all over the memory: it is fetched into the cache for all ranks at once. */
static void report_fetch(const struct fed *f, const struct feed_to *to, const Cluster__NodeReport *r)
{
	uint64_t keys[FETCHED_MAX];
	size_t n = smaller(r->n_processes, FETCHED_MAX);

	for (size_t i = 0; i < n; i++) {
		const Cluster__Process *p = r->processes[i];

		keys[i] = proc_key(to->host->number, p->pid);
		keyed_fetch(&f->procs, to->host->number, p->pid);
		for (size_t k = 0; k < p->n_threads; k++)
			keyed_fetch(&f->threads, keys[i], p->threads[k]->tid);
	}
	for (size_t i = 0; i < r->n_gpus; i++)
		keyed_fetch(&f->gpus, to->host->number, r->gpus[i]->index);
	model_fetch(pipeline_model(to->pipeline), keys, n);
}

int report_feed(struct fed *f, struct pipeline *p, const struct host *h, const Cluster__NodeReport *r, const char *job)
{
	struct feed_to to = { .pipeline = p, .host = h, .now_raw_ns = r->now_ns };
	struct fed_node *n = keyed_get(&f->nodes, h->number, 0, sizeof(*n));
	int err = n ? host_heard_feed(f, p, h, h->paused) : -ENOMEM;

	if (!err) {
		n->host = h;
		err = node_feed(&to);
	}
	err = err ? err : partial_feed(&to, n, r);
	report_fetch(f, &to, r);
	for (size_t i = 0; i < r->n_processes && !err; i++) {
		const Cluster__Process *one = r->processes[i];
		struct fed_proc *fed = is_of(one, job) ? keyed_get(&f->procs, h->number, one->pid, sizeof(*fed)) : NULL;

		if (!is_of(one, job))
			continue;
		if (!fed)
			return -ENOMEM;
		fed->nth = n->nth + 1;
		err = process_feed(f, &to, one, fed, r);
	}
	err = err ? err : gpus_feed(f, &to, r, job);
	err = err ? err : blocked_feed(&f->blocked, &to, r, job);
	if (err)
		return err;
	n->nth++;
	n->left_out = r->left_out != 0;
	return 0;
}
