/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_wire.h - the record of a sample of NCCL's proxy.
 */
#ifndef RANKTRACE_PROXY_WIRE_H
#define RANKTRACE_PROXY_WIRE_H

#include "schemas/wire.h"

/* A sample of a communicator's proxy is one of these with `n`, and right behind it one for each of the n parts. */
enum record_proxy_flag {
	PROXY_SAMPLE = 1 /* begins a sample; has no part */,
	PROXY_SEND = 2,
	PROXY_MOVING = 4 /* it changed all the while: n is 0 */
};

struct record_proxy {        /* ts: behind the read */
	struct wire_hdr hdr; /* tgid */
	__u64 comm;          /* address of the ncclComm */
	__u64 op_count;      /* NCCL's number of the operation */
	__u64 base;          /* from here on ncclProxySubArgs: steps, counted from `base` of the connection */
	__u64 posted, received, flushed, transmitted, done;
	__s32 nsteps, channel;
	__s32 peer;                     /* rank in the communicator */
	__u32 queued;                   /* operations behind it on the same connection */
	__u32 n;                        /* PROXY_SAMPLE: parts that follow */
	__u32 thread;                   /* PROXY_SAMPLE: tid of the progress thread, 0 not known */
	__u8 flags;                     /* of enum record_proxy_flag */
	__u8 transport;                 /* TRANSPORT_P2P 0, SHM 1, NET 2, COLLNET 3 */
	__u8 coll, algorithm, protocol; /* ncclFunc_t, NCCL_ALGO_*, NCCL_PROTO_*; 255 not known */
	__u8 state;                     /* ncclProxyOpState: 1 not begun, 2 at work */
	__u8 reserved[2];
};
_Static_assert(sizeof(struct record_proxy) == 120, "record_proxy");

#endif
