/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_proxies.h - how far the network transfers of one process' communicators are, as records.
 */
#ifndef RANKTRACE_COMM_PROXIES_H
#define RANKTRACE_COMM_PROXIES_H

#include "tracers/nccl/comm_places.h"

/*
 * One sample of the proxies of all communicators of the process; behind the sample of the communicators themselves, of
 * which it emits only those that are the generation known. Where the layout is not known, or two communicators share
 * one proxy (whose operation is whose?), nothing is reported. `ret`: what was seen. 0, what emit() returned, -ENOMEM or
 * -EPIPE.
 */
struct proxies_seen {
	bool any;  /* one has a progress thread: its communicator reaches over a network */
	bool busy; /* something is on its way: handed to the network, and not through */
};
int comm_proxies_sample(struct comm_places *c, struct reader *r, uint32_t tgid,
			int (*emit)(void *to, const struct wire_hdr *rec), void *to, struct proxies_seen *ret);

#endif
