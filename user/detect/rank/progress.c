/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - see progress.h.
 */
#include "detect/rank/progress.h"

#include "base/larger.h"
#include "known_phase.h"

/* The newest look at its process, which shows all of its communicators, did not show it. */
static bool is_missed(const struct member *mb)
{
	return mb->samples.n && !mb->last_call_ns && mb->samples.round != mb->proc->sample_rounds;
}

/* That a communicator is met is no sign: it may be minutes old. */
static void member_read(struct progress *g, const struct member *mb)
{
	const struct samples *s = &mb->samples;

	if (mb->gone || is_missed(mb))
		g->given_up_ns = larger(g->given_up_ns, s->seen_ns);
	if (mb->gone)
		g->changed_ns = larger(g->changed_ns, s->seen_ns);
	else
		g->went_on_ns = larger(g->went_on_ns, larger(mb->last_call_ns, s->moved ? s->since_ns : 0));
}

void progress_read(struct progress *g, const struct proc *p)
{
	g->changed_ns = larger(g->changed_ns, larger(p->dead ? p->exit_ns : p->first_ns, p->last_call_ns));
	if (p->dead)
		g->died_ns = larger(g->died_ns, p->exit_ns);
	for (const struct member *mb = p->dead ? NULL : p->members; mb; mb = member_next_in_proc(mb))
		member_read(g, mb);
	g->changed_ns = larger(g->changed_ns, g->went_on_ns);
}

/* A communicator that is given up soon is one that the program makes anew; later it may be a watchdog that ends it. */
bool progress_by_itself(const struct progress *g, uint64_t since_ns, uint64_t now_ns)
{
	return g->died_ns <= since_ns && (g->given_up_ns <= since_ns || now_ns < since_ns + PHASE_TWICE_NS);
}
