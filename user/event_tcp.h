/* SPDX-License-Identifier: Apache-2.0
 *
 * event_tcp.h - what events say of a TCP connection of a rank. Included by event.h.
 */
#ifndef RANKTRACE_EVENT_TCP_H
#define RANKTRACE_EVENT_TCP_H

#include "tracers/tcp/wire/tcp.h"

union tcp_event {       /* the event's tgid: who has it open; of an identity only */
	uint32_t index; /* the session's number of the connection: the first word of both */
	struct {
		struct tcp_id id;
		const char *local, *remote, *netdev; /* addresses; netdev "" unknown */
	};
	struct {
		struct tcp_status sample; /* n_counters is TCP_COUNTERS at most */
		const uint64_t *counters; /* of enum tcp_counter; as long as the record */
	};
};

const char *tcp_counter_name(enum tcp_counter counter); /* "bytes_sent" */

#endif
