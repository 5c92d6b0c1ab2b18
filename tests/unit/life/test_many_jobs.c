/* SPDX-License-Identifier: Apache-2.0
 *
 * test_many_jobs.c - jobs that come, hang and go on one host, each with a name, containers, pods and stacks of its own,
 * on a clock of its own, through decode, model, detectors and incidents. What is kept of a job that is gone stays
 * small. Then as many jobs, all of one user, that the texts of their threads' stacks fill that user's room several
 * times: each hang has its call site, and the memory is that of the newest jobs.
 *
 *     test_many_jobs [JOBS] [WHAT] [JOBS]     WHAT: letters of n (names), p (places), h (hangs), s (stacks); all of
 *                                             them. The last: jobs with threads.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline.h"
#include "schemas/collector.h"
#include "tests/unit/job/job_script.h"
#include "tracers/cuda/cuda.h"
#include "tracers/nccl/nccl.h"
#include "tracers/process/life.h"
#include "tracers/process/proc_wire.h"
#include "tracers/sched/sched.h"

#define RANKS 8
#define MAGIC 0x0280028002800280ull
#define STREAM 0x7100
#define WARM_JOBS 100 /* tables that all later ones use as well */
#define BYTES_MOST 2500
#define THREADS 24 /* of a rank, each with a stack of its own */
#define FRAMES 3000
#define KIB_MOST \
	16384 /* for the stacks of jobs that are gone since a minute at most, and what came since they went \
	       */

static struct pipeline *p;
static uint64_t now_ns = JOB_T0, n_jobs;
static uint32_t pids[RANKS], next_pid = 1000;
static int late = RANKS;
static uint64_t late_ns;
static const char *what = "nphs";
static bool has_threads;
static uint64_t site_of, n_sites; /* the last job whose hang has its call site; how many have */

static bool is_on(char letter)
{
	return strchr(what, letter) != NULL;
}

static void give_of(struct wire_hdr *h, size_t size, int tracer, int kind, uint32_t pid, uint32_t tid)
{
	h->size = size;
	h->tracer = tracer;
	h->kind = kind;
	h->tgid = pid;
	h->tid = tid;
	h->ts_ns = now_ns;
	if (pipeline_feed(p, h))
		exit(2);
}

static void give(struct wire_hdr *h, size_t size, int tracer, int kind, uint32_t pid)
{
	give_of(h, size, tracer, kind, pid, pid);
}

#define GIVE(type, of, id, pid, ...) \
	do { \
		struct type r_ = { __VA_ARGS__ }; \
		give(&r_.hdr, sizeof(r_), of, id, pid); \
	} while (0)

static void session_begin(void)
{
	GIVE(record_start, WIRE_COLLECTOR, RECORD_START, 0, .dstate_limit_ns = 5 * SEC, .hang_floor_ns = 1500 * MSEC,
	     .busy_limit_ns = 90 * SEC, .version = WIRE_VERSION);
}

/* `late`: sleeps since then; the others are on a CPU now and then. */
static void tasks_give(void)
{
	for (int r = 0; r < RANKS; r++)
		GIVE(sched_task, WIRE_SCHED, SCHED_TASK, pids[r], .since_ns = r == late ? late_ns : now_ns - MSEC,
		     .state = r == late ? SCHED_SLEEP : SCHED_ON_CPU, .run_ns = (r == late ? late_ns : now_ns) / 2,
		     .sleep_ns = now_ns / 2);
}

static void time_pass(uint64_t ns)
{
	for (uint64_t end = now_ns + ns; now_ns < end; now_ns += 250 * MSEC) {
		if (now_ns % SEC == 0)
			tasks_give();
		GIVE(record_tick, WIRE_COLLECTOR, RECORD_TICK, 0, );
	}
}

