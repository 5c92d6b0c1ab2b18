/* SPDX-License-Identifier: Apache-2.0
 *
 * event_qp.h - what events say of RDMA queue pairs: what became of one, its totals, its errors; and the addresses of
 * the host's own ports. Included by event.h.
 */
#ifndef RANKTRACE_EVENT_QP_H
#define RANKTRACE_EVENT_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "tracers/rdma/wire/qp.h"

enum { QP_RESET, QP_INIT, QP_RTR, QP_RTS, QP_SQD, QP_SQE, QP_ERR, QP_STATE_UNKNOWN = 0xff }; /* enum ibv_qp_state */

enum qp_change { QP_MADE = 1, QP_CHANGED = 2, QP_GONE = 3, QP_FOUND = 4 }; /* FOUND: it was there before */

struct qp_totals { /* since its probes were placed */
	struct qp_counts n;
	uint32_t first_status; /* ibv_wc_status of the first completion that was no success; 0 none */
	bool from_start;       /* the probes were there before it could send */
	bool cut;              /* the counts are short of what could not be walked */
};

struct qp_event {
	uint64_t context; /* struct ibv_context: address in the process; 0 not known */
	uint32_t qpn;
	const char *device; /* "" not known */
	union {
		struct { /* EV_QP */
			enum qp_change change;
			uint8_t state, type, port; /* state QP_STATE_UNKNOWN, type and port 0: not known */
			bool by_kernel;            /* by RDMA netlink, not by a probe */
			bool has_gid;              /* gid is the peer's */
			uint16_t dlid;             /* the peer's; 0 not known */
			uint32_t dest_qpn;         /* 0 not known */
			uint8_t gid[16];
		} now;
		struct qp_totals totals; /* EV_QP_TOTALS */
		struct {
			uint32_t status, vendor_error;
			const char *name;
		} error; /* EV_QP_ERROR: a completion; "transport retry exceeded" */
		struct {
			uint64_t posts, bytes, first_ns, last_ns;
		} burst; /* EV_QP_BURST: posts that are all completed now, and not before */
		struct {
			uint32_t type;
			const char *name;
		} async; /* EV_QP_ASYNC: "QP fatal error" */
		struct { /* EV_GIDS */
			uint32_t port, lid, n;
			const uint8_t (*gids)[16]; /* as long as the record */
		} own;
	};
};

#endif
