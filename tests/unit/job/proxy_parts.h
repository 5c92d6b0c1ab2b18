/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_parts.h - made-up readings of one end of a connection of NCCL's proxies, for the tests of links and of stuck
 * jobs.
 */
#ifndef RANKTRACE_PROXY_PARTS_H
#define RANKTRACE_PROXY_PARTS_H

#include "event.h"

enum { STEPS = 64, OP = 40 };

static inline struct proxy_part part(bool send, uint64_t posted, uint64_t received, uint64_t transmitted, uint64_t done)
{
	return (struct proxy_part){ .op_count = OP,
				    .posted = posted,
				    .received = received,
				    .flushed = received,
				    .transmitted = transmitted,
				    .done = done,
				    .nsteps = STEPS,
				    .flags = send ? PROXY_SEND : 0,
				    .transport = 2,
				    .state = 2,
				    .coll = OP_ALLREDUCE };
}

static inline struct proxy_part sending(uint64_t posted, uint64_t transmitted, uint64_t done)
{
	return part(true, posted, 0, transmitted, done);
}

static inline struct proxy_part receiving(uint64_t posted, uint64_t received, uint64_t given, uint64_t done)
{
	return part(false, posted, received, given, done);
}

static inline struct proxy_part queued(bool send)
{
	struct proxy_part p = part(send, 0, 0, 0, 0);

	p.state = 1;
	return p;
}

#endif
