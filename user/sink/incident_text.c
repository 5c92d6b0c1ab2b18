/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_text.c - see incident_text.h.
 */
#include "sink/incident_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "remedy.h"
#include "sink/incident_parts.h"

static const char RED[] = "\033[1;31m", YELLOW[] = "\033[33m", GREEN[] = "\033[32m", DIM[] = "\033[2m",
		  RESET[] = "\033[0m";

/* --- the block --- */

void text_label(struct text *t, const char *label)
{
	text_colour(t, DIM);
	text_add(t, "  %-7s ", label);
	text_colour(t, RESET);
}

const char *incident_job(const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;
	const char *job = NULL;

	if (f->job && *f->job)
		return f->job;
	if (p && *p->job->shown)
		return p->job->shown;
	for (const struct comm *c = f->comm ? m->comms : NULL; c; c = c->next)
		if (c->hash == f->comm && c->members && *c->members->proc->job->shown)
			return c->members->proc->job->shown;
	for (p = m->procs; p; p = p->next) {
		if (!*p->job->shown)
			continue;
		if (job && strcmp(job, p->job->shown))
			return NULL;
		job = p->job->shown;
	}
	return job;
}

const struct gpu *incident_gpu(const struct finding *f, const struct model *m)
{
	const struct subject *s = &f->subject;
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

	if (s->type == SUBJECT_GPU && s->node != SUBJECT_NO_NODE)
		return node_gpu(model_node(m, s->node), s->gpu);
	return p ? proc_gpu(p) : NULL;
}

static void place_add(struct text *t, int *n, const char *what, const char *name)
{
	if (!name || !*name)
		return;
	text_add(t, "%s%s ", (*n)++ ? ", " : "", what);
	text_foreign(t, name, NULL);
}

static bool several_jobs(const struct model *m)
{
	const char *first = NULL;

	for (const struct proc *p = m->procs; p; p = p->next) {
		if (p->is_child || !p->members || !*p->job->shown)
			continue;
		if (first && strcmp(first, p->job->shown))
			return true;
		first = p->job->shown;
	}
	return false;
}

void incident_text_place(struct text *t, const struct incident *i, const struct model *m)
{
	int n = 0;

	if (several_jobs(m))
		place_add(t, &n, "job", incident_job(&i->f, m));
	if (m->merged && m->n_nodes > 1)
		place_add(t, &n, "host", i->f.host);
	text_add(t, n ? ": " : "");
}

/* "pid 812, GPU 1, rank 1 of 2 in 0x...", and the thread, where that is one. Else what the process has. */
static void text_who(struct text *t, int *n, const struct finding *f, const struct model *m)
{
	static const char *const pids[2][2] = { { "pid ", "pids " }, { ", pid ", ", pids " } };
	const struct gpu *g = f->n_ranks > 1 ? NULL : incident_gpu(f, m);
	const char *member = finding_text(f, EVIDENCE_MEMBER), *thread = finding_text(f, EVIDENCE_THREAD);
	uint32_t tid = (uint32_t)finding_number(f, EVIDENCE_TID);

	if (member) {
		text_add(t, "%s%s", (*n)++ ? ", " : "", member);
		if (tid)
			place_add(t, n, "thread", thread);
		text_add(t, tid ? " (tid %u)" : "", tid);
		return;
	}
	if (g)
		text_add(t, "%sGPU %u", (*n)++ ? ", " : "", g->device.index);
	for (int i = 0; i < f->n_ranks && f->pids[i]; i++)
		text_add(t, "%s%u", i ? ", " : pids[(*n)++ > 0][f->n_ranks > 1], f->pids[i]);
}

/* As the timeline counts. */
static void text_step(struct text *t, const struct proc *p, int rank)
{
	uint64_t step;

	if (rank_step(p, rank, &step))
		text_add(t, ", step %" PRIu64 " of this trace", step);
}

/* job, host, GPU, pid, step, pod, Slurm job */
static void text_where(struct text *t, const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks == 1 ? model_proc(m, finding_proc(f, 0)) : NULL;
	int n = 0;

	text_label(t, "where");
	place_add(t, &n, "job", incident_job(f, m));
	place_add(t, &n, "host", f->host ? f->host : m->host);
	text_who(t, &n, f, m);
	if (p) {
		text_step(t, p, f->ranks[0]);
		place_add(t, &n, "pod", *p->pod_name ? p->pod_name : p->pod);
		place_add(t, &n, "container", p->container);
		place_add(t, &n, "Slurm job", p->slurm_job);
	}
	text_add(t, "\n");
}

