/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy.c - see autopsy.h. Read autopsy_run() first. What one process shows is subject.c's work; here is when to
 * look, and when enough was seen.
 */
#include "autopsy/autopsy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "detect/transfer/proxy_thread.h"
#include "tracers/process/proc_fact.h"
#include "schemas/facts.h"
#include "session/targets.h"
#include "autopsy/subject.h"
#include "autopsy/subject_stacks.h"
#include "inspect/discover/discover.h"

#define BUSY_LIMIT_NS 90000000000ull /* as in a live trace: work is no hang that soon */

struct autopsy {
	const struct autopsy_cfg *cfg;
	struct pipeline *pipeline;
	struct target_set *set;
	struct subjects subjects;
	uint64_t first_ns;
	int n_unread;
};

static int emit(void *to, const struct wire_hdr *rec)
{
	return pipeline_feed(to, rec);
}

static struct wire_hdr fact_hdr(size_t size, uint8_t kind)
{
	return (struct wire_hdr){ .size = size, .tracer = WIRE_FACT, .kind = kind, .ts_ns = clock_monotonic_ns() };
}

/* Whatever stands still from one look to the next counts: half an interval is past no look, and before the next. */
static int start_tell(const struct autopsy *a)
{
	union {
		struct fact_start f;
		char bytes[sizeof(struct fact_start) + 256];
	} u = {};
	size_t len;

	gethostname(u.f.host, 255);
	len = strlen(u.f.host) + 1;
	u.f.hdr = fact_hdr((sizeof(u.f) + len + 7) & ~7ul, FACT_START);
	u.f.realtime_offset_ns = clock_realtime_offset_ns();
	u.f.dstate_limit_ns = u.f.hang_floor_ns = a->cfg->interval_ns / 2;
	u.f.busy_limit_ns = BUSY_LIMIT_NS;
	u.f.version = WIRE_VERSION;
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
	return !a->cfg->job || !strcmp(a->cfg->job, p->job);
}

static int subjects_choose(struct autopsy *a)
{
	size_t n;
	const struct target_proc *const *list;
	int err = target_set_scan(a->set);

	if (err)
		return err;
	list = target_set_list(a->set, &n);
	for (size_t i = 0; !err && i < n; i++)
		if (is_wanted(a, list[i]))
			err = subjects_add(&a->subjects, list[i]);
	return err;
}

static bool is_chosen_job(const struct autopsy *a, const char *job)
{
	for (size_t i = 0; i < a->subjects.n; i++)
		if (!strcmp(a->subjects.all[i].proc->job, job))
			return true;
	return false;
}

/* With --pid: ranks of the same job that were not asked for. They are there, and not gone. */
static int others_tell(struct autopsy *a)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(a->set, &n);
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		if (!is_wanted(a, list[i]) && list[i]->status != TARGET_GONE && !list[i]->is_child &&
		    list[i]->rank >= 0 && is_chosen_job(a, list[i]->job))
			err = proc_fact_emit(list[i], clock_monotonic_ns(), emit, a->pipeline);
	return err;
}

static int look(struct autopsy *a)
{
	int err = subjects_comms_look(&a->subjects, emit, a->pipeline);

	if (!err)
		err = subjects_proxies_look(&a->subjects, emit, a->pipeline);
	return err ? err : subjects_tasks_look(&a->subjects, emit, a->pipeline);
}

static int tick(struct autopsy *a)
{
	struct fact_tick f = { .hdr = fact_hdr(sizeof(f), FACT_TICK) };

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

/* A proxy that waits for a CPU makes the job creep: three looks tell whether it is so. */
static bool suspected(const struct autopsy *a)
{
	for (const struct comm *c = pipeline_model(a->pipeline)->comms; c; c = c->next)
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
			if (!mb->gone && proxy_thread_judge(mb) == PROXY_STARVED)
				return true;
	return false;
}

static void sleep_until(uint64_t ns)
{
	struct timespec at = { ns / 1000000000ull, ns % 1000000000ull };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* Reading the stacks may have taken longer than to the next look. */
static uint64_t next_look_ns(const struct autopsy *a, uint64_t last_ns)
{
	uint64_t now_ns = clock_monotonic_ns();

	return last_ns + a->cfg->interval_ns > now_ns ? last_ns + a->cfg->interval_ns : now_ns;
}

/* The stacks are read in the time that passes anyway. A verdict, or proof of life, ends it; else it may be a long step:
 * looked at for longer. */
static int looks(struct autopsy *a)
{
	uint64_t at_ns = a->first_ns;
	bool enough = false;
	int err = look(a);

	if (!err && a->cfg->stacks_ns)
		err = subjects_stacks_look(&a->subjects, pipeline_model(a->pipeline),
					   clock_monotonic_ns() + a->cfg->stacks_ns, emit, a->pipeline, &a->n_unread);
	while (!err && !enough) {
		at_ns = next_look_ns(a, at_ns);
		sleep_until(at_ns);
		err = look(a);
		if (!err)
			err = tick(a);
		enough = (autopsy_moved(pipeline_model(a->pipeline)) && !suspected(a)) ||
			 incidents_opened(pipeline_incidents(a->pipeline)) || !a->subjects.n_comms ||
			 clock_monotonic_ns() - a->first_ns >= a->cfg->patience_ns;
	}
	return err;
}

static int finish(const struct autopsy *a)
{
	struct fact_stop f = { .hdr = fact_hdr(sizeof(f), FACT_STOP), .records = pipeline_records(a->pipeline) };
	int err = emit(a->pipeline, &f.hdr);

	pipeline_flush(a->pipeline);
	return err;
}

static void result_fill(const struct autopsy *a, uint64_t find_ns, struct autopsy_result *ret)
{
	*ret = (struct autopsy_result){
		.n_procs = a->subjects.n,
		.n_comms = a->subjects.n_comms,
		.moved = autopsy_moved(pipeline_model(a->pipeline)),
		.found_ns = find_ns,
		.looked_ns = clock_monotonic_ns() - a->first_ns,
		.n_unread = a->n_unread,
	};
	for (size_t i = 0; i < a->subjects.n; i++) {
		const struct subject *s = &a->subjects.all[i];

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
			     .subjects = { .reader = readers[0], .readers = readers, .n_readers = n } };
	size_t n_filters;
	const struct target_filter *filters = session_target_filters(&n_filters);
	uint64_t begin_ns = clock_monotonic_ns(), found_ns;
	int err = target_set_new(readers[0], filters, n_filters, &a.set), end;

	if (err)
		return err;
	err = start_tell(&a);
	if (!err)
		err = subjects_choose(&a);
	if (!err)
		err = subjects_tell(&a.subjects, emit, p);
	if (!err && !cfg->raw)
		err = others_tell(&a);
	if (!err)
		err = subjects_comms_find(&a.subjects, cfg->find_ns);
	a.first_ns = found_ns = clock_monotonic_ns();
	if (!err && a.subjects.n)
		err = looks(&a);
	end = finish(&a);
	result_fill(&a, found_ns - begin_ns, ret);
	subjects_free(&a.subjects);
	target_set_free(a.set);
	return err ? err : end;
}
