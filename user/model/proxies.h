/* SPDX-License-Identifier: Apache-2.0
 *
 * proxies.h - what looks at NCCL's proxy from outside showed of one member of a communicator.
 */
#ifndef RANKTRACE_MODEL_PROXIES_H
#define RANKTRACE_MODEL_PROXIES_H

#include "event.h"

#define PROXY_PARTS_KEPT 256

/* How far the member's transfers over the network are: the newest look at NCCL's proxy that is whole. */
struct proxies {
	uint64_t n_looks;     /* 0 never */
	uint64_t seen_ns;     /* the newest */
	uint64_t since_ns;    /* the first that showed these very numbers: nothing moved since, if seen_ns is later */
	bool moved;           /* they changed between two looks */
	uint32_t thread;      /* tid of the progress thread; 0 not known */
	int n;                /* parts at work or queued first */
	struct proxy_part *parts; /* [n] */
};

/* proxy.c, for the model itself */
struct model;
struct member_own;
int proxy_apply(struct model *m, const struct event *e); /* PROXY */
void proxies_free(struct member_own *mb);

#endif
