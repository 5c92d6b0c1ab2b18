/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.h - of the ranks of a job: has each a process that is seen, and to which host does one without belong? Ranks
 * are counted host by host: one between two of a host is on that host, too.
 */
#ifndef RANKTRACE_HOMES_H
#define RANKTRACE_HOMES_H

#include "model/ahead.h"

struct home {
	bool has_process;        /* on a host that is heard */
	const struct node *host; /* without one: where its neighbours' local ranks leave room for it, and all ranks are
				  * asked for; NULL: not known */
};

/* By rank, 0 to nranks - 1; free() it. NULL: no memory. */
struct home *homes_find(const struct model *m, int nranks);

#endif
