/* SPDX-License-Identifier: Apache-2.0
 *
 * test_days.c - thirty days on a clock of its own: records of one healthy job of eight ranks after the other, as the
 * tracers write them, go through decode, model and detectors. Jobs have other processes, communicators and names each
 * time; workers come and go; now and then the whole host does not run (suspended, or a guest that was paused). Nothing
 * may be found, and what is kept stays as small as it was.
 *
 *     test_days [OPERATIONS]     3e6; with LONG=1 in the environment 1e9: steps of 30 days
 *
 * Once a minute it says on stderr how far it is: what is known of a run that is cut off.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pipeline/pipeline.h"
#include "schemas/collector.h"
#include "tests/unit/job/job_script.h"
#include "tracers/cuda/cuda.h"
#include "tracers/nccl/nccl.h"
#include "tracers/process/life.h"
#include "tracers/sched/sched.h"

#define RANKS 8
#define PAIR 2 /* ranks of one group */
#define OPS 12 /* of a rank and step: 8 of its group, 4 of the world */
#define STEP_NS (250 * MSEC)
#define OP_NS (15 * MSEC)
#define STREAM 0x7100
#define MAGIC 0x0280028002800280ull
#define HOUR_NS (3600 * SEC)
#define JOB_STEPS_MIN 40
#define STILL_NS_MIN (6 * SEC) /* shorter ones are waits as others */
#define JOB_STEPS_SHORT 150
#define JOB_STEPS_FULL 1600 /* the model holds as many operations as it ever does */
#define HANG_FOUND_NS (10 * SEC)
#define MEMORY_STEPS 64 /* from one look at the memory to the next */
#define WORKER_STEPS 50 /* a worker of each rank lives that long */
#define STILL_JOBS 10   /* the host does not run in one of so many jobs */
#define PARTS 20
#define PROGRESS_S 60          /* of the real clock */
#define MORE_BYTES (512 << 10) /* and a tenth, than in the first quarter: tables that double */

struct days {
	struct pipeline *p;
	uint64_t now_ns, tick_ns, scan_ns, rng, n_ops, n_jobs, n_still;
	uint32_t next_pid, pids[RANKS], workers[RANKS];
	uint64_t generation; /* of communicators */
	uint64_t n_ops_all;  /* to be played */
	int part;            /* of PARTS, from 1 */
	size_t early, late;  /* most bytes of memory, in the first quarter and later */
	time_t said;
	int asleep; /* rank + 1; 0: none */
	uint64_t asleep_ns;
};

static uint64_t draw(struct days *d, uint64_t below)
{
	return random_next(&d->rng) % below;
}

static void give(struct days *d, const struct wire_hdr *rec)
{
	if (pipeline_feed(d->p, rec))
		exit(2);
}

#define GIVE(d, type, of, id, rank_, ...) \
	do { \
		struct type r_ = { __VA_ARGS__ }; \
		r_.hdr = (struct wire_hdr){ .size = sizeof(r_), \
					    .tracer = of, \
					    .kind = id, \
					    .tid = (rank_) < 0 ? 0 : (d)->pids[(rank_) < 0 ? 0 : (rank_)], \
					    .tgid = (rank_) < 0 ? 0 : (d)->pids[(rank_) < 0 ? 0 : (rank_)], \
					    .ts_ns = (d)->now_ns }; \
		give(d, &r_.hdr); \
	} while (0)

static void session_begin(struct days *d)
{
	union {
		struct record_start f;
		char bytes[sizeof(struct record_start) + 8];
	} u = { .f = { .hdr = { .size = sizeof(u), .tracer = WIRE_COLLECTOR, .kind = RECORD_START, .ts_ns = d->now_ns },
		       .dstate_limit_ns = 5 * SEC,
		       .hang_floor_ns = 1500 * MSEC,
		       .busy_limit_ns = 90 * SEC,
		       .version = WIRE_VERSION,
		       .host_len = 5 } };

	strcpy(u.bytes + sizeof(u.f), "host");
	give(d, &u.f.hdr);
}

static void proc_give(struct days *d, int rank)
{
	union {
		struct record_proc f;
		char bytes[sizeof(struct record_proc) + 64];
	} u = { .f = { .hdr = { .size = sizeof(u),
				.tracer = WIRE_COLLECTOR,
				.kind = RECORD_PROC,
				.tid = d->pids[rank],
				.tgid = d->pids[rank],
				.ts_ns = d->now_ns },
		       .start_ns = d->now_ns - SEC,
		       .parent_tgid = 1,
		       .ns_pid = d->pids[rank],
		       .rank = rank,
		       .local_rank = rank,
		       .world_size = RANKS,
		       .rank_source = RANK_ENV } };
	int n = snprintf(u.f.text, 40, "train-%" PRIu64, d->n_jobs) + 1;

	strcpy(u.f.text + n, "python3");
	u.f.job_len = n;
	u.f.name_len = 8;
	u.f.container_len = 1;
	give(d, &u.f.hdr);
}

