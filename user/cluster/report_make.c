/* SPDX-License-Identifier: Apache-2.0
 *
 * report_make.c - see report_make.h. A message is built in one block that is used again each second; what finds no room
 * in it is left out and counted. Read report_make() first.
 */
#include "cluster/report_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "cluster/report_part.h"

#define FINDINGS_MAX 64

struct known_proc { /* by pid */
	struct keyed keyed;
	struct event_proc who; /* of its texts the cgroup alone: */
	char *cgroup;          /* its own, while the model's go */
};

struct open_finding {
	char id[FINDING_ID_MAX], caused_by[FINDING_ID_MAX];
	struct finding f;
	char summary[512];
};

struct report_maker {
	struct report_block block;
	uint64_t made_ns; /* the report before */
	struct keyed_table procs;
	struct open_finding findings[FINDINGS_MAX];
	size_t n_findings;
};

struct report_maker *report_maker_new(void)
{
	struct report_maker *r = calloc(1, sizeof(*r));

	if (r && !report_block_init(&r->block)) {
		free(r);
		return NULL;
	}
	return r;
}

static void finding_remove(struct report_maker *r, struct open_finding *o)
{
	finding_drop(&o->f);
	*o = r->findings[--r->n_findings];
}

void report_maker_free(struct report_maker *r)
{
	if (!r)
		return;
	for (struct known_proc *k = r->procs.all; k; k = k->keyed.next)
		free(k->cgroup);
	keyed_free(&r->procs);
	while (r->n_findings)
		finding_remove(r, &r->findings[r->n_findings - 1]);
	report_block_free(&r->block);
	free(r);
}

int report_maker_event(struct report_maker *r, const struct event *e)
{
	struct known_proc *k = e->kind == EV_PROC ? keyed_get(&r->procs, e->tgid, 0, sizeof(*k)) : NULL;
	char *cgroup = k ? strdup(e->proc.cgroup ? e->proc.cgroup : "") : NULL;

	if (e->kind != EV_PROC)
		return 0;
	if (!cgroup)
		return -ENOMEM;
	free(k->cgroup); /* lint: with a cgroup there is a k */
	k->cgroup = cgroup;
	k->who = (struct event_proc){ .user = e->proc.user, .netns = e->proc.netns, .cgroup = cgroup };
	return 0;
}

/* --- findings --- */

static struct open_finding *finding_open(struct report_maker *r, const char *id)
{
	for (size_t i = 0; i < r->n_findings; i++)
		if (!strcmp(r->findings[i].id, id))
			return &r->findings[i];
	if (r->n_findings == FINDINGS_MAX)
		return NULL;
	r->findings[r->n_findings] = (struct open_finding){ 0 };
	return &r->findings[r->n_findings++];
}

void report_maker_incident(struct report_maker *r, const struct incident *i)
{
	struct open_finding *o = finding_open(r, i->id);

	if (!o) {
		r->block.left_out++;
		return;
	}
	if (i->phase == PHASE_CLOSE) {
		finding_remove(r, o);
		return;
	}
	if (finding_keep(&o->f, &i->f)) {
		finding_remove(r, o);
		r->block.left_out++;
		return;
	}
	memcpy(o->id, i->id, sizeof(o->id));
	memcpy(o->caused_by, i->caused_by, sizeof(o->caused_by));
	report_summary(i, o->summary, sizeof(o->summary));
}

static void findings_put(struct report_maker *r, Cluster__NodeReport *to, const struct model *m)
{
	to->findings = report_list(&r->block, r->n_findings);
	for (size_t i = 0; to->findings && i < r->n_findings; i++) {
		const struct open_finding *o = &r->findings[i];
		Cluster__Finding *f = report_finding(&r->block, &o->f, m->now_ns);

		if (!f)
			return;
		f->id = (char *)o->id;
		f->caused_by = *o->caused_by ? (char *)o->caused_by : NULL;
		f->summary = (char *)o->summary;
		to->findings[to->n_findings++] = f;
	}
}

/* --- processes --- */

static bool lives(void *entry, const void *arg)
{
	struct known_proc *k = entry;

	if (model_proc(arg, k->keyed.a))
		return true;
	free(k->cgroup);
	return false;
}

static bool is_reported(const struct proc *p)
{
	if (!p->is_child)
		return p->rank >= 0 || p->members;
	for (const struct task *t = p->tasks; t; t = t->next) /* lint: never NULL */
		if (t->blocked || t->state == TASK_STOPPED)
			return true;
	return false;
}

static void processes_put(struct report_maker *r, Cluster__NodeReport *to, const struct model *m)
{
	static const struct event_proc unknown = { .rank = -1, .local_rank = -1, .world_size = -1 };
	size_t n = 0;

	for (const struct proc *p = m->procs; p; p = p->next)
		n += is_reported(p);
	n = n < REPORT_PROCESSES_MAX ? n : REPORT_PROCESSES_MAX;
	to->processes = report_list(&r->block, n);
	for (const struct proc *p = m->procs; p && to->processes; p = p->next) {
		struct known_proc *k = is_reported(p) ? keyed_find(&r->procs, p->tgid, 0) : NULL;
		Cluster__Process *one;

		if (!is_reported(p))
			continue;
		one = to->n_processes < n ? report_process(&r->block, p, k ? &k->who : &unknown, m) : NULL;
		if (one)
			to->processes[to->n_processes++] = one;
		else
			r->block.left_out++;
	}
}

static void gpus_put(struct report_maker *r, Cluster__NodeReport *to, const struct model *m)
{
	const struct node *n = model_node(m, 0);

	to->gpus = report_list(&r->block, GPUS_MAX);
	for (const struct gpu *g = n->gpus.all; g && to->gpus && to->n_gpus < GPUS_MAX; g = g->next) {
		Cluster__Gpu *one = report_gpu(&r->block, g, m->now_ns);

		if (one)
			to->gpus[to->n_gpus++] = one;
	}
}

Cluster__NodeReport *report_make(struct report_maker *r, const struct model *m)
{
	static const Cluster__NodeReport none = CLUSTER__NODE_REPORT__INIT;
	const struct node *own = model_node(m, 0);
	Cluster__NodeReport *to;

	keyed_keep(&r->procs, lives, m);
	report_block_reset(&r->block);
	r->block.since_ns = r->made_ns;
	r->made_ns = m->now_ns;
	to = report_alloc(&r->block, sizeof(*to)); /* the first always fits */
	*to = none;
	to->has_version = to->has_now_ns = to->has_lost_records = to->has_hang_limit_ns = to->has_busy_limit_ns = 1;
	to->version = REPORT_VERSION;
	to->host = (char *)(m->host && *m->host ? m->host : "host");
	to->boot_id = (char *)(own && *own->boot_id ? own->boot_id : "unknown");
	to->now_ns = m->now_ns;
	to->lost_records = m->lost;
	to->hang_limit_ns = m->hang_floor_ns;
	to->busy_limit_ns = m->busy_limit_ns;
	to->has_partial = to->partial = own && own->partial;
	processes_put(r, to, m);
	gpus_put(r, to, m);
	findings_put(r, to, m);
	to->left_out = r->block.left_out;
	to->has_left_out = to->left_out != 0;
	return to;
}