static void proc_give(int r)
{
	unsigned long names = is_on('n') ? n_jobs : 1, places = is_on('p') ? n_jobs : 1;
	char job[64], container[80], pod[48], pod_name[64], cgroup[200];
	union {
		struct record_proc f;
		char bytes[PROC_WIRE_BYTES];
	} u = {};
	struct event_proc e = { .start_ns = now_ns - SEC,
				.parent_tgid = 1,
				.ns_pid = pids[r],
				.rank = r,
				.local_rank = r,
				.world_size = RANKS,
				.job = job,
				.name = "python3",
				.container = container,
				.pod = pod,
				.pod_name = pod_name,
				.namespace = "training",
				.cgroup = cgroup,
				.boot_id = "b",
				.netns = 7,
				.user = 1001 };

	snprintf(job, sizeof(job), "llama-pretrain-%lu-5f9c7d", names);
	snprintf(container, sizeof(container), "%064lx", places * 0x9e3779b97f4a7c15ul);
	snprintf(pod, sizeof(pod), "3f2a8c1e-7b4d-4e6f-9a10-%012lx", places);
	snprintf(pod_name, sizeof(pod_name), "llama-pretrain-%lu-worker-0", places);
	snprintf(cgroup, sizeof(cgroup),
		 "/kubepods.slice/kubepods-pod3f2a8c1e_%012lx.slice/cri-containerd-%064lx.scope", places, places);
	proc_wire_write(&e, &u.f);
	give(&u.f.hdr, u.f.hdr.size, WIRE_COLLECTOR, RECORD_PROC, pids[r]);
}

static void op_give(int r)
{
	GIVE(nccl_op, WIRE_NCCL, NCCL_OP, pids[r], .comm = 0x10000, .stream = STREAM, .count = 1000, .op = 4,
	     .dtype = 9, .root = -1, .peer = -1);
}

static void stack_give(int r)
{
	union {
		struct record_stack f;
		char bytes[2048];
	} u = {};
	unsigned long n = is_on('s') ? n_jobs : 1;
	int len = snprintf(u.f.text + 4, 500, "File \"/scratch/jobs/%lu/code/train.py\", line 31, in upload", n) + 1;

	u.f.wait_len = u.f.file_len = u.f.kernel_len = 1;
	u.f.python_len = len;
	u.f.native_len = u.f.end_len = u.f.frames_len = 1;
	give(&u.f.hdr, (sizeof(u.f) + 6 + len + 7) & ~7ul, WIRE_COLLECTOR, RECORD_STACK, pids[r]);
}

static void thread_stack_give(int r, int thread)
{
	union {
		struct record_stack f;
		char bytes[FRAMES + 512];
	} u = {};
	uint32_t tid = 1000000 + THREADS * (pids[r] % 1000) + thread;
	int at;

	memset(u.f.text + 3, 'x', FRAMES - 1);
	at = snprintf(u.f.text + 3, 100, "job %lu rank %d thread %d", (unsigned long)n_jobs, r, thread);
	u.f.text[3 + at] = ' ';
	u.f.wait_len = u.f.file_len = u.f.kernel_len = 1;
	u.f.frames_len = FRAMES;
	u.f.python_len = u.f.native_len = u.f.end_len = 1;
	give_of(&u.f.hdr, (sizeof(u.f) + 6 + FRAMES + 7) & ~7ul, WIRE_COLLECTOR, RECORD_STACK, pids[r], tid);
}

static void step(void)
{
	for (int r = 0; r < RANKS; r++)
		op_give(r);
	for (int r = 0; r < RANKS; r++)
		GIVE(cuda_sync, WIRE_CUDA, CUDA_SYNC_BEGIN, pids[r], .handle = STREAM, .begin_ns = now_ns);
	time_pass(SEC / 4);
	for (int r = 0; r < RANKS; r++)
		GIVE(cuda_sync, WIRE_CUDA, CUDA_SYNC_END, pids[r], .handle = STREAM, .begin_ns = now_ns - SEC / 4);
	time_pass(SEC / 4);
}