static void comm_give(struct days *d, int rank, int of_pair)
{
	int size = of_pair ? PAIR : RANKS;

	GIVE(d, nccl_comm, WIRE_NCCL, NCCL_COMM, rank, .comm = 0x10000 * (of_pair + 1), .magic = MAGIC,
	     .end_magic = MAGIC, .hash = (d->generation << 16) + (of_pair ? 1 + rank / PAIR : 0), .rank = rank % size,
	     .nranks = size, .device = rank, .n_counters = 5);
}

static void one_job_begin(struct days *d)
{
	d->n_jobs++;
	d->generation = 0xabc00 + d->n_jobs;
	for (int r = 0; r < RANKS; r++) {
		d->pids[r] = d->next_pid++;
		d->workers[r] = 0;
		proc_give(d, r);
		comm_give(d, r, 0);
		comm_give(d, r, 1);
	}
}

static void process_ends(struct days *d, uint32_t pid)
{
	struct life_exit e = { .hdr = { .size = sizeof(e),
					.tracer = WIRE_LIFE,
					.kind = LIFE_EXIT,
					.tid = pid,
					.tgid = pid,
					.ts_ns = d->now_ns },
			       .last = 1 };

	give(d, &e.hdr);
}

static void worker_change(struct days *d, int rank)
{
	if (d->workers[rank])
		process_ends(d, d->workers[rank]);
	d->workers[rank] = d->next_pid++;
	GIVE(d, life_fork, WIRE_LIFE, LIFE_FORK, rank, .child_tgid = d->workers[rank], .child_tid = d->workers[rank]);
}

/* Half of the jobs destroy their communicators before. */
static void one_job_end(struct days *d)
{
	for (int r = 0; d->n_jobs % 2 && r < RANKS; r++)
		for (int c = 0; c < 2; c++)
			GIVE(d, nccl_gone, WIRE_NCCL, NCCL_GONE, r, .comm = 0x10000 * (c + 1));
	for (int r = 0; r < RANKS; r++) {
		if (d->workers[r])
			process_ends(d, d->workers[r]);
		process_ends(d, d->pids[r]);
	}
}

static void tasks_give(struct days *d)
{
	for (int r = 0; r < RANKS; r++) {
		bool sleeps = r + 1 == d->asleep;

		GIVE(d, sched_task, WIRE_SCHED, SCHED_TASK, r, .since_ns = sleeps ? d->asleep_ns : d->now_ns - MSEC,
		     .state = sleeps ? SCHED_SLEEP : SCHED_ON_CPU, .run_ns = (sleeps ? d->asleep_ns : d->now_ns) / 2,
		     .sleep_ns = d->now_ns / 2);
	}
}

/* Up to `until_ns`, and what a session does of itself on the way. */
static void time_pass(struct days *d, uint64_t until_ns)
{
	for (; d->tick_ns <= until_ns; d->tick_ns += 250 * MSEC) {
		d->now_ns = d->tick_ns;
		if (d->scan_ns <= d->now_ns) {
			tasks_give(d);
			d->scan_ns = d->now_ns + SEC;
		}
		GIVE(d, record_tick, WIRE_COLLECTOR, RECORD_TICK, -1, );
	}
	d->now_ns = until_ns;
}

/* Nobody runs, the session neither; the first thing then is its tick. */
static void stand_still(struct days *d)
{
	d->now_ns += STILL_NS_MIN + draw(d, 2) * HOUR_NS + draw(d, HOUR_NS);
	d->tick_ns = d->scan_ns = d->now_ns;
	d->n_still++;
}

static void op_give(struct days *d, int rank, int i)
{
	GIVE(d, nccl_op, WIRE_NCCL, NCCL_OP, rank, .comm = 0x10000 * (1 + (i < 8)), .stream = STREAM,
	     .count = 1000003ull * (i + 1), .op = 4, .dtype = 9, .redop = 0, .root = -1, .peer = -1);
	d->n_ops++;
}

/* `still`: before that operation the host does not run, when some ranks have entered it and some have not; -1 never. */
static void step(struct days *d, int still)
{
	uint64_t begin_ns = d->now_ns;
	int waits = draw(d, RANKS);

	for (int i = 0; i < OPS; i++) {
		time_pass(d, d->now_ns + OP_NS);
		for (int r = 0; r < RANKS; r++) {
			if (i == still && r == waits)
				stand_still(d), begin_ns = d->now_ns - i * OP_NS, time_pass(d, d->now_ns);
			op_give(d, r, i);
		}
	}
	for (int r = 0; r < RANKS; r++)
		GIVE(d, cuda_sync, WIRE_CUDA, CUDA_SYNC_BEGIN, r, .handle = STREAM, .begin_ns = d->now_ns);
	time_pass(d, begin_ns + STEP_NS - 5 * MSEC);
	for (int r = 0; r < RANKS; r++)
		GIVE(d, cuda_sync, WIRE_CUDA, CUDA_SYNC_END, r, .handle = STREAM, .begin_ns = d->now_ns - 50 * MSEC);
	time_pass(d, begin_ns + STEP_NS);
}

