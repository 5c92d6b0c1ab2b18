/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_print.c - see clock_print.h.
 */
#include "sink/clock_print.h"

#include <inttypes.h>
#include <stdio.h>

void clock_print(const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (p->steps && p->leader == p && p->rank >= 0)
			printf("{\"rank\":%d,\"pid\":%u,\"period_ops\":%zu,\"iterations\":%" PRIu64
			       ",\"median_s\":%.6f}\n",
			       p->rank, p->tgid, p->steps->period_ops, p->steps->n, p->steps->median_s);
}
