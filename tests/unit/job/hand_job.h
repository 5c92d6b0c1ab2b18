/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_job.h - HAND_RANKS ranks of one communicator, each a process with a main thread and NCCL's progress thread, as
 * plain structs: tests of one function set the fields that it reads. hand_setup() before each test. Of one program.
 */
#ifndef RANKTRACE_HAND_JOB_H
#define RANKTRACE_HAND_JOB_H

#include <string.h>

#include "model/model.h"

#ifndef HAND_RANKS
#define HAND_RANKS 4
#endif

#define SEC 1000000000ull
#define MSEC 1000000ull
#define NOW (1000 * SEC)
#define HAND_PID(r) (100u + (r))

static const char hand_names[2];
static struct job_id *const hand_job = (struct job_id *)hand_names;
static struct job_id *const hand_other_job = (struct job_id *)(hand_names + 1);
static struct node node;
static struct node *nodes[] = { &node };
static struct comm comm;
static struct member members[HAND_RANKS], *by_rank[HAND_RANKS];
static struct proc procs[HAND_RANKS];
static struct task mains[HAND_RANKS], proxies[HAND_RANKS];
static struct model m;

static inline void hand_rank(int r)
{
	bool last = r + 1 == HAND_RANKS;

	proxies[r] = (struct task){
		.tid = 10 * HAND_PID(r), .tgid = HAND_PID(r), .name = "NCCL Progress 0", .proc = &procs[r]
	};
	mains[r] = (struct task){
		.tid = HAND_PID(r), .tgid = HAND_PID(r), .name = "python", .proc = &procs[r], .next = &proxies[r]
	};
	procs[r] = (struct proc){ .key = proc_key(0, HAND_PID(r)),
				  .node = &node,
				  .tgid = HAND_PID(r),
				  .rank = r,
				  .local_rank = r,
				  .world_size = HAND_RANKS,
				  .job = hand_job,
				  .name = "python",
				  .leader = &procs[r],
				  .tasks = &mains[r],
				  .members = &members[r],
				  .next = last ? NULL : &procs[r + 1] };
	members[r] = (struct member){
		.comm = &comm, .proc = &procs[r], .rank = r, .next_in_comm = last ? NULL : &members[r + 1]
	};
	by_rank[r] = &members[r];
}

static inline int hand_setup(void **state)
{
	(void)state;
	node = (struct node){ .boot_id = "", .name = "node7" };
	comm = (struct comm){
		.hash = 0xa0, .nranks = HAND_RANKS, .by_rank = by_rank, .n_seen = HAND_RANKS, .members = members
	};
	for (int r = 0; r < HAND_RANKS; r++)
		hand_rank(r);
	m = (struct model){ .now_ns = NOW,
			    .hang_floor_ns = 250 * MSEC,
			    .dstate_limit_ns = 250 * MSEC,
			    .busy_limit_ns = 90 * SEC,
			    .host = "node7",
			    .nodes = nodes,
			    .n_nodes = 1,
			    .procs = procs,
			    .comms = &comm };
	return 0;
}

#endif
