/* SPDX-License-Identifier: Apache-2.0
 *
 * event_tcp.h - what events say of a TCP connection of a rank. Included by event.h.
 */
#ifndef RANKTRACE_EVENT_TCP_H
#define RANKTRACE_EVENT_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/tcp.h"

struct tcp_event {      /* the event's tgid: who has it open; of an identity only */
	uint32_t index; /* the session's number of the connection, given again */
	union {
		struct {
			uint64_t inode, cookie, netns;
			const char *local, *remote, *netdev; /* addresses; netdev "" unknown */
			uint16_t local_port, remote_port;
		} id;
		struct {
			uint64_t taken_ns;
			uint8_t state;
			bool gone, netdev_known, netdev_up;
			uint32_t cost_us, n_left_out, n_counters;
			const uint64_t *counters; /* of enum tcp_counter; as long as the record */
		} sample;
	};
};

const char *tcp_counter_name(enum tcp_counter counter); /* "bytes_sent" */

#endif
