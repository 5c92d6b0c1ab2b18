/* SPDX-License-Identifier: Apache-2.0
 *
 * links.c - the table of links.h.
 */
#include "detect/transfer/links.h"

#define STATE_READY 1 /* ncclProxyOpReady: queued, its connection has not come to it */

static bool begun(const struct proxy_part *p)
{
	return p->state > STATE_READY;
}

static bool posts_nothing(const struct proxy_part *p)
{
	return begun(p) && p->posted == p->done && p->posted < (uint64_t)p->nsteps;
}

static enum link_side receiver_judge(const struct proxy_part *recv)
{
	if (!begun(recv) || recv->received > recv->transmitted || posts_nothing(recv))
		return LINK_RECEIVER;
	return LINK_QUIET;
}

/* The receiver has all, or has not taken the operation up. */
static enum link_side alone_judge(const struct proxy_part *send)
{
	if (!begun(send))
		return LINK_SENDER;
	return send->transmitted < (uint64_t)send->nsteps ? LINK_RECEIVER : LINK_SENDER;
}

enum link_side link_delaying_side(const struct proxy_part *send, const struct proxy_part *recv)
{
	uint64_t handed;

	if (!recv)
		return alone_judge(send);
	handed = !send ? (uint64_t)recv->nsteps : begun(send) ? send->transmitted : 0;
	if (begun(recv) && handed > recv->received && recv->posted > recv->received)
		return LINK_NETWORK;
	if (receiver_judge(recv) != LINK_QUIET)
		return LINK_RECEIVER;
	if (!send)
		return LINK_QUIET;
	if (!begun(send) || posts_nothing(send) ||
	    (send->done < send->transmitted && recv->received >= send->transmitted))
		return LINK_SENDER;
	return LINK_QUIET;
}
