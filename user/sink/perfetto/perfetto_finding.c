/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_finding.c - a finding is a slice from its begin to its end, named by its sentence, on a track for all and on
 * those of its ranks. When it was reported is an instant there, written at once: it is all that a killed session
 * leaves.
 */
#include "sink/perfetto/perfetto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sink/incident_text.h"

#define FINDING_LANES_MAX 16

static const char FINDING[] = "finding", TRACK[] = "findings";

/* "hang stopped" */
static void finding_title(char *buf, size_t size, const struct incident *i)
{
	const char *class = hang_class_name(i->f.class);

	snprintf(buf, size, "%s%s%s", finding_kind_shown(&i->f), *class ? " " : "", class);
}

static void finding_ranks(struct perfetto_sink *p, const struct finding *f)
{
	char ranks[16 * FINDING_RANKS_MAX] = "";
	size_t len = 0;

	for (int i = 0; i < f->n_ranks; i++)
		len += (size_t)snprintf(ranks + len, sizeof(ranks) - len, "%s%d", i ? ", " : "", f->ranks[i]);
	if (f->n_ranks_all > f->n_ranks)
		snprintf(ranks + len, sizeof(ranks) - len, " and %d more", f->n_ranks_all - f->n_ranks);
	event_text(&p->file, "ranks", ranks);
}

static void finding_annotate(struct perfetto_sink *p, const struct incident *i)
{
	const struct finding *f = &i->f;

	event_text(&p->file, "id", i->id);
	event_text(&p->file, "severity", severity_name(f->severity));
	if (*i->caused_by)
		event_text(&p->file, i->explains ? "explains" : "caused_by", i->caused_by);
	if (f->cause)
		event_text(&p->file, "cause", finding_cause_shown(f));
	finding_ranks(p, f);
	if (f->comm)
		event_pointer(&p->file, "comm", f->comm);
	if (f->has_op) {
		event_interned(&p->file, "op", op_kind_name(f->op));
		event_u64(&p->file, "seq", f->seq);
	}
	event_double(&p->file, "since_s", i->t_ns > f->since_ns ? (double)(i->t_ns - f->since_ns) / 1e9 : 0);
	event_double(&p->file, "confidence", f->confidence);
	for (int k = 0; k < f->n_evidence; k++) {
		const struct evidence *e = &f->evidence[k];

		if (evidence_is_text(e->id))
			event_text(&p->file, evidence_name(e->id), e->text);
		else
			event_double(&p->file, evidence_name(e->id), e->number);
	}
}

static struct track *all_track(struct perfetto_sink *p)
{
	return track_get(p, (struct track_key){ .kind = TRACK_KIND_FINDINGS }, 0, TRACK);
}

/* The track of its k-th rank; NULL: no process of it is known. */
static struct track *rank_track(struct perfetto_sink *p, const struct incident *i, int k, const struct model *m)
{
	return i->f.pids[k] ? process_child_track(p, m, TRACK_KIND_FINDINGS, finding_proc(&i->f, k), TRACK) : NULL;
}

static void reported_draw(struct perfetto_sink *p, struct track *t, const struct incident *i)
{
	char title[96];

	finding_title(title, sizeof(title), i);
	event_open(&p->file, TYPE_INSTANT, track_uuid(p, t), i->t_ns, FINDING, NULL);
	event_title(&p->file, title);
	finding_annotate(p, i);
	event_close(&p->file);
}

static void slice_draw(struct perfetto_sink *p, struct track *t, const struct incident *i, const char *sentence)
{
	uint64_t begin_ns = i->f.since_ns && i->f.since_ns < i->t_ns ? i->f.since_ns : i->open_ns;
	uint64_t end_ns = i->t_ns > begin_ns ? i->t_ns : begin_ns, lane;
	bool cut = false;

	lane = track_lane(p, t, FINDING_LANES_MAX, &begin_ns, &end_ns, &cut);
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, begin_ns, FINDING, NULL);
	event_title(&p->file, sentence);
	event_bool(&p->file, "over", i->phase == PHASE_CLOSE);
	finding_annotate(p, i);
	event_close(&p->file);
	slice_end(&p->file, lane, end_ns);
}

/* A pause that is known to recur is no fault of the rank: what it does then is the name. */
static void slice_title(struct text *t, const struct incident *i)
{
	const char *phase = i->f.severity == SEVERITY_INFO ? finding_text(&i->f, EVIDENCE_KNOWN_PHASE) : NULL;

	if (phase)
		text_add(t, "%s: %s", finding_kind_shown(&i->f), phase);
	else
		incident_text_sentence(t, i);
}

static void slices_draw(struct perfetto_sink *p, const struct incident *i, const struct model *m)
{
	struct text t = {};
	struct track *of_rank;

	slice_title(&t, i);
	slice_draw(p, all_track(p), i, t.data ? t.data : "");
	for (int k = 0; k < i->f.n_ranks; k++) {
		of_rank = rank_track(p, i, k, m);
		if (of_rank)
			slice_draw(p, of_rank, i, t.data ? t.data : "");
	}
	free(t.data);
}

static struct incident *open_find(const struct perfetto_sink *p, uint64_t number)
{
	for (size_t k = 0; k < p->n_findings; k++)
		if (p->findings[k].number == number)
			return &p->findings[k];
	return NULL;
}

static int open_keep(struct perfetto_sink *p, const struct incident *i)
{
	struct incident *at = open_find(p, i->number);

	if (!at) {
		at = realloc(p->findings, (p->n_findings + 1) * sizeof(*at));
		if (!at)
			return -ENOMEM;
		p->findings = at;
		at += p->n_findings++;
		*at = (struct incident){ 0 };
	}
	return incident_keep(at, i);
}

int finding_add(struct perfetto_sink *p, const struct incident *i, const struct model *m)
{
	struct incident *at = open_find(p, i->number);
	struct track *of_rank;

	if (!at) {
		reported_draw(p, all_track(p), i);
		for (int k = 0; k < i->f.n_ranks; k++) {
			of_rank = rank_track(p, i, k, m);
			if (of_rank)
				reported_draw(p, of_rank, i);
		}
	}
	if (i->phase != PHASE_CLOSE)
		return open_keep(p, i);
	slices_draw(p, i, m);
	if (at) {
		finding_drop(&at->f);
		*at = p->findings[--p->n_findings];
	}
	return 0;
}

void findings_free(struct perfetto_sink *p)
{
	while (p->n_findings)
		finding_drop(&p->findings[--p->n_findings].f);
	free(p->findings);
	p->findings = NULL;
}

void findings_finish(struct perfetto_sink *p, const struct model *m)
{
	for (size_t k = 0; k < p->n_findings; k++) {
		p->findings[k].t_ns = m->now_ns;
		slices_draw(p, &p->findings[k], m);
	}
	findings_free(p);
}
