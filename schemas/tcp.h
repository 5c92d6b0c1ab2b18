/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - TCP connections of the ranks, as sock_diag says of them. The first word behind each header is the
 * session's own number of the connection; a number is given again once its connection is gone, and its identity is then
 * emitted anew.
 */
#ifndef RANKTRACE_SCHEMAS_TCP_H
#define RANKTRACE_SCHEMAS_TCP_H

#include "schemas/wire.h"

#define TCP_NO_VALUE (~0ull) /* in any counter: the kernel does not say */
#define TCP_CONNECTIONS_MAX 1024

enum tcp_counter {
#define TCP_COUNTER(id, name, offset, bytes) TCP_##id,
#define TCP_BESIDE(id, name) TCP_##id,
#include "schemas/tcp_counters.def"
#undef TCP_BESIDE
#undef TCP_COUNTER
	TCP_COUNTERS
};

struct record_tcp {
	struct wire_hdr hdr; /* tgid: the rank's process that has it open, the first one found */
	__u32 index;
	__u16 local_port;
	__u16 remote_port;
	__u64 inode;     /* of the socket: the name of the open file */
	__u64 cookie;    /* the kernel's own number of the socket */
	__u64 netns;     /* inode of its network namespace */
	__u16 local_len; /* bytes of text: local and remote address, netdev, each with its zero byte */
	__u16 remote_len;
	__u16 netdev_len; /* that has the local address; "" unknown */
	__u16 reserved;
	char text[];
};
_Static_assert(sizeof(struct record_tcp) == 64, "record_tcp");

enum tcp_flag {
	TCP_GONE = 1, /* closed: the last sample of this number */
	TCP_NETDEV_KNOWN = 2,
	TCP_NETDEV_UP = 4, /* its netdev is up and has carrier */
};

struct record_tcp_sample {
	struct wire_hdr hdr; /* ts: when it was reported */
	__u32 index;
	__u8 state; /* as in include/net/tcp_states.h: 1 established, 2 SYN sent, 8 the peer closed */
	__u8 flags; /* enum tcp_flag */
	__u8 n_counters;
	__u8 reserved;
	__u64 taken_ns;   /* when it was read */
	__u32 cost_us;    /* CPU time of this sample, all connections together */
	__u32 n_left_out; /* connections of the ranks that are not sampled: there are too many */
	__u64 counters[]; /* n_counters of enum tcp_counter */
};
_Static_assert(sizeof(struct record_tcp_sample) == 48, "record_tcp_sample");

#endif
