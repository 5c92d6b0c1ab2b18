/* SPDX-License-Identifier: Apache-2.0
 *
 * detect.c - runs the detectors of detectors.def in their order and keeps their memory; the list of findings.
 */
#include "detect/detect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "detect/severity.h"

static const struct detector *const table[] = {
#define DETECTOR(id, name, help) &detector_##id,
#include "detect/detectors.def"
#undef DETECTOR
};
#define N_DETECTORS (sizeof(table) / sizeof(table[0]))

struct detectors {
	void *state[N_DETECTORS];
	struct outside_judge outside;
};

struct detectors *detectors_new(void)
{
	struct detectors *d = calloc(1, sizeof(*d));

	for (size_t i = 0; d && i < N_DETECTORS; i++) {
		if (!table[i]->state_bytes)
			continue;
		d->state[i] = calloc(1, table[i]->state_bytes);
		if (!d->state[i]) {
			detectors_free(d);
			return NULL;
		}
	}
	return d;
}

void detectors_free(struct detectors *d)
{
	for (size_t i = 0; d && i < N_DETECTORS; i++) {
		if (d->state[i] && table[i]->release)
			table[i]->release(d->state[i]);
		free(d->state[i]);
	}
	free(d);
}

void detectors_set_outside(struct detectors *d, const struct outside_judge *j)
{
	d->outside = *j;
}

/* Of one rank that does not move, or is long at something: in which phase of its step. */
static void phases_note(const struct model *m, struct finding_list *found)
{
	for (size_t i = 0; i < found->n; i++) {
		struct finding *f = &found->items[i];
		bool still = f->kind == FINDING_HANG || f->kind == FINDING_D_STATE || f->kind == FINDING_STOPPED ||
			     f->kind == FINDING_OBSERVATION;
		const struct proc *p = still && f->n_ranks_all == 1 ? model_proc(m, finding_proc(f, 0)) : NULL;
		/* a rank may be gone, and a child of it still hang */
		int phase = p && !p->dead && p->leader ? proc_phase(p->leader) : -1;

		if (phase >= 0)
			finding_note_text(f, EVIDENCE_PHASE, step_phase_name(phase));
	}
}

int detectors_tick(struct detectors *d, const struct model *m, struct finding_list *found)
{
	const struct outside_judge *o = &d->outside;
	int err, one;

	found->n = 0;
	intern_free(found->texts);
	found->texts = NULL;
	err = o->before ? o->before(o->of, m, found) : 0;
	for (size_t i = 0; i < N_DETECTORS; i++) {
		one = table[i]->tick(d->state[i], m, found);
		err = err ? err : one;
	}
	if (o->behind && !err)
		err = o->behind(o->of, m, found);
	phases_note(m, found);
	severities_judge(found, m->now_ns);
	return err;
}

const struct pauses *detectors_pauses(const struct detectors *d)
{
	for (size_t i = 0; i < N_DETECTORS; i++)
		if (table[i]->pauses)
			return table[i]->pauses(d->state[i]);
	return NULL;
}

struct finding *finding_list_add(struct finding_list *list)
{
	size_t cap = list->cap ? 2 * list->cap : 16;
	struct finding *grown;

	if (list->n == list->cap) {
		grown = realloc(list->items, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		list->items = grown;
		list->cap = cap;
	}
	memset(&list->items[list->n], 0, sizeof(struct finding));
	list->items[list->n].peer = -1;
	list->items[list->n].node = FINDING_NO_NODE;
	return &list->items[list->n++];
}

void finding_list_free(struct finding_list *list)
{
	free(list->items);
	intern_free(list->texts);
	*list = (struct finding_list){ 0 };
}

const char *finding_list_text(struct finding_list *list, const char *text)
{
	const char *kept;

	if (!list->texts)
		list->texts = intern_new();
	kept = list->texts ? intern(list->texts, text) : "";
	return intern_refused(kept) ? INTERN_FULL : kept;
}

const struct finding *finding_list_of(const struct finding_list *list, enum finding_kind kind, uint64_t proc)
{
	const struct finding *may_be = NULL, *f;

	for (size_t i = 0; i < list->n; i++) {
		f = &list->items[i];
		for (int k = 0; f->kind == kind && k < f->n_ranks; k++)
			if (finding_proc(f, k) == proc)
				return f;
		if (f->kind == kind && f->n_ranks_all > f->n_ranks)
			may_be = f;
	}
	return may_be;
}
