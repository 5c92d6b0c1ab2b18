/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_text.c - see incident_text.h.
 */
#include "sink/incident_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "remedy.h"

static const char RED[] = "\033[1;31m", YELLOW[] = "\033[33m", GREEN[] = "\033[32m", DIM[] = "\033[2m",
		  RESET[] = "\033[0m";

/* --- the sentence --- */

/* "rank 3", "ranks 0, 1 and 12 more", "pid 812", "the job" */
static void text_ranks(struct text *t, const struct finding *f)
{
	bool ranks = f->n_ranks && f->ranks[0] >= 0;

	if (!f->n_ranks) {
		text_add(t, "the job");
		return;
	}
	text_add(t, ranks ? f->n_ranks == 1 ? "rank" : "ranks" : f->n_ranks == 1 ? "pid" : "pids");
	for (int i = 0; i < f->n_ranks; i++)
		text_add(t, "%s%d", i ? ", " : " ", ranks ? f->ranks[i] : (int)f->pids[i]);
	if (f->n_ranks_all > f->n_ranks)
		text_add(t, " and %d more", f->n_ranks_all - f->n_ranks);
}

/* What the ranks do or do not do, to stand between them and the operation: of one, of several. */
struct verb {
	const char *one, *several;
};

static const struct verb hang_verbs[HANG_CLASS_MAX] = {
	[HANG_NONE] = { "blocks its peers", "block their peers" },
	[HANG_MISSING_ENTER] = { "has not entered", "have not entered" },
	[HANG_DEADLOCK] = { "waits in a deadlock cycle at", "wait for each other (deadlock cycle) at" },
	[HANG_P2P_UNMATCHED] = { "has no partner for", "have no partner for" },
	[HANG_INSIDE_NETWORK] = { "is stalled in the network inside", "are stalled in the network inside" },
	[HANG_INSIDE_GPU] = { "is stalled on its GPU at", "are stalled on their GPUs at" },
	[HANG_HOST_BLOCKED] = { "is blocked in the kernel before", "are blocked in the kernel before" },
	[HANG_STOPPED] = { "is stopped before", "are stopped before" },
	[HANG_PROCESS_DEAD] = { "died before", "died before" },
	[HANG_INIT] = { "has not entered", "have not entered" },
	[HANG_UNKNOWN] = { "does not finish", "do not finish" },
};

static const struct verb kind_verbs[FINDING_KIND_MAX] = {
	[FINDING_STRAGGLER] = { "is slower than its peers", "are slower than their peers" },
	[FINDING_MISMATCH] = { "called something else than its peers as", "called something else than their peers as" },
	[FINDING_D_STATE] = { "is blocked in the kernel (D state)", "are blocked in the kernel (D state)" },
	[FINDING_STOPPED] = { "is stopped", "are stopped" },
	[FINDING_CPU_STARVED] = { "waits for a CPU", "wait for a CPU" },
	[FINDING_IO_STALL] = { "waits for storage", "wait for storage" },
	[FINDING_XID] = { "has a GPU error", "have a GPU error" },
	[FINDING_GPU_HEALTH] = { "has a GPU in bad health", "have a GPU in bad health" },
	[FINDING_LINK] = { "has a bad link", "have a bad link" },
	[FINDING_SLOW_STEP] = { "makes slower steps than before", "make slower steps than before" },
	[FINDING_OBSERVATION] = { "lags behind", "lag behind" },
	[FINDING_LOST_EVENTS] = { "lost records: verdicts are less certain",
				  "lost records: verdicts are less certain" },
	[FINDING_UNOBSERVED] = { "is not observed", "are not observed" },
};

static const char *finding_verb(const struct finding *f)
{
	const struct verb *v = f->kind == FINDING_HANG ? &hang_verbs[f->class] : &kind_verbs[f->kind];
	const char *verb = f->n_ranks > 1 ? v->several : v->one;

	if (f->cause == CAUSE_UNUSUAL_VALUE)
		return "is unlike its peers";
	if (f->class == HANG_PROCESS_DEAD && f->cause == CAUSE_NOT_THERE)
		return "has no process here any more; the others wait in";
	return verb ? verb : "";
}

