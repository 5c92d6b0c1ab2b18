/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - see report.h. Two bytes of input can make a hundred of memory: what unpacks takes its memory from one
 * block, which is full at some time, and is freed at once.
 */
#include "cluster/report.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "finding.h"
#include "model/gpu.h"

/* --- memory of one message: behind the root, which is the first that is asked for --- */

struct arena {
	size_t used, size;
	char *bytes;
	bool full;
};

static void *arena_alloc(void *of, size_t size)
{
	struct arena *a = of;
	size_t at = a->used, end = at + ((size + 15) & ~(size_t)15);

	if (size > a->size || end > a->size) {
		a->full = true;
		return NULL;
	}
	a->used = end;
	return a->bytes + at;
}

static void arena_free(void *of, void *p)
{
	(void)of;
	(void)p;
}

/* --- what cannot be --- */

static bool text_fits(const char *text)
{
	return !text || strnlen(text, REPORT_TEXT_MAX) < REPORT_TEXT_MAX;
}

static bool texts_fit(const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!text_fits(texts[i]))
			return false;
	return true;
}

static bool ages_fit(const uint64_t *ages, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ages[i] > REPORT_AGE_MAX_NS)
			return false;
	return true;
}

static bool rank_fits(int32_t rank, int32_t size)
{
	return rank >= -1 && size >= -1 && rank < (int32_t)REPORT_RANKS_MAX && size <= (int32_t)REPORT_RANKS_MAX &&
	       (size <= 0 || rank < size);
}

static bool member_fits(const Cluster__Member *mb)
{
	const uint64_t ages[] = { mb->sampled_age_ns,   mb->same_age_ns,        mb->before_age_ns, mb->entered_age_ns,
				  mb->completed_age_ns, mb->completed_error_ns, mb->ended_ns,      mb->ended_error_ns };

	for (size_t i = 0; i < mb->n_peers; i++)
		if (mb->peers[i]->rank >= REPORT_RANKS_MAX || mb->peers[i]->sends > REPORT_AGE_MAX_NS ||
		    mb->peers[i]->recvs > REPORT_AGE_MAX_NS)
			return false;
	return mb->has_addr && mb->has_hash && rank_fits(mb->rank, mb->nranks) && mb->n_counters <= 8 &&
	       mb->n_peers <= REPORT_CALLS_MAX && mb->entered <= REPORT_AGE_MAX_NS &&
	       ages_fit(ages, sizeof(ages) / sizeof(ages[0])) && mb->same_age_ns >= mb->sampled_age_ns;
}

static bool wait_fits(const Cluster__WaitsFor *w)
{
	const uint64_t ages[] = { w->read_age_ns, w->since_age_ns, w->length_ns, w->left_ns };
	const char *texts[] = { w->what, w->who, w->activity };

	return ages_fit(ages, 4) && texts_fit(texts, 3);
}

static bool thread_fits(const Cluster__Thread *t)
{
	const uint64_t ages[] = { t->state_age_ns, t->seen_age_ns, t->run_ns,    t->wait_ns,     t->sleep_ns,
				  t->disk_ns,      t->stopped_ns,  t->at_age_ns, t->stack_age_ns };
	const char *texts[] = { t->name, t->wchan, t->syscall, t->file, t->python, t->native, t->stack_end };

	return t->tid && t->state <= 6 && ages_fit(ages, sizeof(ages) / sizeof(ages[0])) &&
	       texts_fit(texts, sizeof(texts) / sizeof(texts[0])) && (!t->waits_for || wait_fits(t->waits_for));
}

static bool call_fits(const Cluster__Call *c)
{
	bool is_p2p = c->kind == OP_SEND || c->kind == OP_RECV;

	return c->id && c->comm && c->kind < OP_KIND_MAX && is_p2p == (c->peer >= 0) && rank_fits(c->peer, -1) &&
	       rank_fits(c->root, -1) && c->seq <= REPORT_AGE_MAX_NS && c->age_ns <= REPORT_AGE_MAX_NS;
}

static bool calls_fit(const Cluster__Process *p)
{
	if (p->n_calls > REPORT_CALLS_MAX || p->n_waits > REPORT_CALLS_MAX)
		return false;
	for (size_t i = 0; i < p->n_calls; i++)
		if (!call_fits(p->calls[i]))
			return false;
	for (size_t i = 0; i < p->n_waits; i++)
		if (!p->waits[i]->tid || p->waits[i]->age_ns > REPORT_AGE_MAX_NS)
			return false;
	return true;
}

static bool process_fits(const Cluster__Process *p)
{
	const char *texts[] = { p->job,        p->name,   p->container, p->pod,       p->pod_name,
				p->namespace_, p->cgroup, p->slurm_job, p->slurm_step };

	if (!p->pid || !rank_fits(p->rank, p->world_size) || !rank_fits(p->local_rank, -1) ||
	    !texts_fit(texts, sizeof(texts) / sizeof(texts[0])) || p->exit_age_ns > REPORT_AGE_MAX_NS ||
	    p->n_comms > REPORT_PROCESSES_MAX || p->n_threads > REPORT_PROCESSES_MAX || !calls_fit(p))
		return false;
	for (size_t i = 0; i < p->n_comms; i++)
		if (!member_fits(p->comms[i]))
			return false;
	for (size_t i = 0; i < p->n_threads; i++)
		if (!thread_fits(p->threads[i]))
			return false;
	return true;
}

