/* SPDX-License-Identifier: Apache-2.0
 *
 * unseen.c - what a report does not rest on: records lost, probes taken away, ranks and stacks that were not read; and
 * what happened beside the findings. A gap that is not named looks like health.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "sink/report/report.h"
#include "sink/report/spans.h"

#define RANKS_NAMED 12 /* spans */

/* --- while the stream goes by --- */

static void note_put(struct report *r, uint64_t ns, struct text *t)
{
	if (t->data && r->n_notes < NOTES_KEPT)
		r->notes[r->n_notes++] = (struct note){ ns, t->data };
	else if (t->data) {
		r->n_notes_dropped++;
		free(t->data);
	}
}

static void who_add(struct text *t, const struct event *e, const struct model *m)
{
	const struct proc *p = model_proc(m, event_proc(e));

	if (p && sink_rank(p) >= 0)
		text_add(t, "rank %d ", sink_rank(p));
	text_add(t, "(pid %u)", e->tgid);
}

static void budget_note(struct report *r, const struct event *e, const struct model *m)
{
	struct text t = { 0 };

	if (e->budget.what == BUDGET_COST || e->budget.of_other)
		return;
	who_add(&t, e, m);
	if (e->budget.what == BUDGET_WATCH)
		text_add(&t, ": all its probes were removed for their cost; it was watched from outside");
	else
		text_add(&t, ": %s %s", probe_group_what(e->budget.group),
			 e->budget.what == BUDGET_BACK ? "probed again" : "no longer probed, for the cost");
	note_put(r, e->ts_ns, &t);
}

static void tier_note(struct report *r, const struct event *e, const struct model *m)
{
	static const char *const what[] = { "probed no more", "probed: calls and waits", "probed: every call" };
	struct text t = { 0 };

	who_add(&t, e, m);
	text_add(&t, " is %s", e->tier.tier >= 0 && e->tier.tier < 3 ? what[e->tier.tier] : "probed");
	note_put(r, e->ts_ns, &t);
}

static void log_note(struct report *r, const struct event *e)
{
	struct text t = { 0 };

	text_add(&t, "kernel: ");
	text_foreign(&t, e->kernel_log.text ? e->kernel_log.text : "", " ");
	note_put(r, e->ts_ns, &t);
}

static void lib_add(struct report *r, struct lib one)
{
	if (one.path && one.build_id) {
		r->libs[r->n_libs++] = one;
		return;
	}
	free(one.path);
	free(one.build_id);
	r->n_libs_dropped++;
}

static void lib_note(struct report *r, const struct event *e)
{
	for (size_t i = 0; i < r->n_libs; i++)
		if (!strcmp(r->libs[i].path, e->lib.path) && !strcmp(r->libs[i].build_id, e->lib.build_id)) {
			r->libs[i].n_probes =
				e->lib.n_probes > r->libs[i].n_probes ? e->lib.n_probes : r->libs[i].n_probes;
			return;
		}
	if (r->n_libs < LIBS_KEPT)
		lib_add(r, (struct lib){ strdup(e->lib.path), strdup(e->lib.build_id), e->lib.n_probes });
	else
		r->n_libs_dropped++;
}

void report_note(struct report *r, const struct event *e, const struct model *m)
{
	switch (e->kind) {
	case EV_LOSS:
		r->lost[(unsigned int)e->loss.class < 3 ? e->loss.class : LOSS_BULK] += e->loss.lost;
		r->loss_ns = e->loss.lost ? e->ts_ns : r->loss_ns;
		break;
	case EV_BUDGET: budget_note(r, e, m); break;
	case EV_TIER: tier_note(r, e, m); break;
	case EV_KERNEL_LOG:
	case EV_XID: log_note(r, e); break;
	case EV_LIB:
		if (e->lib.path && e->lib.build_id)
			lib_note(r, e);
		break;
	case EV_ATTACH: r->n_attached++; break;
	case EV_STOP: r->stopped = true; break;
	default: break;
	}
}

cJSON *report_notes(const struct report *r)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < r->n_notes; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddNumberToObject(o, "t_s", report_seconds(r, r->notes[i].ns));
		report_add(o, "text", r->notes[i].text);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

/* --- at the end --- */

