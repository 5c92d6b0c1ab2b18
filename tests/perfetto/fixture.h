/* SPDX-License-Identifier: Apache-2.0
 *
 * fixture.h - a small job made of struct literals, and the events, operations and incidents a sink would be given
 * for it. Stands in for the model, so that a sink is tested alone.
 */
#ifndef RANKTRACE_SINK_FIXTURE_H
#define RANKTRACE_SINK_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "sink/sink.h"

enum { FIXTURE_RANKS_MAX = 8, FIXTURE_STREAMS = 2 };

#define FIXTURE_HASH 0x72e8a1b2c3d4e5f6u

static const struct job_id fixture_job = { .name = "llama", .shown = "llama", .nth = 1 };

struct fixture {
	struct model m;
	struct node node, *nodes[1];
	int n_ranks;
	struct proc procs[FIXTURE_RANKS_MAX + 1]; /* the last: a dataloader child of rank 1 */
	struct comm comm;
	struct member members[FIXTURE_RANKS_MAX], *by_rank[FIXTURE_RANKS_MAX];
	struct sink *sink;
	uint64_t seed, n_ops;
	int err;
};

/* The questions a sink asks the model by function, answered from the fixture; the program's own are not linked.
 */
const struct proc *model_proc(const struct model *m, uint64_t proc)
{
	const struct proc *p = m->procs;

	while (p && p->tgid != (uint32_t)proc)
		p = p->next;
	return p;
}

const struct task *model_task(const struct model *m, uint64_t proc, uint32_t tid)
{
	(void)m, (void)proc, (void)tid;
	return NULL;
}

int proc_rank(const struct proc *p)
{
	return p->shared ? -1 : p->rank;
}

int member_rank(const struct member *mb)
{
	return mb->proc->shared ? mb->rank : proc_rank(mb->proc);
}

bool member_comparable(const struct member *mb, int space)
{
	(void)mb, (void)space;
	return true;
}

int op_space(const struct op *op)
{
	if (op_kind_counted(op->kind))
		return op->graph_exec ? SEQ_GRAPH : SEQ_COLL;
	return op_kind_p2p(op->kind) ? -1 : SEQ_ALLTOALL + (int)op->kind - OP_ALLTOALL;
}

static inline uint32_t fixture_random(struct fixture *f, uint32_t below)
{
	f->seed = f->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(f->seed >> 33) % below;
}

static inline void fixture_init(struct fixture *f, int n_ranks)
{
	static const char *const names[] = { "python", "dataloader" };

	*f = (struct fixture){ .n_ranks = n_ranks, .seed = 42 };
	f->m = (struct model){ .now_ns = 5000000000000,
			       .start_ns = 5000000000000,
			       .realtime_offset_ns = 1763000000000000000,
			       .host = "node-a",
			       .nodes = f->nodes,
			       .n_nodes = 1,
			       .comms = &f->comm,
			       .procs = f->procs };
	f->node.name = "node-a";
	f->node.boot_id = "b007";
	f->nodes[0] = &f->node;
	f->comm = (struct comm){ .hash = FIXTURE_HASH, .nranks = n_ranks, .n_seen = n_ranks, .by_rank = f->by_rank };
	for (int r = 0; r <= n_ranks; r++) {
		bool child = r == n_ranks;

		f->procs[r] = (struct proc){ .key = 4700 + (uint64_t)r,
					     .node = &f->node,
					     .tgid = 4700 + (uint32_t)r,
					     .rank = child ? 1 : r,
					     .local_rank = r,
					     .world_size = n_ranks,
					     .is_child = child,
					     .job = &fixture_job,
					     .name = names[child],
					     .container = "",
					     .pod = "",
					     .pod_name = "llama-0",
					     .namespace = "train",
					     .slurm_job = "77",
					     .slurm_step = "",
					     .leader = &f->procs[child ? 1 : r],
					     .next = child ? NULL : &f->procs[r + 1] };
		if (child)
			break;
		f->members[r] = (struct member){ .comm = &f->comm,
						 .proc = &f->procs[r],
						 .addr = 0x7f0000001000u + (uint64_t)r,
						 .rank = r,
						 .device = r };
		f->procs[r].members = &f->members[r];
		f->by_rank[r] = &f->members[r];
	}
}

static inline void fixture_event(struct fixture *f, struct event e)
{
	if (e.ts_ns > f->m.now_ns)
		f->m.now_ns = e.ts_ns;
	if (!f->err && f->sink->class->event)
		f->err = f->sink->class->event(f->sink, &e, &f->m);
}

static inline void fixture_op(struct fixture *f, struct op op)
{
	op.id = ++f->n_ops;
	if (!f->err && f->sink->class->op)
		f->err = f->sink->class->op(f->sink, &op, &f->m);
}

static inline void fixture_incident(struct fixture *f, struct incident i)
{
	if (!f->err && f->sink->class->incident)
		f->err = f->sink->class->incident(f->sink, &i, &f->m);
}

