/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.c - says that records were lost in the last seconds, since every verdict that rests on an absence is then
 * weaker. One finding for as long as losses follow each other.
 */
#include <errno.h>

#include "detect/detect.h"

#define HOLD_NS 10000000000ull

struct loss {
	uint64_t since_ns, before; /* of the present spell; records lost before it */
	uint64_t total;            /* as of the last tick without one */
};

static int loss_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct loss *s = state;
	struct finding *f;

	if (!m->last_loss_ns || m->now_ns - m->last_loss_ns > HOLD_NS) {
		s->since_ns = 0;
		s->total = m->lost;
		return 0;
	}
	if (!s->since_ns) {
		s->since_ns = m->last_loss_ns;
		s->before = s->total;
	}
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_LOST_EVENTS;
	f->subject = subject_node(SUBJECT_NO_NODE);
	finding_identify(f, "loss", 0, s->since_ns);
	f->since_ns = s->since_ns;
	f->confidence = 1;
	finding_note(f, EVIDENCE_LOST_RECORDS, m->lost - s->before);
	finding_note(f, EVIDENCE_LOST_TOTAL, m->lost);
	return 0;
}

const struct detector detector_loss = {
	.name = "loss",
	.help = "records lost between kernel and collector",
	.state_bytes = sizeof(struct loss),
	.tick = loss_tick,
};
