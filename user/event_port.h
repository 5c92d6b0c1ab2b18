/* SPDX-License-Identifier: Apache-2.0
 *
 * event_port.h - what events say of a port of an RDMA device. Included by event.h.
 */
#ifndef RANKTRACE_EVENT_PORT_H
#define RANKTRACE_EVENT_PORT_H

#include "tracers/rdma/wire/port.h"

enum { PORT_STATE_UNKNOWN = 0, PORT_STATE_DOWN = 1, PORT_STATE_ACTIVE = 4 };

union port_event {
	uint32_t index; /* the session's number of the port: the first word of all of them */
	struct {
		struct port_id id;
		const char *device, *netdev, *pci, *kind, *layer; /* "" none or unknown */
	};
	struct {
		struct port_status sample; /* n_counters is PORT_COUNTERS at most */
		const uint64_t *counters;  /* of enum port_counter; as long as the record */
	};
	struct port_users users; /* n is PORT_USERS_MAX at most */
};

const char *port_counter_name(enum port_counter counter); /* "out_of_sequence" */

#endif
