/* SPDX-License-Identifier: Apache-2.0
 *
 * children.h - what those children of a rank did that are too young, or too dead, for two scans: an epoch's data
 * workers, a compiler's processes. To begin or to end is no work: a rank that hangs may have a thread that starts a
 * health check every now and then.
 */
#ifndef RANKTRACE_CHILDREN_H
#define RANKTRACE_CHILDREN_H

#include "model/ahead.h"

struct children {
	double cpu_share; /* cores */
	double io_bytes_s;
	bool unknown; /* one began a moment ago, and no scan has seen yet what it does */
};

/* Since the rank is late (`since_ns`); a child with two scans since then is not counted: its totals say more. */
struct children children_read(const struct model *m, const struct proc *p, uint64_t since_ns);

#endif
