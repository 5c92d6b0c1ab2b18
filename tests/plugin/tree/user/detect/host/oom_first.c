/* SPDX-License-Identifier: Apache-2.0
 *
 * oom_first.c - a rank that the kernel's OOM killer would take before all of its peers: its oom_score_adj is higher
 * than that of every other rank.
 */
#include <errno.h>

#include "detect/detect.h"

#define AHEAD_LEAST 100 /* of the next one */

struct two { /* the rank with the highest value, and the next value */
	const struct proc *first;
	const struct counter *high, *next;
};

static struct two highest(const struct model *m)
{
	struct two t = {};

	for (const struct proc *p = m->procs; p; p = p->next) {
		const struct counter *c = p->dead ? NULL : proc_counter(p, "oom_score_adj");

		if (!c)
			continue;
		if (!t.high || c->value > t.high->value) {
			t.next = t.high;
			t.high = c;
			t.first = p;
		} else if (!t.next || c->value > t.next->value) {
			t.next = c;
		}
	}
	return t;
}

static int oom_first_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct two t = highest(m);
	struct finding *f;

	(void)state;
	if (!t.next || t.high->value < t.next->value + AHEAD_LEAST)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_OBSERVATION;
	f->cause = CAUSE_UNUSUAL_VALUE;
	f->subject = subject_process(t.first->rank, t.first->key);
	finding_identify(f, "oom_first", 0, 0);
	finding_add_rank(f, t.first->rank, t.first->key);
	f->since_ns = m->now_ns;
	f->confidence = 1;
	finding_note_text(f, EVIDENCE_COUNTER, t.high->name);
	finding_note(f, EVIDENCE_VALUE, (double)t.high->value);
	finding_note(f, EVIDENCE_PEERS_VALUE, (double)t.next->value);
	return 0;
}

const struct detector detector_oom_first = {
	.name = "oom_first",
	.help = "a rank that the OOM killer would take before its peers",
	.tick = oom_first_tick,
};
