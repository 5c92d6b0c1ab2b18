/* SPDX-License-Identifier: Apache-2.0
 *
 * port.h - ports of RDMA devices, as sysfs shows them: which one it is, how it stands and counts, who has it open.
 * The first word behind each header is the session's own number of the port; it stays the same when a device goes and
 * comes.
 */
#ifndef RANKTRACE_SCHEMAS_PORT_H
#define RANKTRACE_SCHEMAS_PORT_H

#include "schemas/wire.h"

#define PORT_NO_VALUE 0xffffffffu /* in any 32-bit field below */
#define PORT_NOT_COUNTED (~0ull)  /* the provider has no such counter */
#define PORT_USERS_MAX 32

enum port_counter {
#define PORT_COUNTER(id, name) PORT_##id,
#include "schemas/port_counters.def"
#undef PORT_COUNTER
	PORT_COUNTERS
};

struct record_port { /* reported when first seen, and when something of it changes */
	struct wire_hdr hdr;
	__u32 index;
	__u32 number;    /* of the port on its device, from 1 */
	__s32 numa_node; /* -1 unknown */
	__u32 reserved;
	__u16 device_len; /* bytes of text: device, netdev, PCI address, kind, link layer, each with its zero byte */
	__u16 netdev_len;
	__u16 pci_len;
	__u16 kind_len; /* equal for ports that can be compared: vendor, device and board */
	__u16 layer_len;
	__u16 reserved2[3];
	char text[];
};
_Static_assert(sizeof(struct record_port) == 56, "record_port");

enum port_flag {
	PORT_GONE = 1, /* its device is not there any more */
	PORT_CARRIER_KNOWN = 2,
	PORT_CARRIER = 4, /* of the netdev */
	PORT_SILENT = 8,  /* a read of its files does not come back; the rest is as it was. taken_ns: since then */
};

struct record_port_sample {
	struct wire_hdr hdr; /* ts: when it was reported */
	__u32 index;
	__u8 state;      /* 1 down, 2 init, 3 armed, 4 active, 5 active deferred; 0 unknown */
	__u8 phys_state; /* 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 recovery; 0 unknown */
	__u8 flags;      /* enum port_flag */
	__u8 n_counters;
	__u64 taken_ns; /* when it was read */
	__u32 rate_mbps;
	__u32 lanes;
	__u32 netdev_mbps;
	__u32 cost_us;    /* CPU time of this sample, all ports together */
	__u64 counters[]; /* n_counters of enum port_counter */
};
_Static_assert(sizeof(struct record_port_sample) == 56, "record_port_sample");

struct record_port_users { /* ranks that have its device open */
	struct wire_hdr hdr;
	__u32 index;
	__u16 known; /* 0: not every rank's files could be listed */
	__u16 n;
	__u32 pids[PORT_USERS_MAX]; /* in the host's pid namespace */
};
_Static_assert(sizeof(struct record_port_users) == 160, "record_port_users");

#endif
