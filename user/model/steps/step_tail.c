/* SPDX-License-Identifier: Apache-2.0
 *
 * step_tail.c - see step_tail.h.
 */
#include "model/steps/step_tail.h"

struct step_tail step_tail_now(const struct step_done *s, uint64_t gc_in_ns)
{
	return (struct step_tail){ .gpu_wait_ns = s->gpu_wait_ns,
				   .wait_ns = s->wait_ns[PHASE_OTHER],
				   .exposed_most_ns = s->exposed_most_ns,
				   .storage_ns = s->storage_ns[PHASE_OTHER],
				   .storage_longest_ns = s->storage_longest_ns,
				   .storage_at = s->storage_at,
				   .gc_ns = s->phase_ns[PHASE_GC],
				   .gc_in_ns = gc_in_ns };
}

void step_tail_set(struct step_done *s, uint64_t *gc_in_ns, const struct step_tail *t)
{
	s->gpu_wait_ns = t->gpu_wait_ns;
	s->wait_ns[PHASE_OTHER] = t->wait_ns;
	s->exposed_most_ns = t->exposed_most_ns;
	s->storage_ns[PHASE_OTHER] = t->storage_ns;
	s->storage_longest_ns = t->storage_longest_ns;
	s->storage_at = t->storage_at;
	s->phase_ns[PHASE_GC] = t->gc_ns;
	*gc_in_ns = t->gc_in_ns;
}

struct step_tail step_tail_between(const struct step_tail *then, const struct step_tail *now)
{
	bool is_longer = now->storage_longest_ns > then->storage_longest_ns;

	return (struct step_tail){ .gpu_wait_ns = now->gpu_wait_ns - then->gpu_wait_ns,
				   .wait_ns = now->wait_ns - then->wait_ns,
				   .exposed_most_ns = now->exposed_most_ns - then->exposed_most_ns,
				   .storage_ns = now->storage_ns - then->storage_ns,
				   .storage_longest_ns = is_longer ? now->storage_longest_ns : 0,
				   .storage_at = is_longer ? now->storage_at : 0,
				   .gc_ns = now->gc_ns - then->gc_ns,
				   .gc_in_ns = now->gc_in_ns - then->gc_in_ns };
}