static bool subject_fits(const Cluster__Subject *s)
{
	const char *texts[] = { s->type, s->device, s->address, s->netdev, s->a, s->b };

	return texts_fit(texts, sizeof(texts) / sizeof(texts[0])) && s->n_pids <= 2 && s->n_ranks == s->n_pids &&
	       rank_fits(s->rank, -1);
}

static bool evidence_fits(const Cluster__Finding *f)
{
	for (size_t i = 0; i < f->n_evidence; i++) {
		const Cluster__Evidence *e = f->evidence[i];

		if (!e->name || !text_fits(e->name) || !text_fits(e->text) || (e->has_number && !isfinite(e->number)))
			return false;
	}
	return f->n_evidence <= FINDING_EVIDENCE_MAX;
}

static bool finding_fits(const Cluster__Finding *f)
{
	const char *texts[] = { f->id, f->kind, f->hang_class, f->cause, f->severity, f->caused_by, f->summary, f->op };

	for (size_t i = 0; i < f->n_ranks; i++)
		if (!rank_fits(f->ranks[i], -1))
			return false;
	return f->id && *f->id && f->kind && texts_fit(texts, sizeof(texts) / sizeof(texts[0])) &&
	       f->since_age_ns <= REPORT_AGE_MAX_NS && f->confidence_percent <= 100 &&
	       f->n_ranks <= FINDING_RANKS_MAX && f->n_pids == f->n_ranks && f->n_ranks_all <= REPORT_RANKS_MAX &&
	       rank_fits(f->peer, -1) && (!f->subject || subject_fits(f->subject)) && evidence_fits(f);
}

static bool gpu_fits(const Cluster__Gpu *g)
{
	return text_fits(g->uuid) && text_fits(g->name) && g->sampled_age_ns <= REPORT_AGE_MAX_NS &&
	       g->window_ns <= REPORT_AGE_MAX_NS && g->index < GPUS_MAX && g->n_pids <= GPU_PIDS_MAX &&
	       g->n_memory_mib <= GPU_PIDS_MAX && g->n_sm_percent <= GPU_PIDS_MAX;
}

static bool report_fits(const Cluster__NodeReport *r)
{
	const char *texts[] = { r->host, r->boot_id, r->program, r->settings_error };

	if (!r->host || !*r->host || !r->boot_id || !*r->boot_id || !texts_fit(texts, 4) || !r->agent || !r->sequence ||
	    !r->now_ns || r->now_ns > REPORT_AGE_MAX_NS || r->agent > r->now_ns)
		return false;
	for (size_t i = 0; i < r->n_processes; i++)
		if (!process_fits(r->processes[i]))
			return false;
	for (size_t i = 0; i < r->n_gpus; i++)
		if (!gpu_fits(r->gpus[i]))
			return false;
	for (size_t i = 0; i < r->n_findings; i++)
		if (!finding_fits(r->findings[i]))
			return false;
	return true;
}

/* --- in --- */

static enum report_fault report_judge(const Cluster__NodeReport *r)
{
	if (!r->has_version || !r->version)
		return REPORT_MALFORMED;
	if (r->version > REPORT_VERSION)
		return REPORT_NEWER;
	if (r->n_processes > REPORT_PROCESSES_MAX)
		return REPORT_OVERSIZED;
	return report_fits(r) ? REPORT_GOOD : REPORT_IMPOSSIBLE;
}

enum report_fault report_unpack(const void *data, size_t len, Cluster__NodeReport **ret)
{
	struct arena a = { .size = REPORT_MEMORY_LEAST + REPORT_MEMORY_TIMES * len };
	ProtobufCAllocator allocator = { arena_alloc, arena_free, &a };
	enum report_fault fault;

	*ret = NULL;
	a.bytes = len <= REPORT_BYTES_MAX ? malloc(a.size) : NULL;
	if (!a.bytes)
		return REPORT_OVERSIZED;
	*ret = cluster__node_report__unpack(&allocator, len, data);
	fault = *ret ? report_judge(*ret) : a.full ? REPORT_OVERSIZED : REPORT_MALFORMED;
	if (fault) {
		free(a.bytes);
		*ret = NULL;
	}
	return fault;
}

/* The root is what is allocated first: the block begins with it. */
void report_free(Cluster__NodeReport *r)
{
	free(r);
}

const char *report_fault_text(enum report_fault fault)
{
	static const char *const texts[] = { "good", "oversized", "malformed", "of a newer version", "impossible" };

	return fault < REPORT_FAULTS ? texts[fault] : "?";
}

/* --- out --- */

/* One step: false where nothing is left that could go. */
static bool report_shorten(Cluster__NodeReport *r)
{
	size_t most = 1;
	Cluster__Process *p = NULL;

	r->has_left_out = 1;
	r->left_out++;
	if (r->n_findings)
		return r->n_findings--;
	if (r->n_gpus)
		return r->n_gpus--;
	for (size_t i = 0; i < r->n_processes; i++)
		if (r->processes[i]->n_threads > most) {
			p = r->processes[i];
			most = p->n_threads;
		}
	if (p)
		return p->n_threads--;
	return r->n_processes && r->n_processes--;
}

size_t report_pack(Cluster__NodeReport *r, void *to)
{
	while (cluster__node_report__get_packed_size(r) > REPORT_BYTES_MAX && report_shorten(r))
		;
	return cluster__node_report__pack(r, to);
}
