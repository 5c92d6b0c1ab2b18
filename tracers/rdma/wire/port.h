/* SPDX-License-Identifier: Apache-2.0
 *
 * port.h - ports of RDMA devices, as sysfs shows them: which one it is, how it stands and counts, who has it open. A
 * body stands in the record behind the header, in the event and in the model, the same in all three. The first word of
 * each is the session's own number of the port; it stays the same when a device goes and comes.
 */
#ifndef RANKTRACE_WIRE_PORT_H
#define RANKTRACE_WIRE_PORT_H

#include <stdint.h>

#include "schemas/wire.h"

#define PORT_NO_VALUE 0xffffffffu /* in any 32-bit field below */
#define PORT_NOT_COUNTED (~0ull)  /* the provider has no such counter */
#define PORT_USERS_MAX 32

enum port_counter {
#define PORT_COUNTER(id, name) PORT_##id,
#include "tracers/rdma/wire/port_counters.def"
#undef PORT_COUNTER
	PORT_COUNTERS
};

struct port_id { /* reported when first seen, and when something of it changes */
	uint32_t index;
	uint32_t number;   /* of the port on its device, from 1 */
	int32_t numa_node; /* -1 unknown */
	uint32_t reserved;
	/* Of the record: bytes of text, each with its zero byte: device, netdev, PCI address, kind, link layer. Equal
	 * kinds (vendor, device and board) can be compared. */
	uint16_t device_len, netdev_len, pci_len, kind_len, layer_len;
	uint16_t reserved2[3];
};
struct record_port {
	struct wire_hdr hdr;
	struct port_id body;
	char text[];
};
_Static_assert(sizeof(struct record_port) == 56, "record_port");

enum port_flag {
	PORT_GONE = 1, /* its device is not there any more */
	PORT_CARRIER_KNOWN = 2,
	PORT_CARRIER = 4, /* of the netdev */
	PORT_SILENT = 8,  /* a read of its files does not come back; the rest is as it was. taken_ns: since then */
};

struct port_status {
	uint32_t index;
	uint8_t state;      /* 1 down, 2 init, 3 armed, 4 active, 5 active deferred; 0 unknown */
	uint8_t phys_state; /* 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 recovery; 0 unknown */
	uint8_t flags;      /* enum port_flag */
	uint8_t n_counters;
	uint64_t taken_ns; /* when it was read; the time of its record: when it was reported */
	uint32_t rate_mbps, lanes, netdev_mbps;
	uint32_t cost_us; /* CPU time of this sample, all ports together */
};
struct record_port_sample {
	struct wire_hdr hdr;
	struct port_status body;
	uint64_t counters[]; /* n_counters of enum port_counter */
};
_Static_assert(sizeof(struct record_port_sample) == 56, "record_port_sample");

struct port_users { /* ranks that have its device open */
	uint32_t index;
	uint16_t known; /* 0: not every rank's files could be listed */
	uint16_t n;
	uint32_t pids[PORT_USERS_MAX]; /* in the host's pid namespace */
};
struct record_port_users {
	struct wire_hdr hdr;
	struct port_users body;
};
_Static_assert(sizeof(struct record_port_users) == 160, "record_port_users");

#endif
