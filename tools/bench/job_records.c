/* SPDX-License-Identifier: Apache-2.0
 *
 * job_records.c - see job_records.h. Per step of 60 ms and rank: 8 all-reduces of its tensor parallel group and 4 of
 * the world, each with the CUDA events and stream waits a framework puts around it, one group of Send and Recv, one
 * host wait, the watchdog's polls, 12 intervals off the CPU.
 */
#include "tools/bench/job_records.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/collector.h"
#include "tracers/process/life.h"
#include "tracers/cuda/cuda.h"
#include "tracers/nccl/nccl.h"
#include "tracers/sched/sched.h"

#define STEP_NS 60000000ull
#define MSEC 1000000ull
#define TICK_NS 250000000ull
#define SCAN_NS 1000000000ull
#define START_NS 1000000000000ull
#define NCCL_MAGIC 0x0280028002800280ull
#define GROUP_SIZE 8
#define COMPUTE_STREAM 0x7000
#define OP_ALLREDUCE 4
#define OP_SEND 8
#define OP_RECV 9

enum { COMM_WORLD, COMM_GROUP };

static uint64_t draw(struct job_records *j, uint64_t below)
{
	j->rng = j->rng * 6364136223846793005ull + 1442695040888963407ull;
	return (j->rng >> 33) % below;
}

static uint32_t pid_of(int rank)
{
	return 10000 + 100 * rank;
}

static void *grown(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	assert(p);
	return p;
}

/* A zeroed record of a rank's thread (0: main, 1: watchdog). */
static void *record(struct job_records *j, size_t size, int tracer, int kind, int rank, int thread, uint64_t ts_ns)
{
	struct wire_hdr *h;

	if (j->used + size > j->cap)
		j->bytes = grown(j->bytes, j->cap = 2 * j->cap + size + (1 << 20));
	if (j->n == j->cap_index)
		j->index = grown(j->index, (j->cap_index = 2 * j->cap_index + 4096) * sizeof(*j->index));
	j->index[j->n].ts_ns = ts_ns;
	j->index[j->n].at = j->used;
	j->index[j->n].order = j->n;
	j->n++;
	h = memset(j->bytes + j->used, 0, size);
	j->used += size;
	*h = (struct wire_hdr){ .size = size, .tracer = tracer, .kind = kind, .ts_ns = ts_ns };
	h->tgid = rank < 0 ? 0 : pid_of(rank);
	h->tid = rank < 0 ? 0 : pid_of(rank) + thread;
	return h;
}

#define RECORD(j, type, tracer, kind, rank, thread, ts) \
	((struct type *)record(j, sizeof(struct type), tracer, kind, rank, thread, ts))

static void proc_announce(struct job_records *j, int rank)
{
	static const char text[] = "bench\0python3\0";
	size_t size = (sizeof(struct record_proc) + sizeof(text) + 7) & ~7ul;
	struct record_proc *f = record(j, size, WIRE_COLLECTOR, RECORD_PROC, rank, 0, j->now_ns);
	struct record_thread *t;

	f->start_ns = START_NS - rank - 1;
	f->parent_tgid = 1;
	f->ns_pid = f->hdr.tgid;
	f->rank = f->local_rank = rank;
	f->world_size = j->n_ranks;
	f->rank_source = RANK_ENV;
	f->job_len = 6;
	f->name_len = 8;
	f->container_len = 1;
	memcpy(f->text, text, sizeof(text));
	t = RECORD(j, record_thread, WIRE_COLLECTOR, RECORD_THREAD, rank, 1, j->now_ns);
	strcpy(t->name, "pt_nccl_watchdg");
}

static void comm_announce(struct job_records *j, int rank, int which)
{
	struct nccl_comm *r = RECORD(j, nccl_comm, WIRE_NCCL, NCCL_COMM, rank, 0, j->now_ns);
	int size = which == COMM_WORLD || j->n_ranks < GROUP_SIZE ? j->n_ranks : GROUP_SIZE;

	r->comm = 0x10000 * (which + 1);
	r->magic = r->end_magic = NCCL_MAGIC;
	r->hash = 0xabcdef00 + (which == COMM_WORLD ? 0 : 1 + rank / size);
	r->rank = rank % size;
	r->nranks = size;
	r->device = rank % 8;
	r->n_counters = 5;
}

