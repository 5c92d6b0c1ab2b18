/* SPDX-License-Identifier: Apache-2.0
 *
 * poll_rules.h - does a process need probes on what asks CUDA whether work is done (PROBES_POLLS)? Pure: at each tick
 * what the model counted of the process goes in.
 *
 * A host that waits for its GPU in each step sees the end of each operation in these waits. What it asks besides (the
 * memory of PyTorch asks for an event a dozen times a step) is answered later and proves nothing, but is two hits each
 * time, and in such a job each hit is step time.
 *
 *     wanted --- of 20 ends or more in 2 s, 1 in 20 or fewer by a query ---> not wanted
 *     not wanted --- an operation is open for 1 s (for 10 s then), or 5 minutes have passed ---> wanted
 *
 * What hangs is so asked about before it counts as a hang, and a job that changes its ways is measured anew.
 */
#ifndef RANKTRACE_POLL_RULES_H
#define RANKTRACE_POLL_RULES_H

#include <stdbool.h>
#include <stdint.h>

#define POLLS_WINDOW_NS 2000000000ull
#define POLLS_OPEN_NS 1000000000ull /* below the floor of a hang */
#define POLLS_AGAIN_NS 300000000000ull
#define POLLS_STAY_NS 10000000000ull
#define POLLS_ENDS_MIN 20
#define POLLS_WORTH 20 /* one end in so many */

struct poll_sample {
	uint64_t now_ns;
	uint64_t n_ended, n_polled; /* struct proc: ends of operations so far, and what queries proved */
	uint64_t open_since_ns;     /* enqueue of the oldest whose end was not; 0 none */
	bool probed;                /* the group is not taken or held for another reason */
};

struct poll_state {                           /* zeroed at first */
	uint64_t since_ns, n_ended, n_polled; /* when the window began */
	uint64_t until_ns;                    /* wanted, or not, at least until then */
	bool unwanted;
};

/* True: wanted. */
bool polls_wanted(struct poll_state *s, const struct poll_sample *x);

#endif
