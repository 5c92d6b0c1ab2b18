/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_ring.h - four ranks on a ring, channel 0, in operation OP since five seconds, all proxies polling, as plain
 * structs. One link stalls: from rank 1 to 2. Of one test program.
 */
#ifndef RANKTRACE_STALLED_RING_H
#define RANKTRACE_STALLED_RING_H

#include "detect/transfer/stalled_transfer.h"
#include "tests/unit/job/hand_job.h"
#include "tests/unit/job/proxy_parts.h"

enum { RANKS = HAND_RANKS, SEND = 0, RECV = 1, MORE = 2 };
#define SEEN_NS (NOW - 500 * MSEC)
#define SINCE_NS (NOW - 5 * SEC)

static struct proxy_part parts[RANKS][4];
static struct stalled_transfer got;

static inline struct proxy_part placed(struct proxy_part p, int peer, int channel)
{
	p.peer = peer;
	p.channel = channel;
	return p;
}

static inline void poll_all(struct task *t)
{
	t->state = TASK_ON_CPU;
	t->since_ns = SEEN_NS - SEC;
	t->prev_seen_ns = SEEN_NS - SEC;
	t->seen_ns = SEEN_NS;
	t->run_ns = 900 * MSEC;
}

static inline int setup(void **state)
{
	hand_setup(state);
	for (int r = 0; r < RANKS; r++) {
		members[r].samples =
			(struct samples){ .n = 9, .counted = true, .seen_ns = SEEN_NS, .since_ns = SINCE_NS };
		members[r].proxies = (struct proxies){
			.n_samples = 9, .n = 2, .parts = parts[r], .seen_ns = SEEN_NS, .since_ns = SINCE_NS
		};
		members[r].entered_seq[SEQ_COLL] = 21;
		memset(parts[r], 0, sizeof(parts[r]));
		parts[r][SEND] = placed(sending(32, 24, 24), (r + 1) % RANKS, 0);
		parts[r][RECV] = placed(receiving(32, 24, 24, 24), (r + RANKS - 1) % RANKS, 0);
		poll_all(&proxies[r]);
		mains[r].seen_ns = SEEN_NS;
	}
	parts[1][SEND] = placed(sending(32, 32, 24), 2, 0); /* on its way, and does not come */
	memset(&got, 0xff, sizeof(got));
	return 0;
}

static inline bool found(void)
{
	return stalled_transfer_find(&m, &comm, &got);
}

static inline bool proven(void)
{
	return stalled_transfer_proven(&m, &got);
}

static inline void no_operation(int r)
{
	members[r].proxies.n = 0;
}

static inline void asleep(int r)
{
	proxies[r].state = TASK_SLEEP;
	proxies[r].since_ns = SEEN_NS - SEC;
}

#endif
