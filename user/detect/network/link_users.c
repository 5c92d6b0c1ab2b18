/* SPDX-License-Identifier: Apache-2.0
 *
 * link_users.c - see link_users.h.
 */
#include "detect/network/link_users.h"

#include "detect/phrase.h"

#define DEAD_NS 60000000000ull /* who died of it has it still */

static bool is_rank(const struct model *m, const struct proc *p)
{
	return !p->is_child && proc_rank(p) >= 0 && (!p->dead || m->now_ns < p->exit_ns + DEAD_NS);
}

/* As text, and how many: of those that use it, or (`all`) of everybody's. */
static int ranks_text(const struct model *m, const struct port *port, bool all, char *ranks, char *pids, size_t size)
{
	int n = 0;

	*ranks = *pids = 0;
	for (const struct proc *p = m->procs; p; p = proc_next(p)) {
		if (!is_rank(m, p) || p->node != port->node || (!all && !port_carries(m, port, p)))
			continue;
		phrase_list(ranks, size, proc_rank(p));
		phrase_list(pids, size, p->tgid);
		n++;
	}
	return n;
}

enum link_use link_users_note(struct finding *f, const struct model *m, const struct port *p,
			      struct finding_list *found)
{
	char ranks[256], pids[256];

	if (ranks_text(m, p, false, ranks, pids, sizeof(ranks))) {
		finding_note_text(f, EVIDENCE_RANKS_USING, finding_list_text(found, ranks));
		finding_note_text(f, EVIDENCE_PIDS_USING, finding_list_text(found, pids));
		return LINK_USE_RANKS;
	}
	if (p->users.known || !ranks_text(m, p, true, ranks, pids, sizeof(ranks)))
		return LINK_USE_NONE;
	finding_note_text(f, EVIDENCE_RANKS_MAY, finding_list_text(found, ranks));
	return LINK_USE_UNKNOWN;
}
