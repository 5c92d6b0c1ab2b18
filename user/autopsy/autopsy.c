/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy.c - see autopsy.h. Read autopsy_run() first.
 *
 * procs.c reads what each process shows; this file decides when to sample, and when enough was seen.
 */
#include "autopsy/autopsy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "detect/transfer/proxy_thread.h"
#include "tracers/process/proc_record.h"
#include "schemas/collector.h"
#include "session/targets.h"
#include "autopsy/gpus.h"
#include "autopsy/procs.h"
#include "autopsy/procs_stacks.h"
#include "inspect/discover/discover.h"

#define BUSY_LIMIT_NS 90000000000ull /* as in a live trace: a rank that works is not hung before that */

struct autopsy {
	const struct autopsy_cfg *cfg;
	struct pipeline *pipeline;
	struct target_set *set;
	struct autopsy_procs procs;
	struct autopsy_gpus gpus;
	uint64_t first_ns;
	int n_unread;
};

static int emit(void *to, const struct wire_hdr *rec)
{
	return pipeline_feed(to, rec);
}

static struct wire_hdr record_hdr(size_t size, uint8_t kind)
{
	return (struct wire_hdr){ .size = size, .tracer = WIRE_COLLECTOR, .kind = kind, .ts_ns = clock_monotonic_ns() };
}

/* Whatever does not move from one sample to the next counts: half an interval lies between two samples. */
static int start_emit(const struct autopsy *a)
{
	union {
		struct record_start f;
		char bytes[sizeof(struct record_start) + 256];
	} u = {};
	size_t len;

	gethostname(u.f.host, 255);
	len = strlen(u.f.host) + 1;
	u.f.hdr = record_hdr((sizeof(u.f) + len + 7) & ~7ul, RECORD_START);
	u.f.realtime_offset_ns = clock_realtime_offset_ns();
	u.f.dstate_limit_ns = u.f.hang_floor_ns = a->cfg->interval_ns / 2;
	u.f.busy_limit_ns = BUSY_LIMIT_NS;
	u.f.version = WIRE_VERSION;
	u.f.by = START_BY_AUTOPSY;
	u.f.host_len = len;
	return emit(a->pipeline, &u.f.hdr);
}

static bool descends_from(const struct autopsy *a, const struct target_proc *p)
{
	for (int depth = 0; p && depth < 64; depth++) {
		for (int i = 0; i < a->cfg->n_pids; i++)
			if (a->cfg->pids[i] == p->tgid)
				return true;
		p = p->parent_tgid ? target_set_find(a->set, p->parent_tgid) : NULL;
	}
	return false;
}

static bool is_wanted(const struct autopsy *a, const struct target_proc *p)
{
	if (p->status == TARGET_GONE)
		return false;
	if (a->cfg->n_pids)
		return descends_from(a, p);
	return !a->cfg->job || target_proc_of_job(p, a->cfg->job);
}

static bool is_sampled(const void *of, const struct target_proc *p)
{
	return is_wanted(of, p);
}

static void gpus_open(struct autopsy *a)
{
	const struct sampler_ctx ctx = {
		.reader = a->procs.reader,
		.targets = a->set,
		.is_traced = is_sampled,
		.is_traced_of = a,
		.emit = emit,
		.emit_to = a->pipeline,
		.start_ns = clock_monotonic_ns(),
	};

	autopsy_gpus_open(&a->gpus, &ctx);
}

static int procs_choose(struct autopsy *a)
{
	size_t n;
	const struct target_proc *const *list;
	int err = target_set_scan(a->set);

	err = err ? err : target_set_name_jobs(a->set);
	if (err)
		return err;
	list = target_set_list(a->set, &n);
	for (size_t i = 0; !err && i < n; i++)
		if (is_wanted(a, list[i]))
			err = procs_add(&a->procs, list[i]);
	return err;
}

/* By the name that distinguishes it from another job of its launcher's name. */
static bool is_chosen_job(const struct autopsy *a, const char *job)
{
	for (size_t i = 0; i < a->procs.n; i++)
		if (!strcmp(a->procs.all[i].proc->place->job, job))
			return true;
	return false;
}

/* With --pid: a rank of the same job outside of --pid. */
static bool is_other(const struct autopsy *a, const struct target_proc *p)
{
	return !is_wanted(a, p) && p->status != TARGET_GONE && !p->is_child && p->rank >= 0 &&
	       is_chosen_job(a, p->place->job);
}

/* Emits them, so that the model knows that they exist. In a merge their hosts' own files may have them: that some are
 * left out is enough. */
static int others_emit(struct autopsy *a)
{
	const struct record_partial partial = { .hdr = record_hdr(sizeof(partial), RECORD_PARTIAL) };
	size_t n, n_others = 0;
	const struct target_proc *const *list = target_set_list(a->set, &n);
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		if (!is_other(a, list[i]))
			continue;
		if (!n_others++)
			err = emit(a->pipeline, &partial.hdr);
		if (!err && !a->cfg->raw)
			err = proc_record_emit(list[i], clock_monotonic_ns(), emit, a->pipeline);
	}
	return err;
}

