/* SPDX-License-Identifier: Apache-2.0
 *
 * member.h - a process that is one rank: it has one GPU, and does what the coordinator says. What cannot be undone in a
 * process, a communicator that hangs or a broken context, it leaves by becoming the same program anew, on the same
 * connection.
 */
#ifndef STRESS_NCCL_MEMBER_H
#define STRESS_NCCL_MEMBER_H

#include "tools/stress/options.h"

/* Set: this process is such a rank. "fd:rank:size:number on its host:forced" */
#define MEMBER_VARIABLE "RANKTRACE_STRESS_MEMBER"
#define MEMBER_LIBRARY "RANKTRACE_STRESS_NCCL"

/* Set: the file that gets what ranks issued, "AllReduce CALLS BYTES" a line; and each rank waits for the tracer. */
#define ISSUED_VARIABLE "RANKTRACE_STRESS_ISSUED"

struct member_place {
	int fd, rank, size, local, forced;
};

/* Becomes a rank; returns only where that is not possible: -errno. */
int member_become(const struct member_place *place, const char *library);
/* What the process of a rank does: its exit status, which is the test's. */
int member_main(const char *variable);

#endif
