/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_text.c - see incident_text.h.
 */
#include "sink/incident_text.h"

#include <inttypes.h>
#include <string.h>

static const char RED[] = "\033[1;31m", YELLOW[] = "\033[33m", GREEN[] = "\033[32m", DIM[] = "\033[2m",
		  RESET[] = "\033[0m";

static void text_more(struct text *t, const struct finding *f)
{
	if (f->n_ranks_all > f->n_ranks)
		text_add(t, " and %d more", f->n_ranks_all - f->n_ranks);
}

static void text_ranks(struct text *t, const struct finding *f)
{
	int n = f->n_ranks;

	if (!n)
		text_add(t, "job");
	else if (f->ranks[0] < 0)
		text_add(t, n == 1 ? "pid" : "pids");
	else
		text_add(t, n == 1 ? "rank" : "ranks");
	for (int i = 0; i < n && f->ranks[0] >= 0; i++)
		text_add(t, "%s%d", i ? ", " : " ", f->ranks[i]);
	text_more(t, f);
	if (n && !f->pids[0]) /* no process */
		return;
	if (n && f->ranks[0] >= 0)
		text_add(t, " (pid");
	for (int i = 0; i < n; i++)
		text_add(t, "%s%u", i ? ", " : " ", f->pids[i]);
	if (n && f->n_ranks_all > n)
		text_add(t, ", ...");
	if (f->host && n)
		text_add(t, " on %s", f->host);
	text_add(t, n && f->ranks[0] >= 0 ? ")" : "");
}

/* What the ranks do or do not do, to stand between them and the operation. */
static const char *finding_verb(const struct finding *f)
{
	static const char *const hangs[HANG_CLASS_MAX] = {
		[HANG_NONE] = "blocks",
		[HANG_MISSING_ENTER] = "has not entered",
		[HANG_DEADLOCK] = "wait for each other in",
		[HANG_P2P_UNMATCHED] = "has no partner for",
		[HANG_INSIDE_NETWORK] = "is stalled in the network inside",
		[HANG_INSIDE_GPU] = "is stalled on the GPU inside",
		[HANG_HOST_BLOCKED] = "is blocked in the kernel before",
		[HANG_STOPPED] = "is stopped before",
		[HANG_PROCESS_DEAD] = "died before",
		[HANG_INIT] = "has not joined",
		[HANG_UNKNOWN] = "does not finish",
	};
	static const char *const kinds[FINDING_KIND_MAX] = {
		[FINDING_STRAGGLER] = "is slower than its peers",
		[FINDING_MISMATCH] = "called something else as",
		[FINDING_D_STATE] = "is blocked in the kernel (D state)",
		[FINDING_STOPPED] = "is stopped",
		[FINDING_CPU_STARVED] = "waits for a CPU",
		[FINDING_IO_STALL] = "waits for storage",
		[FINDING_XID] = "has a GPU error",
		[FINDING_GPU_HEALTH] = "has a GPU in bad health",
		[FINDING_LINK] = "has a bad link",
		[FINDING_SLOW_STEP] = "makes slower steps than before",
		[FINDING_OBSERVATION] = "lags behind",
		[FINDING_LOST_EVENTS] = "lost records: verdicts are less certain",
		[FINDING_UNOBSERVED] = "is not observed",
	};
	const char *verb = f->kind == FINDING_HANG ? hangs[f->class] : kinds[f->kind];

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

static void text_where(struct text *t, const struct finding *f)
{
	if (f->has_op && f->peer >= 0 && op_kind_p2p(f->op))
		text_add(t, " %s #%" PRIu64 " %s rank %d", op_kind_name(f->op), f->seq,
			 f->op == OP_SEND ? "to" : "from", f->peer);
	else if (f->has_op)
		text_add(t, " %s #%" PRIu64, op_kind_name(f->op), f->seq);
	if (f->comm)
		text_add(t, "%s comm 0x%016" PRIx64, f->has_op ? " of" : ",", f->comm);
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

void incident_text_sentence(struct text *t, const struct incident *i)
{
	const struct finding *f = &i->f;
	double since_s = i->t_ns > f->since_ns ? (double)(i->t_ns - f->since_ns) / 1e9 : 0;
	const char *cause = finding_cause_shown(f);
	int waiting = i->phase == PHASE_CLOSE ? 0 : peers_waiting(f);

	if (!text_link(t, &f->subject)) {
		text_ranks(t, f);
		text_add(t, " %s", finding_verb(f));
	}
	text_where(t, f);
	if (*cause && strcmp(cause, hang_class_name(f->class)) && f->cause != CAUSE_NOT_THERE) {
		text_add(t, ": ");
		text_foreign(t, cause, NULL);
	}
	if (waiting)
		text_add(t, "; %d peer%s for ", waiting, waiting == 1 ? " waits" : "s wait");
	else
		text_add(t, i->phase == PHASE_CLOSE ? "; after " : "; for ");
	text_duration(t, since_s);
}

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

void incident_text_head(struct text *t, const struct incident *i)
{
	const struct finding *f = &i->f;
	const char *class = hang_class_name(f->class);

	text_colour(t, head_colour(i));
	text_add(t, i->phase == PHASE_CLOSE ? "over: " : i->phase == PHASE_UPDATE ? "now: " : "");
	text_upper(t, severity_name(f->severity));
	text_add(t, " ");
	text_upper(t, finding_kind_shown(f));
	text_add(t, "%s%s", *class ? " " : "", class);
	text_colour(t, RESET);
	text_add(t, "  ");
}
