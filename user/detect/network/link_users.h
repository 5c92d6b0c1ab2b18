/* SPDX-License-Identifier: Apache-2.0
 *
 * link_users.h - whose port it is, as evidence: no rank is at fault for using a device.
 */
#ifndef RANKTRACE_LINK_USERS_H
#define RANKTRACE_LINK_USERS_H

#include "detect/detect.h"

enum link_use { LINK_USE_RANKS, LINK_USE_UNKNOWN, LINK_USE_NONE };

/* RANKS: "ranks_using", "pids_using". UNKNOWN: their files could not be listed, "ranks_may" has all ranks. NONE:
 * nothing is noted. */
enum link_use link_users_note(struct finding *f, const struct model *m, const struct port *p,
			      struct finding_list *found);

#endif
