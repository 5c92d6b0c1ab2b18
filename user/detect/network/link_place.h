/* SPDX-License-Identifier: Apache-2.0
 *
 * link_place.h - where the network between hosts is bad, by what several hosts say of their own TCP paths: a host sees
 * its own, and only all together show which end they share.
 */
#ifndef RANKTRACE_DETECT_LINK_PLACE_H
#define RANKTRACE_DETECT_LINK_PLACE_H

#include "detect/detect.h"

/* Of the links over TCP in `found`: those of two hosts or more that share an end are one event at that address, their
 * root, which is put behind them where none of them is about it alone; those of one path are one event. A path that is
 * younger than that is left out for now (LINK_PLACE_WAIT_NS): by then the other hosts have said theirs. 0 or -ENOMEM.
 */
int link_places_join(struct finding_list *found, uint64_t now_ns);

#define LINK_PLACE_WAIT_NS 8000000000ull /* since its begin: a node waits 4 s before it says that it is one path */

#endif
