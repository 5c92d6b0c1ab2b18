/* SPDX-License-Identifier: Apache-2.0
 *
 * step_shows.c - see phases.h. A question to a step that is over, for sinks as well: it needs nothing of the model.
 */
#include "model/model.h"

bool step_shows(const struct step_done *s, int phase)
{
	if (phase == PHASE_DATA_WAIT)
		return s->by == STEPS_BY_RANGES;
	return phase != PHASE_GC || (s->proc->gc_visible && !(s->proc->shed >> PROBES_GC & 1));
}
