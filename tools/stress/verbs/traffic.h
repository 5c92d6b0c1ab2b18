/* SPDX-License-Identifier: Apache-2.0
 *
 * traffic.h - what the two ends of a case do: the check of data, and the measurement, in perftest's way: one post a
 * time, every hundredth signalled for a bandwidth; ping and pong for a latency. The end that starts measures.
 */
#ifndef STRESS_VERBS_TRAFFIC_H
#define STRESS_VERBS_TRAFFIC_H

#include "tools/stress/verbs/endpoint.h"

enum traffic_phase { PHASE_CHECK, PHASE_MEASURE };
enum traffic_role { ROLE_FROM, ROLE_TO }; /* who posts; who answers */

struct traffic {
	struct endpoint *e;
	const struct rdma_case *c;
	enum traffic_phase phase;
	int fd; /* of the coordinator: a word from there, or its end, ends a wait */
	struct rdma_result *result;
	uint32_t idle;           /* polls in a row that found nothing */
	uint64_t waits_since_ns; /* since when */
	bool owes_receive;       /* a latency: one was used, and is posted again while the answer is under way */
};

/* Both return -errno with the result's status and text filled, 0, or -ECANCELED where the coordinator ended it. */

/* Before the other end begins: fills memory, posts the first receives. */
int traffic_prepare(struct traffic *t, enum traffic_role role);
int traffic_from(struct traffic *t);
int traffic_to(struct traffic *t);
/* Afterwards: is what arrived here what was sent? Nothing of a latency. */
void traffic_verify(struct traffic *t, enum traffic_role role);

#endif