static void line_end(cJSON *list, struct text *t)
{
	if (!t->data)
		return;
	cJSON_AddItemToArray(list, cJSON_CreateString(t->data));
	free(t->data);
	*t = (struct text){ 0 };
}

static void lost_lines(cJSON *list, const struct report *r)
{
	static const char *const what[3] = {
		"of starts and ends of processes",
		"of calls and waits: sequence numbers and verdicts near the loss are less certain",
		"of launches, copies and other bulk: totals there are too low, no verdict rests on them",
	};
	struct text t = { 0 };

	for (int i = 0; i < 3; i++)
		if (r->lost[i]) {
			text_add(&t, "%" PRIu64 " records found no room in the rings: %s; the last at %.1f s",
				 r->lost[i], what[i], report_seconds(r, r->loss_ns));
			line_end(list, &t);
		}
}

/* Of the largest communicator: ranks that no process here is. */
static void missing_line(cJSON *list, const struct model *m)
{
	const struct comm *best = NULL;
	struct text t = { 0 };
	int *ranks, n = 0;

	for (const struct comm *c = m->comms; c; c = c->next)
		if (c->by_rank && (!best || c->nranks > best->nranks))
			best = c;
	if (!best || best->n_seen >= best->nranks || !(ranks = calloc((size_t)best->nranks, sizeof(*ranks))))
		return;
	for (int i = 0; i < best->nranks; i++)
		if (!best->by_rank[i])
			ranks[n++] = i;
	text_add(&t,
		 "%d of %d ranks of the largest communicator were not seen (their hosts are not in this "
		 "recording, or they are gone): ",
		 n, best->nranks);
	text_spans(&t, ranks, (size_t)n, RANKS_NAMED);
	free(ranks);
	line_end(list, &t);
}

static void stacks_line(cJSON *list, const struct model *m)
{
	const char *why = NULL;
	struct text t = { 0 };
	int n = 0;

	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->dead && p->outside.stacks_unread) {
			why = p->outside.stacks_unread;
			n++;
		}
	if (!n)
		return;
	text_add(&t, "stacks of %d process%s were not read: ", n, n == 1 ? "" : "es");
	text_foreign(&t, why, " ");
	line_end(list, &t);
}

static void calls_lines(cJSON *list, const struct report *r, const struct model *m)
{
	struct text t = { 0 };
	bool members = false;

	for (const struct comm *c = m->comms; c; c = c->next)
		members |= c->members != NULL;
	if (!m->n_ops && members) {
		text_add(&t,
			 "no call was probed: operations, steps and Send/Recv were not seen one by one, only NCCL's "
			 "own counters (ranktrace record probes them)");
		line_end(list, &t);
	}
	if (r->n_late_ops) {
		text_add(&t,
			 "%" PRIu64 " operations are numbered from the attach, not from their communicator's "
			 "begin: NCCL keeps no count of them",
			 r->n_late_ops);
		line_end(list, &t);
	}
	if (m->resumed_ns) {
		text_add(&t, "the recording begins in the middle of a session: what was before is known by its state "
			     "only");
		line_end(list, &t);
	}
}

static void limits_lines(cJSON *list, const struct report *r, const struct model *m)
{
	struct text t = { 0 };

	if (m->merged) {
		text_add(&t, "clocks of different hosts are not compared: times across hosts are to the round of "
			     "samples only");
		line_end(list, &t);
	}
	if (!r->stopped) {
		text_add(&t, "the recording has no end: its writer was killed, the disk was full, or it still runs");
		line_end(list, &t);
	}
	if (r->n_dropped) {
		text_add(&t, "%zu findings of the least severity are not on this page: ranktrace replay --json has all",
			 r->n_dropped);
		line_end(list, &t);
	}
	if (r->n_comms_dropped) {
		text_add(&t, "communicators past the first %d are not in the table", COMMS_KEPT);
		line_end(list, &t);
	}
	if (r->n_notes_dropped) {
		text_add(&t, "%zu more changes of probes and lines of the kernel's log are not on this page",
			 r->n_notes_dropped);
		line_end(list, &t);
	}
}

cJSON *report_unseen(const struct report *r, const struct model *m)
{
	cJSON *list = cJSON_CreateArray();

	lost_lines(list, r);
	missing_line(list, m);
	stacks_line(list, m);
	calls_lines(list, r, m);
	limits_lines(list, r, m);
	return list;
}
