/* SPDX-License-Identifier: Apache-2.0
 *
 * link_loss.h - packets of a port that did not arrive, for a job that each loss delays for so long (a timeout of
 * NCCL's queue pairs is 4 s) that few seconds have any. Counted is what a living far end alone can make: a gap that the
 * receiver saw, a NAK that came back. Timeouts are not: a dead process makes them, too.
 */
#ifndef RANKTRACE_LINK_LOSS_H
#define RANKTRACE_LINK_LOSS_H

#include "model/port.h"

#define LOSS_WINDOWS 12 /* of a second: two or three timeouts */

struct link_loss { /* a ring, by window */
	uint64_t n;
	struct {
		bool sent, received;
	} lost[LOSS_WINDOWS];
	bool of_sent; /* when it was last so: what this port sent is what was lost; else what was sent to it */
};

/* One window. `reorders`: gaps are no loss. True: again and again a share of the packets that no healthy link loses. */
bool link_loss_take(struct link_loss *l, const struct port_sample *now, const struct port_sample *before,
		    bool reorders);

#endif
