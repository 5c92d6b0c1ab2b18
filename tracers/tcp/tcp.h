/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * tcp.h - records of tracer tcp: what went wrong on a TCP connection of a target. Kernel side and collector share it.
 */
#ifndef RANKTRACE_TRACER_TCP_H
#define RANKTRACE_TRACER_TCP_H

#include "schemas/wire.h"

enum tcp_kind {
	TCP_SENT_AGAIN = 1, /* segments, `n` of them since the socket's last such record */
	TCP_ENDED = 2,      /* it went from `state` to closed without the farewell of TCP */
	TCP_RESET_CAME = 3,
	TCP_RESET_WENT = 4, /* from here, for a socket of this process */
};

#define TCP_AGAIN_EVERY_NS 100000000ull /* of one socket: a lossy link has thousands a second */

struct tcp_record { /* tgid: the process that has the socket; tid the same: it happens in no process' context */
	struct wire_hdr hdr;
	__u16 family; /* AF_INET or AF_INET6 */
	__u16 local_port, remote_port;
	__u8 state; /* as in include/net/tcp_states.h, before it */
	__u8 reserved;
	__u32 n;
	__u32 error;                /* errno the process will get; 0 none */
	__u8 local[16], remote[16]; /* IPv4: the first four bytes */
};
_Static_assert(sizeof(struct tcp_record) == 72, "tcp_record");

struct tcp_owner { /* of a socket, by its address in the kernel */
	__u32 tgid;
	__u32 n; /* segments sent again since it was reported */
	__u64 emitted_ns;
};

struct tcp_listener_key {
	__u64 net;
	__u32 port;
	__u32 reserved;
};
struct tcp_sample {
	__u64 sk;
}; /* a row of the iterator */

#endif
