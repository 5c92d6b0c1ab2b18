/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_step.c - the steps of each rank, and collections of garbage. Where PyTorch's marks show them, with the
 * phases inside. Elsewhere by the model's iteration clock: from the call that begins one to the call that begins the
 * next. A young clock may take the layers of a step for steps, so what it says is held until it has proved itself; of a
 * clock that was a mistake, or lost a beat, nothing is drawn.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sink/perfetto/perfetto.h"

#define STEP_LANES_MAX 1
#define COLLECTION_LANES_MAX 2 /* threads of one interpreter take turns */
#define STEPS_MIN 4            /* begins of a short trace: three whole iterations */
#define PROVED_OPS 64          /* as the model has it: a clock that breaks earlier was a mistake */

static const char STEPS[] = "steps", GARBAGE[] = "garbage collection";

struct step_clock {
	uint64_t period_ops;
	size_t n; /* begins held, oldest first; the newest is that of the present iteration */
	struct step_begin {
		uint64_t nth, ns;
	} begins[PROVED_OPS + 2];
};

static void step_draw(struct perfetto_sink *p, struct track *t, const struct step_begin *b, uint64_t end_ns)
{
	uint64_t begin_ns = b->ns, period_ops = t->steps->period_ops, lane;
	char title[32];
	bool cut;

	lane = track_lane(p, t, STEP_LANES_MAX, &begin_ns, &end_ns, &cut);
	snprintf(title, sizeof(title), "step %" PRIu64, b->nth / period_ops);
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, begin_ns, STEPS, NULL);
	event_title(&p->file, title);
	event_u64(&p->file, "operations", period_ops);
	event_close(&p->file);
	slice_end(&p->file, lane, end_ns);
}

static void held_draw(struct perfetto_sink *p, struct track *t)
{
	struct step_clock *c = t->steps;

	for (size_t i = 0; i + 1 < c->n; i++)
		if (c->begins[i + 1].nth == c->begins[i].nth + c->period_ops && c->begins[i + 1].ns > c->begins[i].ns)
			step_draw(p, t, &c->begins[i], c->begins[i + 1].ns);
	c->begins[0] = c->begins[c->n - 1];
	c->n = 1;
}

/* Where threads call for the ranks of a process: below the rank's GPU. */
static struct track *steps_track(struct perfetto_sink *p, const struct model *m, const struct member *mb)
{
	const struct proc *proc = mb->proc;

	return proc->by_threads ? seat_child_track(p, m, TRACK_KIND_SPANS, mb, STEPS)
				: process_child_track(p, m, TRACK_KIND_SPANS, proc->key, STEPS);
}

static struct step_clock *clock_of(struct track *t, uint64_t period_ops)
{
	if (t && !t->steps)
		t->steps = calloc(1, sizeof(*t->steps));
	if (t && t->steps && t->steps->period_ops != period_ops)
		*t->steps = (struct step_clock){ .period_ops = period_ops };
	return t ? t->steps : NULL;
}

void steps_finish(struct perfetto_sink *p)
{
	struct track *t, *next;

	HASH_ITER (hh, p->tracks, t, next)
		if (t->steps && t->steps->n >= STEPS_MIN)
			held_draw(p, t);
}

void step_add(struct perfetto_sink *p, const struct op *op, const struct model *m)
{
	const struct proc *proc = op->member->proc;
	const struct steps *s = member_steps(op->member);
	struct step_clock *c;
	struct track *t;

	if (proc->has_phases || !s->period_ops || proc->leader != proc || (sink_rank(proc) < 0 && !proc->shared) ||
	    op_clock_nth(op) % s->period_ops != s->phase)
		return;
	t = steps_track(p, m, op->member);
	c = clock_of(t, s->period_ops);
	if (!c || (c->n && op_clock_nth(op) <= c->begins[c->n - 1].nth))
		return; /* it ended later than one that was called after it */
	c->begins[c->n++] = (struct step_begin){ op_clock_nth(op), op->call_ns };
	if (s->n * s->period_ops >= PROVED_OPS || c->n == PROVED_OPS + 2)
		held_draw(p, t);
}

static void part_draw(struct perfetto_sink *p, uint64_t lane, const struct step_part *part)
{
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, part->begin_ns, STEPS, NULL);
	event_title(&p->file, step_phase_name(part->phase));
	event_close(&p->file);
	slice_end(&p->file, lane, part->end_ns);
}

void step_done_draw(struct perfetto_sink *p, const struct step_done *s, const struct model *m)
{
	struct track *t = process_child_track(p, m, TRACK_KIND_SPANS, s->proc->key, STEPS);
	uint64_t begin_ns = s->begin_ns, end_ns = s->end_ns, lane;
	char title[32];
	bool cut;

	if (!t)
		return;
	lane = track_lane(p, t, STEP_LANES_MAX, &begin_ns, &end_ns, &cut);
	snprintf(title, sizeof(title), "step %" PRIu64, s->number);
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, begin_ns, STEPS, NULL);
	event_title(&p->file, title);
	event_u64(&p->file, "backwards", s->n_backward);
	event_u64(&p->file, "operations", s->n_ops);
	event_u64(&p->file, "gpu_wait_us", s->gpu_wait_ns / 1000);
	event_u64(&p->file, "exposed_most_us", s->exposed_most_ns / 1000);
	event_close(&p->file);
	for (int i = 0; i < s->n_parts; i++)
		if (s->parts[i].begin_ns >= begin_ns && s->parts[i].end_ns <= end_ns)
			part_draw(p, lane, &s->parts[i]);
	slice_end(&p->file, lane, end_ns);
}

void collection_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	struct track *t = e->python_gc.n ? process_child_track(p, m, TRACK_KIND_SPANS, event_proc(e), GARBAGE) : NULL;
	uint64_t begin_ns = e->python_gc.begin_ns, end_ns = e->ts_ns, lane;
	bool cut;

	if (!t)
		return;
	lane = track_lane(p, t, COLLECTION_LANES_MAX, &begin_ns, &end_ns, &cut);
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, begin_ns, GARBAGE, NULL);
	event_title(&p->file, "gc");
	event_u64(&p->file, "tid", e->tid);
	if (e->python_gc.n > 1)
		event_u64(&p->file, "short_ones_before", e->python_gc.n - 1);
	event_close(&p->file);
	slice_end(&p->file, lane, end_ns);
}