static bool is_flat(const struct days *d)
{
	return d->late <= d->early + d->early / 10 + MORE_BYTES;
}

static size_t bytes_now(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static void state_say(const struct days *d, FILE *to)
{
	fprintf(to, "%.1f days, %" PRIu64 " operations in %" PRIu64 " jobs, the host stood still %" PRIu64 " times: ",
		(d->now_ns - JOB_T0) / 86400e9, d->n_ops, d->n_jobs, d->n_still);
	fprintf(to, "%" PRIu64 " findings, %" PRIu64 " operations counted; ",
		incidents_opened(pipeline_incidents(d->p)), pipeline_model(d->p)->n_ops);
	fprintf(to, "%zu KiB now, at most %zu KiB in the first quarter, %zu KiB later: %s; %.0f s of CPU time\n",
		bytes_now() >> 10, d->early >> 10, d->late >> 10, is_flat(d) ? "flat" : "it grows",
		clock() / (double)CLOCKS_PER_SEC);
}

static void progress_say(struct days *d)
{
	time_t now = time(NULL);

	if (now < d->said + PROGRESS_S)
		return;
	d->said = now;
	fprintf(stderr, "%3.0f %%: ", 100.0 * d->n_ops / d->n_ops_all);
	state_say(d, stderr);
}

static void memory_look(struct days *d)
{
	size_t bytes = bytes_now(), *most = d->part <= PARTS / 4 ? &d->early : &d->late;

	*most = bytes > *most ? bytes : *most;
}

static void one_job_play(struct days *d, uint64_t n_steps)
{
	uint64_t still = draw(d, STILL_JOBS) ? UINT64_MAX : n_steps / 2 + draw(d, n_steps / 2);

	one_job_begin(d);
	for (uint64_t s = 0; s < n_steps; s++) {
		for (int r = 0; r < RANKS; r++)
			if ((s + r) % WORKER_STEPS == 0)
				worker_change(d, r);
		if (s % MEMORY_STEPS == 0)
			memory_look(d);
		if (s % MEMORY_STEPS == 0)
			progress_say(d);
		step(d, s == still ? (int)draw(d, OPS) : -1);
	}
	one_job_end(d);
	time_pass(d, d->now_ns + draw(d, 30) * SEC);
}

/* Most jobs are short, most of the time is in long ones. */
static uint64_t job_steps(struct days *d, uint64_t n_ops)
{
	uint64_t most = draw(d, 8) ? JOB_STEPS_SHORT : n_ops / (RANKS * OPS) / 50, n = JOB_STEPS_MIN;

	while (n < most && draw(d, 10))
		n += n / 2;
	return n < most ? n : most;
}

static void part_play(struct days *d)
{
	while (d->n_ops < d->n_ops_all / PARTS * d->part)
		one_job_play(d, d->n_jobs ? job_steps(d, d->n_ops_all) : JOB_STEPS_FULL);
}

/* What it learnt of hours in which nothing moved keeps it from nothing: a rank that stops is found as soon as ever. */
static bool hang_is_found(struct days *d)
{
	uint64_t before = incidents_opened(pipeline_incidents(d->p));
	const struct incident *i;
	int late = draw(d, RANKS);

	one_job_begin(d);
	for (int s = 0; s < 400; s++)
		step(d, s == 150 ? OPS / 2 : -1);
	time_pass(d, d->now_ns + OP_NS);
	for (int r = 0; r < RANKS; r++)
		if (r != late)
			op_give(d, r, 0);
	d->asleep = late + 1;
	d->asleep_ns = d->now_ns;
	time_pass(d, d->now_ns + HANG_FOUND_NS);
	i = incidents_next_open(pipeline_incidents(d->p), NULL);
	return incidents_opened(pipeline_incidents(d->p)) == before + 1 && i && i->f.kind == FINDING_HANG &&
	       i->f.n_ranks == 1 && i->f.pids[0] == d->pids[late];
}

static bool result_good(const struct days *d)
{
	return !incidents_opened(pipeline_incidents(d->p)) && pipeline_model(d->p)->n_ops == d->n_ops && is_flat(d);
}

int main(int argc, char **argv)
{
	uint64_t n_ops = argc > 1 ? strtod(argv[1], NULL) : getenv("LONG") && *getenv("LONG") ? 1000000000 : 3000000;
	struct days d = { .p = pipeline_new(),
			  .now_ns = JOB_T0,
			  .next_pid = 1000,
			  .rng = test_seed(),
			  .n_ops_all = n_ops,
			  .said = time(NULL) };
	bool good, found;

	if (getenv("SHOW"))
		pipeline_add_sink(d.p, "terminal", "-");
	d.tick_ns = d.scan_ns = d.now_ns;
	session_begin(&d);
	for (d.part = 1; d.part <= PARTS; d.part++)
		part_play(&d);
	state_say(&d, stdout);
	good = result_good(&d);
	found = hang_is_found(&d);
	if (!found)
		printf("FAILED: a rank that stopped was not found, or not alone\n");
	return pipeline_free(d.p) || !good || !found;
}
