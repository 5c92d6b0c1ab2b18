/* SPDX-License-Identifier: Apache-2.0
 *
 * link_peers.h - a port beside the others of its kind on its host.
 */
#ifndef RANKTRACE_LINK_PEERS_H
#define RANKTRACE_LINK_PEERS_H

#include "model/port.h"

bool link_is_up(const struct port_sample *l);
/* One kind of device, one kind of link. */
bool link_is_alike(const struct port *a, const struct port *b);
/* Mb/s of most ports of its kind, where that is more than `mine`; 0: it is not. */
uint32_t link_peers_rate(const struct port *p, uint32_t mine);

#endif