bool incident_has_call_site(const struct finding *f)
{
	return finding_has_call_site(f) || finding_text(f, EVIDENCE_STACK_UNREAD);
}

/* "others  all 7: AT" of "7 of 7 others: AT"; of a deadlock where each of its ranks is, a line for each. */
static void text_others(struct text *t, const char *others, bool is_cycle)
{
	int n, of, len = 0;

	if (!others)
		return;
	text_label(t, is_cycle ? "at" : "others");
	if (sscanf(others, "%d of %d others: %n", &n, &of, &len) == 2 && len) {
		text_add(t, n == of ? "all %d: " : "%d of %d: ", n, of);
		others += len;
	}
	text_foreign(t, others, "\n          ");
	text_add(t, "\n");
}

void incident_text_id(struct text *t, const struct incident *i, const char *before, const char *behind)
{
	const char *tie = !*i->caused_by ? "" : i->explains ? ", the cause of " : ", a consequence of ";

	text_add(t, "%s%s%s%s%s", before, i->id, tie, i->caused_by, behind);
}

void incident_text_block(struct text *t, const struct incident *i, const struct model *m)
{
	const struct finding *f = &i->f;
	char remedy[REMEDY_MAX];

	finding_remedy(f, remedy, sizeof(remedy));
	text_where(t, f, m);
	text_why(t, f, m);
	text_others(t, finding_text(f, EVIDENCE_WAITING_IN), f->class == HANG_DEADLOCK);
	text_label(t, "do");
	text_foreign(t, remedy, NULL);
	text_add(t, "\n");
	text_label(t, "id");
	incident_text_id(t, i, "", "\n");
}

/* --- evidence --- */

/* "waiting: 9.5 s" for waiting_s */
static void number_add(struct text *t, const struct evidence *e)
{
	int len;
	const char *unit = evidence_unit(e->id, &len);

	text_add(t, *unit ? "%.*s: %.4g%s" : "%.*s: %.10g%s", len, evidence_name(e->id), e->number, unit);
}

void incident_text_evidence(struct text *t, const struct finding *f, const struct model *m)
{
	const char *use = incident_parallelism(f, m);

	text_colour(t, DIM);
	if (use)
		text_add(t, "    parallelism: %s\n", use);
	for (int i = 0; i < f->n_evidence; i++) {
		const struct evidence *e = &f->evidence[i];

		text_add(t, "    ");
		if (!evidence_is_text(e->id)) {
			number_add(t, e);
		} else {
			text_add(t, strchr(e->text, '\n') ? "%s:\n        " : "%s: ", evidence_name(e->id));
			text_foreign(t, e->text, "\n        ");
		}
		text_add(t, "\n");
	}
	text_colour(t, RESET);
}

static const char *head_colour(const struct incident *i)
{
	static const char *const colours[SEVERITY_MAX] = {
		[SEVERITY_INFO] = DIM,
		[SEVERITY_WARNING] = YELLOW,
		[SEVERITY_CRITICAL] = RED,
	};

	return i->phase == PHASE_CLOSE ? GREEN : colours[i->f.severity];
}

static void text_upper(struct text *t, const char *name)
{
	for (; *name; name++)
		text_add(t, "%c", *name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
}

/* How bad it is, whether it changed or is over, and whether the wait is a known phase, a stall or a hang. */
void incident_text_head(struct text *t, const struct incident *i)
{
	static const char *const before[] = { "", "now ", "OVER, was " };

	text_colour(t, head_colour(i));
	text_add(t, "%s", before[i->phase]);
	if (i->phase == PHASE_CLOSE) /* who searches for CRITICAL finds what is open */
		text_add(t, "%s", severity_name(i->f.severity));
	else
		text_upper(t, severity_name(i->f.severity));
	if (i->f.kind == FINDING_HANG)
		text_add(t, " %s", finding_kind_shown(&i->f));
	text_colour(t, RESET);
	text_add(t, "  ");
}