/* How many peers wait, where the detector says so; 0 unknown. */
static int peers_waiting(const struct finding *f)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (f->evidence[i].id == EVIDENCE_N_WAITING || f->evidence[i].id == EVIDENCE_PEERS_WAITING)
			return (int)f->evidence[i].number;
	return 0;
}

static void text_op(struct text *t, const struct finding *f)
{
	if (f->has_op && f->peer >= 0 && op_kind_p2p(f->op))
		text_add(t, " %s #%" PRIu64 " %s rank %d", op_kind_name(f->op), f->seq,
			 f->op == OP_SEND ? "to" : "from", f->peer);
	else if (f->has_op)
		text_add(t, " %s #%" PRIu64, op_kind_name(f->op), f->seq);
	else if (f->class == HANG_INIT || f->class == HANG_DEADLOCK)
		text_add(t, " the init of a communicator");
}

static void text_path(struct text *t, const struct subject *s)
{
	if (s->procs[0]) {
		text_add(t, "path from rank %d to rank %d", s->ranks[0], s->ranks[1]);
	} else if (!s->a) {
		text_add(t, "TCP of all hosts");
	} else {
		text_add(t, "TCP between ");
		text_foreign(t, s->a, NULL);
		text_add(t, " and ");
		text_foreign(t, s->b, NULL);
	}
}

/* A port or a path stands where others have a rank: "mlx5_3 port 1", "TCP of 10.0.0.3". False: it is about neither. */
static bool text_link(struct text *t, const struct subject *s)
{
	if (s->type == SUBJECT_PATH) {
		text_path(t, s);
	} else if (s->address) {
		text_add(t, "TCP of ");
		text_foreign(t, s->address, NULL);
	} else if (s->device) {
		text_foreign(t, s->device, NULL);
		text_add(t, s->port ? " port %u" : "", s->port);
	}
	return s->type == SUBJECT_PATH || s->address || s->device;
}

/* The class says it already, or the line "why" does. */
static bool cause_is_said(const struct finding *f)
{
	return f->cause == CAUSE_NONE || f->cause == CAUSE_NOT_THERE || f->cause == CAUSE_D_STATE ||
	       f->cause == CAUSE_UNUSUAL_VALUE || !strcmp(cause_name(f->cause), hang_class_name(f->class)) ||
	       (f->class == HANG_PROCESS_DEAD && f->cause == CAUSE_DEAD);
}

void incident_text_sentence(struct text *t, const struct incident *i)
{
	const struct finding *f = &i->f;
	double since_s = i->t_ns > f->since_ns ? (double)(i->t_ns - f->since_ns) / 1e9 : 0;
	int waiting = i->phase == PHASE_CLOSE ? 0 : peers_waiting(f);

	if (!text_link(t, &f->subject)) {
		text_ranks(t, f);
		text_add(t, " %s", finding_verb(f));
	}
	text_op(t, f);
	if (!cause_is_said(f))
		text_add(t, ": %s", cause_help(f->cause));
	if (waiting)
		text_add(t, "; %d peer%s for ", waiting, waiting == 1 ? " waits" : "s wait");
	else
		text_add(t, i->phase == PHASE_CLOSE ? "; over after " : "; for ");
	text_duration(t, since_s);
}

/* --- the block --- */

static void text_label(struct text *t, const char *label)
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

/* job, host, GPU, pid, pod, Slurm job */
static void text_where(struct text *t, const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks == 1 ? model_proc(m, finding_proc(f, 0)) : NULL;
	const struct gpu *g = f->n_ranks > 1 ? NULL : incident_gpu(f, m);
	int n = 0;

	text_label(t, "where");
	place_add(t, &n, "job", incident_job(f, m));
	place_add(t, &n, "host", f->host ? f->host : m->host);
	if (g)
		text_add(t, "%sGPU %u", n++ ? ", " : "", g->device.index);
	for (int i = 0; i < f->n_ranks && f->pids[i]; i++)
		text_add(t, "%s%u", i ? ", " : n++ ? ", pid " : "pid ", f->pids[i]);
	if (p) {
		place_add(t, &n, "pod", *p->pod_name ? p->pod_name : p->pod);
		place_add(t, &n, "container", p->container);
		place_add(t, &n, "Slurm job", p->slurm_job);
	}
	text_add(t, "\n");
}

