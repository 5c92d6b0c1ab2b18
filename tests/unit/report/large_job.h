/* SPDX-License-Identifier: Apache-2.0
 *
 * large_job.h - a job of any size as a sink sees it: ranks, one communicator, an iteration clock, and operations that
 * are given step by step. Stands in for a model of which only those parts are kept that a sink reads. Of one program.
 */
#ifndef RANKTRACE_LARGE_JOB_H
#define RANKTRACE_LARGE_JOB_H

#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"
#include "model/state.h"
#include "sink/sink.h"

#define STEP_NS 120000000ull
#define PERIOD 2 /* operations a step: one all enter at once, one they enter as they are done */

struct large_job {
	struct model m;
	struct node *hosts, **nodes;
	char (*names)[24];
	int n_ranks, n_hosts;
	struct proc_own *procs; /* with the model's private part, empty */
	struct member *members, **by_rank;
	struct comm comm;
	struct steps clock;
	struct job_id id;
	uint64_t seed;
};

__attribute__((unused)) static double drawn(struct large_job *j) /* 0..1 */
{
	j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(j->seed >> 33) / (double)(1u << 31);
}

static void large_job_init(struct large_job *j, int n_hosts, int per_host)
{
	*j = (struct large_job){ .n_ranks = n_hosts * per_host, .n_hosts = n_hosts, .seed = 7 };
	j->id = (struct job_id){ .name = "llama-405b", .shown = "llama-405b", .nth = 1 };
	j->hosts = calloc((size_t)n_hosts, sizeof(*j->hosts));
	j->nodes = calloc((size_t)n_hosts, sizeof(*j->nodes));
	j->names = calloc((size_t)n_hosts, sizeof(*j->names));
	j->procs = calloc((size_t)j->n_ranks, sizeof(*j->procs));
	j->members = calloc((size_t)j->n_ranks, sizeof(*j->members));
	j->by_rank = calloc((size_t)j->n_ranks, sizeof(*j->by_rank));
	j->clock = (struct steps){ .period_ops = PERIOD, .n = 100, .median_s = STEP_NS * 1e-9 };
	j->m = (struct model){ .host = "node-00000,node-00001",
			       .nodes = j->nodes,
			       .n_nodes = (uint32_t)n_hosts,
			       .procs = &j->procs->p,
			       .comms = &j->comm,
			       .now_ns = 1000 * STEP_NS,
			       .start_ns = 1000 * STEP_NS,
			       .realtime_offset_ns = 1763000000000000000 };
	j->comm = (struct comm){
		.hash = 0x72e8a1b2c3d4e5f6, .nranks = j->n_ranks, .n_seen = j->n_ranks, .by_rank = j->by_rank
	};
	for (int h = 0; h < n_hosts; h++) {
		snprintf(j->names[h], sizeof(j->names[h]), "node-%05d", h);
		j->hosts[h] = (struct node){ .number = (uint32_t)h, .name = j->names[h], .boot_id = "" };
		j->nodes[h] = &j->hosts[h];
	}
	for (int r = 0; r < j->n_ranks; r++) {
		uint32_t pid = 4000 + (uint32_t)(r % per_host), host = (uint32_t)(r / per_host);
		struct proc *p = &j->procs[r].p;

		*p = (struct proc){ .key = proc_key(host, pid),
				    .node = j->nodes[host],
				    .tgid = pid,
				    .rank = r,
				    .job = &j->id,
				    .steps = &j->clock,
				    .name = "python",
				    .container = "",
				    .pod = "",
				    .pod_name = "",
				    .slurm_job = "",
				    .slurm_step = "",
				    .next = r + 1 < j->n_ranks ? &j->procs[r + 1].p : NULL };
		p->leader = p;
		j->members[r] = (struct member){ .comm = &j->comm,
						 .proc = p,
						 .rank = r,
						 .device = r % per_host,
						 .seq_known = true,
						 .from_init = true,
						 .next_in_comm = r + 1 < j->n_ranks ? &j->members[r + 1] : NULL };
		p->members = &j->members[r];
		j->by_rank[r] = &j->members[r];
	}
	j->comm.members = j->members;
}

static void large_job_free(struct large_job *j)
{
	free(j->hosts);
	free(j->nodes);
	free(j->names);
	free(j->procs);
	free(j->members);
	free(j->by_rank);
}

/* Both operations of a step of one rank, late_s late in the second. */
__attribute__((unused)) static int large_job_step(struct large_job *j, struct sink *s, int rank, uint64_t step,
						  uint64_t begin_ns, double late_s)
{
	uint64_t work_ns = (uint64_t)(late_s * 1e9);
	int err = 0;

	for (uint64_t k = 0; !err && k < PERIOD; k++) {
		uint64_t ns = begin_ns + (k ? STEP_NS / 2 + work_ns : 0);
		struct op op = { .member = &j->members[rank],
				 .kind = OP_ALLREDUCE,
				 .dtype = 7,
				 .redop = 0,
				 .root = -1,
				 .peer = -1,
				 .count = 1 << 20,
				 .seq = step * PERIOD + k,
				 .call_ns = ns,
				 .enqueue_ns = ns,
				 .nth = step * PERIOD + k };

		j->m.n_ops++;
		err = s->class->op(s, &op, &j->m);
	}
	return err;
}

#endif
