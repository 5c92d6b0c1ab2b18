/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h - groups of ranks that run the same cases side by side, each in a communicator of its own: all ranks as one
 * group, the rails, the hosts, pairs, and what a bisection asks for.
 */
#ifndef STRESS_NCCL_TRIAL_H
#define STRESS_NCCL_TRIAL_H

#include "tools/stress/nccl/coordinator.h"

struct trial_group {
	int n, *ranks; /* in the order of their rank in the communicator */
	char name[80]; /* "all 8 GPUs", "rail 3" */
	bool joined;
	/* of the case that was run last: */
	enum case_status status;
	int at; /* a rank that it was first seen on; -1: none */
	char text[FAULT_TEXT];
	double seconds; /* of one operation, the mean over the ranks */
	double p99;     /* the largest of a rank */
	uint64_t bytes, wrong, checked;
	int n_wrong; /* ranks with wrong elements */
};

/* Makes the communicators. A group whose one was not made is not joined, and says why in status, at, text. */
void trial_open(struct coordinator *c, struct trial_group *groups, int n);
/* Of groups that are joined. One that does not end or fails is not joined any more. */
void trial_case(struct coordinator *c, struct trial_group *groups, int n, const struct nccl_case *of);
/* Whether the text of an error says that the host has no room for NCCL: shared memory, or memory to lock. */
bool trial_lacks_memory(const char *text);
void trial_close(struct coordinator *c, struct trial_group *groups, int n);

/* "all_reduce fp32, 1048576 bytes in place" */
const char *case_name(const struct nccl_case *c, char *text, size_t size);
/* "GPU 3 of node7 (rank 59)" */
const char *rank_name(const struct coordinator *c, int rank, char *text, size_t size);

#endif