void job_records_begin(struct job_records *j, int n_ranks)
{
	struct record_start *f;

	*j = (struct job_records){ .n_ranks = n_ranks,
				   .now_ns = START_NS,
				   .tick_ns = START_NS,
				   .scan_ns = START_NS,
				   .rng = 12345,
				   .churn_pid = 2000000 };
	f = record(j, sizeof(*f) + 8, WIRE_COLLECTOR, RECORD_START, -1, 0, j->now_ns);
	f->dstate_limit_ns = 5000 * MSEC;
	f->hang_floor_ns = 1500 * MSEC;
	f->busy_limit_ns = 90000 * MSEC;
	f->version = WIRE_VERSION;
	f->by = START_BY_SESSION;
	f->host_len = 6;
	strcpy(f->host, "bench");
	for (int r = 0; r < n_ranks; r++) {
		proc_announce(j, r);
		comm_announce(j, r, COMM_WORLD);
		comm_announce(j, r, COMM_GROUP);
	}
}

static void cuda_event(struct job_records *j, int rank, int thread, int kind, uint64_t event, uint64_t stream,
		       uint64_t ts_ns)
{
	struct cuda_event_use *r = RECORD(j, cuda_event_use, WIRE_CUDA, kind, rank, thread, ts_ns);

	r->event = event;
	r->stream = stream;
}

static void op(struct job_records *j, int rank, int which, int kind, uint64_t count, int peer, uint64_t ts_ns)
{
	struct nccl_op *r = RECORD(j, nccl_op, WIRE_NCCL, NCCL_OP, rank, 0, ts_ns);

	r->comm = 0x10000 * (which + 1);
	r->stream = 0x7100 + which;
	r->count = count;
	r->op = kind;
	r->dtype = 9;
	r->redop = kind == OP_ALLREDUCE ? 0 : -1;
	r->root = -1;
	r->peer = peer;
	r->group_depth = peer >= 0;
}

/* As a framework calls it: the compute stream's work first, then the collective on its own stream, and its end event.
 */
static uint64_t collective(struct job_records *j, int rank, int which, int nth, uint64_t ts_ns)
{
	uint64_t before = 0x9000 + 16 * nth, after = 0xa000 + 16 * nth, stream = 0x7100 + which;

	cuda_event(j, rank, 0, CUDA_EVENT_RECORD, before, COMPUTE_STREAM, ts_ns);
	cuda_event(j, rank, 0, CUDA_EVENT_WAIT, before, stream, ts_ns + 2000);
	op(j, rank, which, OP_ALLREDUCE, 1000003ull * (nth + 1), -1, ts_ns + 4000);
	cuda_event(j, rank, 0, CUDA_EVENT_RECORD, after, stream, ts_ns + 12000);
	cuda_event(j, rank, 0, CUDA_EVENT_WAIT, after, COMPUTE_STREAM, ts_ns + 14000);
	return after;
}

static uint64_t neighbours(struct job_records *j, int rank, uint64_t ts_ns)
{
	int peer = rank ^ 1;

	if (peer >= j->n_ranks)
		return ts_ns;
	RECORD(j, nccl_group, WIRE_NCCL, NCCL_GROUP, rank, 0, ts_ns);
	op(j, rank, COMM_WORLD, OP_SEND, 65537, peer, ts_ns + 3000);
	op(j, rank, COMM_WORLD, OP_RECV, 65537, peer, ts_ns + 6000);
	*RECORD(j, nccl_group, WIRE_NCCL, NCCL_GROUP, rank, 0, ts_ns + 9000) = (struct nccl_group){
		.hdr = { .size = sizeof(struct nccl_group),
			 .tracer = WIRE_NCCL,
			 .kind = NCCL_GROUP,
			 .tid = pid_of(rank),
			 .tgid = pid_of(rank),
			 .ts_ns = ts_ns + 9000 },
		.end = 1,
		.depth = 1,
	};
	return ts_ns + 20000;
}

static void off_cpu(struct job_records *j, int rank, uint64_t ts_ns)
{
	struct sched_off *r = RECORD(j, sched_off, WIRE_SCHED, SCHED_OFF, rank, draw(j, 2), ts_ns);

	r->begin_ns = ts_ns - 1500000;
	r->runq_ns = 20000;
	r->state = SCHED_SLEEP;
}