static inline void fixture_start(struct fixture *f)
{
	fixture_event(f, (struct event){ .kind = EV_START, .ts_ns = f->m.now_ns });
	for (int r = 0; r <= f->n_ranks; r++) {
		uint32_t tgid = f->procs[r].tgid;

		fixture_event(f, (struct event){ .kind = EV_PROC, .tgid = tgid, .ts_ns = f->m.now_ns + 10 });
		fixture_event(f, (struct event){ .kind = EV_THREAD,
						 .tgid = tgid,
						 .tid = tgid,
						 .ts_ns = f->m.now_ns + 10,
						 .thread.name = f->procs[r].name });
		fixture_event(
			f, (struct event){
				   .kind = EV_ATTACH,
				   .tgid = tgid,
				   .ts_ns = f->m.now_ns + 500000,
				   .attach = { .begin_ns = f->m.now_ns - 1000000, .n_probes = 40, .for_tracer = 1 } });
	}
}

/* Ranks wait for one that sleeps before an operation, since so long. */
static inline struct incident fixture_hang(const struct fixture *f, int number, const char *id, uint64_t since_ns,
					   uint64_t ns)
{
	struct incident i = { .number = number,
			      .phase = PHASE_OPEN,
			      .open_ns = since_ns + ns,
			      .t_ns = since_ns + ns,
			      .f = { .kind = FINDING_HANG,
				     .class = HANG_MISSING_ENTER,
				     .cause = CAUSE_ASLEEP,
				     .severity = SEVERITY_WARNING,
				     .has_op = true,
				     .comm = f->comm.hash,
				     .op = OP_ALLREDUCE,
				     .seq = 1842,
				     .peer = -1,
				     .since_ns = since_ns,
				     .confidence = 0.97 } };

	snprintf(i.id, sizeof(i.id), "%s", id);
	return i;
}

/* One API call on the rank's main thread. */
static inline struct op fixture_call(struct fixture *f, int rank, enum op_kind kind, uint64_t seq, uint64_t ns,
				     uint64_t stream, int group_depth)
{
	uint32_t pid = f->procs[rank].tgid;
	uint64_t count = 1u << (10 + fixture_random(f, 14));

	fixture_event(f, (struct event){ .kind = EV_OP,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ns,
					 .op = { .addr = f->members[rank].addr,
						 .stream = stream,
						 .count = count,
						 .op = kind,
						 .dtype = 9,
						 .redop = 0,
						 .root = -1,
						 .peer = -1,
						 .group_depth = group_depth } });
	return (struct op){ .member = &f->members[rank],
			    .kind = kind,
			    .dtype = 9,
			    .root = -1,
			    .peer = -1,
			    .count = count,
			    .seq = seq,
			    .tid = pid,
			    .stream = stream,
			    .call_ns = ns,
			    .enqueue_ns = ns,
			    .start_bound_ns = ns + 4000 };
}

/* `n` steps of training: `buckets` operations on two streams by each rank, then a wait for the GPU that ends them. */
static inline void fixture_steps(struct fixture *f, int n, int buckets)
{
	static const enum op_kind kinds[] = { OP_ALLREDUCE, OP_ALLGATHER, OP_REDUCESCATTER };
	struct op *ops = calloc((size_t)(buckets * f->n_ranks), sizeof(*ops));
	uint64_t seq = 0;

	for (int step = 0; ops && step < n; step++) {
		uint64_t begin = f->m.now_ns + 20000000 + fixture_random(f, 1000000),
			 end = begin + 60000000 + fixture_random(f, 9000000);

		for (int b = 0; b < buckets; b++, seq++)
			for (int r = 0; r < f->n_ranks; r++)
				ops[b * f->n_ranks + r] = fixture_call(
					f, r, kinds[seq % 3], seq,
					begin + (uint64_t)b * 40000000 / (uint64_t)buckets + fixture_random(f, 30000),
					0x55d0c0de0000u + 0x40u * (seq % FIXTURE_STREAMS), 0);
		for (int b = 0; b < buckets; b++)
			for (int r = 0; r < f->n_ranks; r++) { /* as the watchdog's queries see them end */
				struct op *op = &ops[b * f->n_ranks + r];
				uint64_t next = b + FIXTURE_STREAMS < buckets
							? op[FIXTURE_STREAMS * f->n_ranks].start_bound_ns
							: end;

				op->end_error_ns = 1000 + fixture_random(f, 3000000);
				op->end_ns = next + (b % 5 ? 0 : 300000);
				fixture_op(f, *op);
			}
		for (int r = 0; r < f->n_ranks; r++)
			fixture_event(f, (struct event){ .kind = EV_SYNC_END,
							 .tgid = f->procs[r].tgid,
							 .tid = f->procs[r].tgid,
							 .ts_ns = end + fixture_random(f, 20000),
							 .sync = { .kind = SYNC_STREAM,
								   .handle = 0x55d0c0de0000u,
								   .begin_ns = begin + 45000000 +
									       fixture_random(f, 400000) } });
		fixture_event(f, (struct event){ .kind = EV_TICK, .ts_ns = f->m.now_ns + 1000 });
	}
	free(ops);
}

#endif
