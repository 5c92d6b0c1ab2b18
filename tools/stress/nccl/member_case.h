/* SPDX-License-Identifier: Apache-2.0
 *
 * member_case.h - a rank's part of one measurement: operands, the timed operations, the check of every element.
 */
#ifndef STRESS_NCCL_MEMBER_CASE_H
#define STRESS_NCCL_MEMBER_CASE_H

#include "tools/stress/nccl/member.h"
#include "tools/stress/nccl/wire.h"
#include "tools/stress/run.h"

struct member {
	struct member_place place;
	struct stress_run *run;
	struct stress_gpu *gpu;
	struct nccl nccl;
	void *comm;
	int n, rank; /* of the group that it is in */
	uint64_t limit_ns;
	bool broken; /* this process cannot go on */
	int status;  /* the exit status of all, once it was sent; -1 */
	cuda_ptr send, recv, errors;
	uint64_t room; /* bytes of send and recv, each */
};

/* member_traced.c: waits until the tracer's probes stand in NCCL's functions, or for 15 s. */
void member_traced_wait(const struct member *m);
/* Sends the result. */
void member_case(struct member *m, const struct nccl_case *c);
/* What an error of NCCL's comes to, with its text. */
enum case_status member_nccl_error(struct member *m, int error, const char *call, char text[FAULT_TEXT]);

#endif