bool incident_has_call_site(const struct finding *f)
{
	return finding_text(f, EVIDENCE_PYTHON) || finding_text(f, EVIDENCE_NATIVE_FRAME) ||
	       finding_text(f, EVIDENCE_KERNEL_WAIT) || finding_text(f, EVIDENCE_STACK_UNREAD) ||
	       finding_text(f, EVIDENCE_WAITS_FOR);
}

static void why_add(struct text *t, int *n, const char *before, const char *text)
{
	if (!text || !*text)
		return;
	if ((*n)++)
		text_add(t, "; ");
	else
		text_label(t, "why");
	text_add(t, "%s", before);
	text_foreign(t, text, "; ");
}

/* At which line, waiting for what, what the GPUs do, of which communicator. */
static void text_why(struct text *t, const struct finding *f)
{
	const char *waits_for = finding_text(f, EVIDENCE_WAITS_FOR), *python = finding_text(f, EVIDENCE_PYTHON);
	char comm[24];
	int n = 0;

	if (f->cause == CAUSE_D_STATE)
		why_add(t, &n, "waits in the kernel in ", finding_text(f, EVIDENCE_WCHAN));
	why_add(t, &n, "", finding_text(f, EVIDENCE_CYCLE));
	why_add(t, &n, "known phase: ", finding_text(f, EVIDENCE_KNOWN_PHASE));
	why_add(t, &n, "at ", python);
	why_add(t, &n, python ? "" : "at ", finding_text(f, EVIDENCE_NATIVE_FRAME));
	why_add(t, &n, "", waits_for);
	why_add(t, &n, "kernel: ", waits_for ? NULL : finding_text(f, EVIDENCE_KERNEL_WAIT));
	why_add(t, &n, "stack unknown: ", finding_text(f, EVIDENCE_STACK_UNREAD));
	why_add(t, &n, "GPUs: ", finding_text(f, EVIDENCE_GPU_STATES));
	snprintf(comm, sizeof(comm), "0x%016" PRIx64, f->comm);
	why_add(t, &n, "communicator ", f->comm ? comm : NULL);
	text_add(t, n ? "\n" : "");
}

void incident_text_block(struct text *t, const struct incident *i, const struct model *m)
{
	const struct finding *f = &i->f;
	const char *others = finding_text(f, EVIDENCE_WAITING_IN);

	text_where(t, f, m);
	text_why(t, f);
	if (others) {
		text_label(t, "others");
		text_foreign(t, others, "\n          ");
		text_add(t, "\n");
	}
	text_label(t, "do");
	text_foreign(t, finding_remedy(f), NULL);
	text_add(t, "\n");
	text_label(t, "id");
	text_add(t, "%s%s%s\n", i->id, *i->caused_by ? ", a consequence of " : "", i->caused_by);
}

/* --- evidence --- */

/* "waiting: 9.5 s" for waiting_s */
static void number_add(struct text *t, const struct evidence *e)
{
	int len;
	const char *unit = evidence_unit(e->id, &len);

	text_add(t, *unit ? "%.*s: %.4g%s" : "%.*s: %.10g%s", len, evidence_name(e->id), e->number, unit);
}

void incident_text_evidence(struct text *t, const struct finding *f)
{
	text_colour(t, DIM);
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
	static const char *const before[] = { "", "now ", "over: was " };

	text_colour(t, head_colour(i));
	text_add(t, "%s", before[i->phase]);
	text_upper(t, severity_name(i->f.severity));
	if (i->f.kind == FINDING_HANG)
		text_add(t, " %s", finding_kind_shown(&i->f));
	text_colour(t, RESET);
	text_add(t, "  ");
}
