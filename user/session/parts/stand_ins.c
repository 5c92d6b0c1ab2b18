/* SPDX-License-Identifier: Apache-2.0
 *
 * stand_ins.c - see stand_ins.h.
 */
#include "session/parts/stand_ins.h"

void stand_ins_tick(struct session_targets *t, const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->dead && proc_ranges_suffice(p))
			session_targets_ranges(t, p->tgid);
}
