/* SPDX-License-Identifier: Apache-2.0
 *
 * qps_wire.h - queue pairs of RDMA devices as the kernel's RDMA netlink lists them, for those that were made before
 * the session began; and the addresses of the host's own ports, by which a queue pair's peer is known to be one of this
 * host. The first word behind each header is a number of the session's own: the device's, with the queue pair's or the
 * port's.
 */
#ifndef RANKTRACE_QPS_WIRE_H
#define RANKTRACE_QPS_WIRE_H

#include "schemas/wire.h"

#define RECORD_QP_DEVICE_LEN 32
#define RECORD_QP_STATE_GONE 0xfe /* the kernel lists it no more */
#define RECORD_GIDS_MAX 16

struct record_qp {           /* reported when first seen, and when something of it changes */
	struct wire_hdr hdr; /* tgid: who made it */
	__u64 number;
	__u32 qpn, dest_qpn; /* dest_qpn 0: none, or not known */
	__u8 state;          /* enum ibv_qp_state; RECORD_QP_STATE_GONE */
	__u8 type;           /* enum ibv_qp_type */
	__u8 port;           /* 0 not known */
	__u8 reserved[5];
	char device[RECORD_QP_DEVICE_LEN];
};
_Static_assert(sizeof(struct record_qp) == 80, "record_qp");

struct record_gids { /* of one port */
	struct wire_hdr hdr;
	__u64 number;
	__u32 port;
	__u16 lid; /* 0 none */
	__u16 n;
	char device[RECORD_QP_DEVICE_LEN];
	__u8 gids[RECORD_GIDS_MAX][16];
};
_Static_assert(sizeof(struct record_gids) == 328, "record_gids");

#endif