static void host_wait(struct job_records *j, int rank, uint64_t begin_ns, uint64_t end_ns)
{
	struct cuda_sync *r = RECORD(j, cuda_sync, WIRE_CUDA, CUDA_SYNC_BEGIN, rank, 0, begin_ns);

	r->handle = COMPUTE_STREAM;
	r->begin_ns = begin_ns;
	r = RECORD(j, cuda_sync, WIRE_CUDA, CUDA_SYNC_END, rank, 0, end_ns);
	r->handle = COMPUTE_STREAM;
	r->begin_ns = begin_ns;
}

static void rank_step(struct job_records *j, int rank, uint64_t ts_ns)
{
	uint64_t jitter_ns = draw(j, 300000), at = ts_ns + jitter_ns;

	for (int i = 0; i < 8; i++, at += 2 * MSEC)
		collective(j, rank, COMM_GROUP, i, at);
	at = neighbours(j, rank, at);
	for (int i = 8; i < 12; i++, at += 3 * MSEC)
		collective(j, rank, COMM_WORLD, i, at);
	for (int i = 0; i < 12; i++) {
		off_cpu(j, rank, ts_ns + (4 + 4 * i) * MSEC + draw(j, MSEC));
		cuda_event(j, rank, 1, CUDA_EVENT_QUERY, 0xa000 + 16 * i, 0,
			   ts_ns + (i < 8 ? 12 : 50) * MSEC + i * 10000);
	}
	host_wait(j, rank, at, ts_ns + 55 * MSEC + jitter_ns / 8);
}

static void worker_lives(struct job_records *j, int rank, uint64_t ts_ns)
{
	struct life_fork *f = RECORD(j, life_fork, WIRE_LIFE, LIFE_FORK, rank, 0, ts_ns);
	struct life_exit *e;

	f->child_tgid = f->child_tid = ++j->churn_pid;
	e = RECORD(j, life_exit, WIRE_LIFE, LIFE_EXIT, rank, 0, ts_ns + 5 * MSEC);
	e->hdr.tid = e->hdr.tgid = j->churn_pid;
	e->last = 1;
}

static void threads_scan(struct job_records *j, uint64_t ts_ns)
{
	struct sched_task *t;

	for (int r = 0; r < 2 * j->n_ranks; r++) {
		t = RECORD(j, sched_task, WIRE_SCHED, SCHED_TASK, r / 2, r % 2, ts_ns);
		t->since_ns = ts_ns - MSEC;
		t->state = r % 2 ? SCHED_SLEEP : SCHED_ON_CPU;
		t->run_ns = (ts_ns - START_NS) / (r % 2 ? 100 : 2);
		t->sleep_ns = ts_ns - START_NS - t->run_ns;
	}
}

static void one_step(struct job_records *j)
{
	for (int r = 0; r < j->n_ranks; r++) {
		rank_step(j, r, j->now_ns);
		if (j->churn && j->step % j->churn == 0)
			worker_lives(j, r, j->now_ns + 30 * MSEC);
	}
	for (; j->tick_ns < j->now_ns + STEP_NS; j->tick_ns += TICK_NS)
		RECORD(j, record_tick, WIRE_COLLECTOR, RECORD_TICK, -1, 0, j->tick_ns);
	for (; j->scan_ns < j->now_ns + STEP_NS; j->scan_ns += SCAN_NS)
		threads_scan(j, j->scan_ns);
	j->now_ns += STEP_NS;
	j->step++;
}

static int by_time(const void *a, const void *b)
{
	const struct {
		uint64_t ts_ns;
		uint32_t at, order;
	} *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void job_records_make(struct job_records *j, int steps)
{
	size_t to = 0;

	if (j->step)
		j->used = j->n = 0;
	while (steps--)
		one_step(j);
	qsort(j->index, j->n, sizeof(*j->index), by_time);
	if (j->cap_sorted < j->used)
		j->sorted = grown(j->sorted, j->cap_sorted = j->used);
	for (size_t i = 0; i < j->n; i++) {
		const struct wire_hdr *h = (const void *)(j->bytes + j->index[i].at);

		memcpy(j->sorted + to, h, h->size);
		to += h->size;
	}
}

const struct wire_hdr *job_records_next(const struct job_records *j, const struct wire_hdr *rec)
{
	const char *next = rec ? (const char *)rec + rec->size : j->sorted;

	return next < j->sorted + j->used ? (const void *)next : NULL;
}

void job_records_free(struct job_records *j)
{
	free(j->bytes);
	free(j->sorted);
	free(j->index);
}
