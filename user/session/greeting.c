/* SPDX-License-Identifier: Apache-2.0
 *
 * greeting.c - see greeting.h.
 */
#include "session/greeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define JOBS_MAX 64 /* of one host, living and dead; more are traced and not greeted */
#define JOBS_SHOWN 5

struct job {
	char name[sizeof(((struct target_proc *)0)->job)];
	int said, now, before; /* traced ranks: as last said, at this scan, at the scan before */
};

struct greeting {
	const struct session_cfg *cfg;
	const struct session_targets *targets;
	struct job jobs[JOBS_MAX];
	int n, n_nameless; /* nameless: processes that were traced at the start and are no ranks */
};

struct greeting *greeting_new(const struct session_cfg *cfg, const struct session_targets *targets)
{
	struct greeting *g = calloc(1, sizeof(*g));

	if (g)
		*g = (struct greeting){ .cfg = cfg, .targets = targets };
	return g;
}

void greeting_free(struct greeting *g)
{
	free(g);
}

static struct job *job_of(struct greeting *g, const char *name)
{
	for (int i = 0; i < g->n; i++)
		if (!strcmp(g->jobs[i].name, name))
			return &g->jobs[i];
	if (g->n == JOBS_MAX)
		return NULL;
	snprintf(g->jobs[g->n].name, sizeof(g->jobs[0].name), "%s", name);
	return &g->jobs[g->n++];
}

static bool is_rank(const struct target_proc *p)
{
	return p->rank >= 0 && !p->is_child && p->status != TARGET_GONE;
}

static void ranks_count(struct greeting *g, const struct target_proc *const *list, size_t n)
{
	struct job *job;

	g->n_nameless = 0;
	for (int i = 0; i < g->n; i++) {
		g->jobs[i].before = g->jobs[i].now;
		g->jobs[i].now = 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (!session_targets_traces(g->targets, list[i]->tgid))
			continue;
		g->n_nameless += list[i]->rank < 0 && list[i]->n_libs;
		job = is_rank(list[i]) ? job_of(g, list[i]->job) : NULL;
		if (job)
			job->now++;
	}
}

static const char *verb(const struct greeting *g)
{
	return g->cfg->tier == TIER_WATCH ? "watching" : "attached to";
}

/* `when`: " in 0.2 s", or "". */
static void job_say(const struct greeting *g, struct job *job, const char *when)
{
	job->said = job->now;
	log_info("%s %d rank%s%s%s%s", verb(g), job->now, job->now > 1 ? "s" : "", *job->name ? " of job " : "",
		 job->name, when);
}

/* "a, b and 3 more": the jobs of the host. */
static void jobs_text(const struct target_proc *const *list, size_t n, char *to, size_t size)
{
	const char *last = NULL;
	int found = 0;
	size_t at = 0;

	*to = 0;
	for (size_t i = 0; i < n; i++) { /* sorted by job */
		if (!is_rank(list[i]) || !*list[i]->job || (last && !strcmp(last, list[i]->job)))
			continue;
		last = list[i]->job;
		if (found++ < JOBS_SHOWN && at < size)
			at += snprintf(to + at, size - at, "%s%s", at ? ", " : "", last);
	}
	if (found > JOBS_SHOWN && at < size)
		snprintf(to + at, size - at, " and %d more", found - JOBS_SHOWN);
}

static void none_say(const struct greeting *g, const struct target_proc *const *list, size_t n)
{
	char jobs[1024];

	jobs_text(list, n, jobs, sizeof(jobs));
	if (g->cfg->job)
		log_warn("no process of job '%s' runs here (%s%s): waiting for it", g->cfg->job,
			 *jobs ? "jobs: " : "no other job does either", jobs);
	else if (g->n_nameless || g->cfg->n_pids)
		log_info("%s %d process%s, no rank among them yet", verb(g), g->n_nameless,
			 g->n_nameless == 1 ? "" : "es");
	else if (!g->cfg->child)
		log_info("no training process runs here yet: waiting for one");
}

void greeting_start(struct greeting *g, const struct target_proc *const *list, size_t n, uint64_t took_ns)
{
	char when[32];

	snprintf(when, sizeof(when), " in %.1f s", took_ns * 1e-9);
	ranks_count(g, list, n);
	for (int i = 0; i < g->n; i++)
		job_say(g, &g->jobs[i], when);
	if (!g->n)
		none_say(g, list, n);
}

void greeting_scan(struct greeting *g, const struct target_proc *const *list, size_t n)
{
	ranks_count(g, list, n);
	for (int i = 0; i < g->n; i++) {
		struct job *job = &g->jobs[i];

		if (job->now > job->said && job->now == job->before)
			job_say(g, job, "");
		else if (job->now < job->said)
			job->said = job->now;
	}
}
