/* SPDX-License-Identifier: Apache-2.0
 *
 * link_loss.c - see link_loss.h.
 */
#include "detect/network/link_loss.h"

#define LOST_MIN 3            /* in a window, and */
#define LOST_SHARE 1e-2       /* of the packets that went that way: bursts on busy links come to less; */
#define WINDOWS_MIN 2         /* in so many windows: one burst is a burst */
#define BYTES_PER_PACKET 1024 /* where packets are not counted */

static bool is_lost(const struct port_sample *now, const struct port_sample *before, enum port_counter lost,
		    enum port_counter packets, enum port_counter bytes)
{
	uint64_t n = port_grown(now, before, lost), of = port_grown(now, before, packets);

	of = of ? of : port_grown(now, before, bytes) / BYTES_PER_PACKET;
	return n >= LOST_MIN && n >= LOST_SHARE * of;
}

static int windows(const struct link_loss *l, bool sent)
{
	int n = 0;

	for (int i = 0; i < LOSS_WINDOWS; i++)
		n += sent ? l->lost[i].sent : l->lost[i].received;
	return n;
}

bool link_loss_take(struct link_loss *l, const struct port_sample *now, const struct port_sample *before, bool reorders)
{
	int at = l->n++ % LOSS_WINDOWS;
	int sent, received;

	l->lost[at].sent = is_lost(now, before, PORT_SEQUENCE_NAKS, PORT_SENT_PACKETS, PORT_SENT_BYTES);
	l->lost[at].received =
		!reorders && is_lost(now, before, PORT_OUT_OF_SEQUENCE, PORT_RECEIVED_PACKETS, PORT_RECEIVED_BYTES);
	sent = windows(l, true);
	received = windows(l, false);
	if (sent < WINDOWS_MIN && received < WINDOWS_MIN)
		return false;
	l->of_sent = sent >= received;
	return true;
}
