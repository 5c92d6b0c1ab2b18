/* SPDX-License-Identifier: Apache-2.0
 *
 * event_port.h - what events say of a port of an RDMA device. Included by event.h.
 */
#ifndef RANKTRACE_EVENT_PORT_H
#define RANKTRACE_EVENT_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/port.h"

enum { PORT_STATE_UNKNOWN = 0, PORT_STATE_DOWN = 1, PORT_STATE_ACTIVE = 4 };

struct port_event {
	uint32_t index; /* the session's number of the port */
	union {
		struct {
			uint32_t number; /* on its device */
			int numa_node;   /* -1 unknown */
			const char *device, *netdev, *pci, *kind,
				*layer; /* "" none or unknown; equal kinds can be compared */
		} id;
		struct {
			uint64_t taken_ns;
			uint8_t state, phys_state;                       /* as in record_port_sample */
			bool gone, silent, carrier_known, carrier;       /* silent: no answer since taken_ns */
			uint32_t rate_mbps, lanes, netdev_mbps, cost_us; /* PORT_NO_VALUE */
			uint32_t n_counters;
			const uint64_t *counters; /* of enum port_counter; as long as the record */
		} sample;
		struct {
			bool known;
			uint32_t n;
			const uint32_t *pids;
		} users; /* pids: as long as the record */
	};
};

const char *port_counter_name(enum port_counter counter); /* "out_of_sequence" */

#endif
