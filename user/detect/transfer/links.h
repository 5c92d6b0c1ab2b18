/* SPDX-License-Identifier: Apache-2.0
 *
 * links.h - one connection of a collective seen from both ends: does the sender, the receiver or what lies between them
 * hold it up, or does it only wait for others? By NCCL's proxy counters (steps of one operation).
 *
 *   sender                        receiver                          the link
 *   ------------------------------------------------------------------------------------------------------------
 *   handed over more than came    has posted buffers for more       NETWORK: it is on its way, and does not arrive
 *   over (or not begun)           has posted buffers for more       NETWORK
 *   handed over more than came    no buffer posted, its GPU has     QUIET: waits for the receiver's GPU
 *                                 the rest
 *   any                           came, and not given to the GPU    RECEIVER
 *   any                           no buffer posted, and could       RECEIVER
 *   any                           not begun                         RECEIVER
 *   no buffer posted, and could   nothing on its way                SENDER
 *   not begun                     nothing on its way                SENDER
 *   handed over, all came, and    -                                 SENDER
 *   it does not see it
 *   nothing more to hand over     all came that was handed over     QUIET: waits for the sender's GPU
 *   over                          over                              QUIET
 *
 * "could": all that it posted is done, and it is not the last. "over": all steps were handed over, or came.
 */
#ifndef RANKTRACE_LINKS_H
#define RANKTRACE_LINKS_H

#include "event.h"

enum link_side { LINK_QUIET, LINK_SENDER, LINK_NETWORK, LINK_RECEIVER };

/* `send`, `recv`: both ends of the connection in one operation; NULL: over, or not taken up. Not both NULL. */
enum link_side link_delaying_side(const struct proxy_part *send, const struct proxy_part *recv);

#endif