static int sample(struct autopsy *a)
{
	int err = procs_sample_comms(&a->procs, emit, a->pipeline);

	if (!err)
		err = procs_sample_proxies(&a->procs, emit, a->pipeline);
	return err ? err : procs_sample_threads(&a->procs, emit, a->pipeline);
}

static int tick(struct autopsy *a)
{
	struct record_tick f = { .hdr = record_hdr(sizeof(f), RECORD_TICK) };

	return emit(a->pipeline, &f.hdr);
}

bool autopsy_moved(const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
			if (mb->samples.moved)
				return true;
	return false;
}

/* A proxy that waits for a CPU slows the job down; three samples show whether it does. */
static bool suspected(const struct autopsy *a)
{
	for (const struct comm *c = pipeline_model(a->pipeline)->comms; c; c = c->next)
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
			if (!mb->gone && proxy_thread_judge(mb) == PROXY_STARVED)
				return true;
	return false;
}

/* Reading the stacks may have taken longer than an interval. */
static uint64_t next_sample_ns(const struct autopsy *a, uint64_t last_ns)
{
	uint64_t now_ns = clock_monotonic_ns();

	return last_ns + a->cfg->interval_ns > now_ns ? last_ns + a->cfg->interval_ns : now_ns;
}

/* Reads the stacks between the first two samples. Ends with a warning or with proof of life; otherwise a long step is
 * possible, so it samples until the timeout: what is only noted (a rank that waits for its GPU) may turn out to be a
 * kernel that does not end. */
static int samples_take(struct autopsy *a)
{
	uint64_t at_ns = a->first_ns;
	bool enough = false;
	int err = sample(a);

	if (!err && a->cfg->stacks_ns)
		err = procs_read_stacks(&a->procs, pipeline_model(a->pipeline),
					clock_monotonic_ns() + a->cfg->stacks_ns, emit, a->pipeline, &a->n_unread);
	while (!err && !enough) {
		at_ns = next_sample_ns(a, at_ns);
		err = autopsy_gpus_poll_until(&a->gpus, at_ns);
		if (!err)
			err = sample(a);
		if (!err)
			err = tick(a);
		enough = (autopsy_moved(pipeline_model(a->pipeline)) && !suspected(a)) ||
			 incidents_worst(pipeline_incidents(a->pipeline)) >= SEVERITY_WARNING || !a->procs.n_comms ||
			 clock_monotonic_ns() - a->first_ns >= a->cfg->timeout_ns;
	}
	return err;
}

static int finish(const struct autopsy *a)
{
	struct record_stop f = { .hdr = record_hdr(sizeof(f), RECORD_STOP), .records = pipeline_records(a->pipeline) };
	int err = emit(a->pipeline, &f.hdr);

	pipeline_flush(a->pipeline);
	return err;
}

static void result_fill(const struct autopsy *a, uint64_t find_ns, struct autopsy_result *ret)
{
	*ret = (struct autopsy_result){
		.n_procs = a->procs.n,
		.n_comms = a->procs.n_comms,
		.moved = autopsy_moved(pipeline_model(a->pipeline)),
		.found_ns = find_ns,
		.sampled_ns = clock_monotonic_ns() - a->first_ns,
		.n_unread = a->n_unread,
	};
	for (size_t i = 0; i < a->procs.n; i++) {
		const struct autopsy_proc *s = &a->procs.all[i];

		ret->n_ranks += !s->proc->is_child && (s->proc->rank >= 0 || s->comms.n_places);
		ret->n_denied += s->comms.denied;
		ret->n_no_layout += s->comms.no_layout;
		ret->n_held += s->comms.held;
		ret->n_uncounted += s->comms.uncounted;
		ret->n_cut += s->comms.cut;
	}
}

int autopsy_run(const struct autopsy_cfg *cfg, struct reader *const *readers, size_t n, struct pipeline *p,
		struct autopsy_result *ret)
{
	struct autopsy a = { .cfg = cfg,
			     .pipeline = p,
			     .procs = { .reader = readers[0], .readers = readers, .n_readers = n } };
	size_t n_filters;
	const struct target_filter *filters = session_target_filters(&n_filters);
	uint64_t begin_ns = clock_monotonic_ns(), found_ns;
	int err = target_set_new(readers[0], filters, n_filters, &a.set), end;

	if (err)
		return err;
	err = start_emit(&a);
	if (!err)
		err = procs_choose(&a);
	if (!err)
		err = procs_emit(&a.procs, emit, p);
	if (!err)
		err = others_emit(&a);
	if (!err)
		err = procs_comms_find(&a.procs, cfg->find_ns);
	a.first_ns = found_ns = clock_monotonic_ns();
	if (!err && a.procs.n) {
		gpus_open(&a);
		err = samples_take(&a);
		autopsy_gpus_close(&a.gpus);
	}
	end = finish(&a);
	result_fill(&a, found_ns - begin_ns, ret);
	procs_free(&a.procs);
	target_set_free(a.set);
	return err ? err : end;
}
