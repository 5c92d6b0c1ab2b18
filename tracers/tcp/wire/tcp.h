/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - TCP connections of the ranks, as sock_diag says of them. A body stands in the record behind the header and
 * in the event, that of a sample in the model too. The first word of each is the session's own number of the
 * connection; a number is given again once its connection is gone, and its identity is then reported anew.
 */
#ifndef RANKTRACE_WIRE_TCP_H
#define RANKTRACE_WIRE_TCP_H

#include <stdint.h>

#include "schemas/wire.h"

#define TCP_NO_VALUE (~0ull) /* in any counter: the kernel does not say */
#define TCP_CONNECTIONS_MAX 1024

enum tcp_counter {
#define TCP_COUNTER(id, name, offset, bytes) TCP_##id,
#define TCP_BESIDE(id, name) TCP_##id,
#include "tracers/tcp/wire/tcp_counters.def"
#undef TCP_BESIDE
#undef TCP_COUNTER
	TCP_COUNTERS
};

struct tcp_id {
	uint32_t index;
	uint16_t local_port, remote_port;
	uint64_t inode;  /* of the socket: the name of the open file */
	uint64_t cookie; /* the kernel's own number of the socket */
	uint64_t netns;  /* inode of its network namespace */
	/* Of the record: bytes of text, each with its zero byte: local and remote address, netdev that has the local
	 * one
	 * ("" unknown). */
	uint16_t local_len, remote_len, netdev_len;
	uint16_t reserved;
};
struct record_tcp {
	struct wire_hdr hdr; /* tgid: the rank's process that has it open, the first one found */
	struct tcp_id body;
	char text[];
};
_Static_assert(sizeof(struct record_tcp) == 64, "record_tcp");

enum tcp_flag {
	TCP_GONE = 1, /* closed: the last sample of this number */
	TCP_NETDEV_KNOWN = 2,
	TCP_NETDEV_UP = 4, /* its netdev is up and has carrier */
};

struct tcp_status {
	uint32_t index;
	uint8_t state; /* as in include/net/tcp_states.h: 1 established, 2 SYN sent, 8 the peer closed */
	uint8_t flags; /* enum tcp_flag */
	uint8_t n_counters;
	uint8_t reserved;
	uint64_t taken_ns;   /* when it was read; the time of its record: when it was reported */
	uint32_t cost_us;    /* CPU time of this sample, all connections together */
	uint32_t n_left_out; /* connections of the ranks that are not sampled: there are too many */
};
struct record_tcp_sample {
	struct wire_hdr hdr;
	struct tcp_status body;
	uint64_t counters[]; /* n_counters of enum tcp_counter */
};
_Static_assert(sizeof(struct record_tcp_sample) == 48, "record_tcp_sample");

#endif
