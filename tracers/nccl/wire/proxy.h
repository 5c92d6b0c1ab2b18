/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.h - a sample of NCCL's proxy: how far a communicator's transfers over the network are. The body of the record,
 * and the event's; the model keeps those that are parts.
 */
#ifndef RANKTRACE_WIRE_PROXY_H
#define RANKTRACE_WIRE_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/wire.h"

/* A sample of a communicator's proxy is one of these with `n`, and right behind it one for each of the n parts. */
enum proxy_flag {
	PROXY_SAMPLE = 1 /* begins a sample; has no part */,
	PROXY_SEND = 2,
	PROXY_MOVING = 4 /* it changed all the while: n is 0 */
};

struct proxy_part {        /* a connection's part of one operation */
	uint64_t comm;     /* address of the ncclComm */
	uint64_t op_count; /* NCCL's number of the operation */
	uint64_t base;     /* from here on ncclProxySubArgs: steps, counted from `base` of the connection */
	uint64_t posted, received, flushed, transmitted, done;
	int32_t nsteps, channel;
	int32_t peer;                      /* rank in the communicator */
	uint32_t queued;                   /* operations behind it on the same connection */
	uint32_t n;                        /* PROXY_SAMPLE: parts that follow */
	uint32_t thread;                   /* PROXY_SAMPLE: tid of the progress thread, 0 not known */
	uint8_t flags;                     /* of enum proxy_flag */
	uint8_t transport;                 /* TRANSPORT_P2P 0, SHM 1, NET 2, COLLNET 3 */
	uint8_t coll, algorithm, protocol; /* ncclFunc_t, NCCL_ALGO_*, NCCL_PROTO_*; 255 not known */
	uint8_t state;                     /* ncclProxyOpState: 1 not begun, 2 at work */
	uint8_t reserved[2];
};
struct record_proxy {        /* ts: behind the read */
	struct wire_hdr hdr; /* tgid */
	struct proxy_part body;
};
_Static_assert(sizeof(struct record_proxy) == 120, "record_proxy");

static inline bool proxy_part_sends(const struct proxy_part *p)
{
	return p->flags & PROXY_SEND;
}

#endif
