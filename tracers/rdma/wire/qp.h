/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * qp.h - what a queue pair posted and completed since its probes were placed: the same in the record, in the event, in
 * the model and in a snapshot.
 */
#ifndef RANKTRACE_WIRE_QP_H
#define RANKTRACE_WIRE_QP_H

#include "schemas/wire.h"

struct qp_counts {
	__u64 posts, post_bytes, signalled, recv_posts;
	__u64 send_done, recv_done, recv_bytes, errors;
	__u64 first_post_ns, last_post_ns, last_done_ns;
	__u64 in_flight_bytes; /* posted, and no completion at or behind them yet; ~0 unknown */
};
_Static_assert(sizeof(struct qp_counts) == 96, "qp_counts");

#endif