static void one_job(void)
{
	n_jobs++;
	late = RANKS;
	for (int r = 0; r < RANKS; r++) {
		pids[r] = next_pid++;
		proc_give(r);
		GIVE(nccl_comm, WIRE_NCCL, NCCL_COMM, pids[r], .comm = 0x10000, .magic = MAGIC, .end_magic = MAGIC,
		     .hash = (n_jobs << 16) + 7, .rank = r, .nranks = RANKS, .device = r, .n_counters = 5);
	}
	time_pass(SEC);
	for (int k = 0; k < 12; k++)
		step();
	for (int r = 0; r < RANKS; r++)
		if (r != (int)(n_jobs % RANKS) || !is_on('h'))
			op_give(r);
	late = is_on('h') ? n_jobs % RANKS : RANKS;
	late_ns = now_ns;
	time_pass(40 * SEC);
	if (is_on('h'))
		stack_give(late);
	for (int r = 0; r < RANKS; r++)
		for (int k = 0; k < THREADS && has_threads; k++)
			thread_stack_give(r, k);
	time_pass(4 * SEC);
	for (int r = 0; r < RANKS; r++)
		GIVE(life_exit, WIRE_LIFE, LIFE_EXIT, pids[r], .last = 1);
	time_pass(2 * SEC);
}

static size_t bytes_now(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* What each of `n` more jobs leaves behind. */
static double bytes_a_job(uint64_t n)
{
	size_t before = bytes_now();

	for (uint64_t end = n_jobs + n; n_jobs < end;)
		one_job();
	return ((double)bytes_now() - (double)before) / (double)n;
}

static int site_note(struct sink *s, const struct incident *i, const struct model *m)
{
	const char *python = finding_text(&i->f, EVIDENCE_PYTHON);
	char of[64];

	(void)s;
	(void)m;
	snprintf(of, sizeof(of), "/jobs/%" PRIu64 "/code", is_on('s') ? n_jobs : 1);
	if (site_of != n_jobs && python && strstr(python, of)) {
		site_of = n_jobs;
		n_sites++;
	}
	return 0;
}

static int listener_close(struct sink *s, const struct model *m)
{
	(void)s;
	(void)m;
	return 0;
}

static const struct sink_class listener_class = { .name = "sites", .incident = site_note, .close = listener_close };

/* True: each of `n` more jobs had its call site, and their memory stayed small. */
static bool threads_run(uint64_t n)
{
	size_t before = bytes_now(), most = before;
	uint64_t sites = n_sites, begin = n_jobs;
	bool good;

	has_threads = true;
	while (n_jobs < begin + n) {
		one_job();
		most = bytes_now() > most ? bytes_now() : most;
	}
	has_threads = false;
	good = n_sites - sites == n && (most - before) >> 10 < KIB_MOST;
	printf("%" PRIu64 " jobs whose stacks are of %" PRIu64 " KiB: %" PRIu64 " with call sites, at most %zu KiB%s\n",
	       n, n * RANKS * THREADS * FRAMES >> 10, n_sites - sites, (most - before) >> 10, good ? "" : ": FAILED");
	return good;
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoul(argv[1], NULL, 0) : 200, n_threads = argc > 3 ? strtoul(argv[3], NULL, 0) : 150;
	struct sink listener = { .class = &listener_class };
	double bytes;
	bool good;

	what = argc > 2 ? argv[2] : what;
	p = pipeline_new();
	if (!p || pipeline_add_listener(p, &listener))
		return 2;
	session_begin();
	bytes_a_job(WARM_JOBS);
	bytes = bytes_a_job(n);
	good = bytes < BYTES_MOST &&
	       (!is_on('h') || (incidents_opened(pipeline_incidents(p)) == n_jobs && n_sites == n_jobs));
	printf("%" PRIu64 " jobs, %" PRIu64 " incidents, %" PRIu64 " with call sites: %zu KiB, of the last %" PRIu64
	       " jobs each %.0f bytes more%s\n",
	       n_jobs, incidents_opened(pipeline_incidents(p)), n_sites, bytes_now() >> 10, n, bytes,
	       good ? "" : ": FAILED");
	good &= !is_on('h') || threads_run(n_threads);
	return pipeline_free(p) || !good;
}
