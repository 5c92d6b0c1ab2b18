/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.h - what the agents of the simulated hosts report of the job, once a second each: the messages of
 * schemas/cluster.proto, with the error of what is read from outside, and the network's delays and losses.
 */
#ifndef RANKTRACE_SIMCLUSTER_AGENT_H
#define RANKTRACE_SIMCLUSTER_AGENT_H

#include <stdint.h>

#include "tools/simcluster/fault.h"

struct noise {
	double skew_s;    /* of two hosts' clocks, and as much that the ways of two hosts differ */
	double drift;     /* 20e-6 */
	double error_s;   /* of the inferred end of an operation; INFINITY: no end is known */
	double loss;      /* share of messages */
	double lag_s;     /* an agent is so late at the most */
	double late_s;    /* agents are started so long after the fault struck; 0: before the job */
	double upgrade_s; /* so long after it all agents are started anew; 0: they are not */
	bool asleep;      /* hosts sleep while they wait for their GPU, else they spin */
	bool calls;       /* probes are on: entered, reached, completed; else counters alone */
	bool capped;      /* GPUs are at their power cap, where their clocks go up and down */
};

struct agents;

/* NULL: no memory. Borrows the cluster. */
struct agents *agents_new(const struct cluster *c, const struct noise *n, uint64_t seed);
void agents_free(struct agents *a);
/* From now on other noise and another seed: after a fork. */
void agents_reseed(struct agents *a, uint64_t seed);

/* Hosts of another boot: what comes is not taken for what an earlier simulation said. Kept, not copied. */
void agents_boot(struct agents *a, const char *boot_id);

struct delivery {    /* a message that arrives */
	double at_s; /* at the bus */
	int host;
	const char *name; /* of the host, as the subject has it */
	const void *data;
	size_t len;
};

typedef int deliver(void *to, const struct delivery *d);

/* Those hosts whose turn comes in [from_s, to_s), which lies in the cluster's present step, write their messages, and
 * what arrives by then is delivered, in the order of arrival. `f`: who is silent. 0, -ENOMEM, or what `each` returned.
 */
int agents_run(struct agents *a, const struct fault *f, double from_s, double to_s, deliver *each, void *to);
/* Bytes of all messages so far, and how many; of those how many were lost. */
void agents_totals(const struct agents *a, uint64_t *ret_bytes, uint64_t *ret_n, uint64_t *ret_lost);

#endif
