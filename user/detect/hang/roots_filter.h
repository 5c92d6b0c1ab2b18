/* SPDX-License-Identifier: Apache-2.0
 *
 * roots_filter.h - roots that may be waiters: takes the roots of wait_roots.h, and leaves those that are none, as far
 * as that can be known.
 */
#ifndef RANKTRACE_ROOTS_FILTER_H
#define RANKTRACE_ROOTS_FILTER_H

#include "detect/hang/wait_roots.h"

/* Send and Recv are in no counter: a rank that waits in one looks like a root. Of several roots those go whose main
 * thread sits where that of a waiting rank sits, if others remain; else any may be the root, and their confidence
 * drops. So it does for a single one that shares a communicator with ranks that are not seen: it may wait for those. */
int roots_filter(const struct model *m, struct wait_roots *found); /* 0 or -ENOMEM */

#endif
