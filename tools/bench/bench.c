// SPDX-License-Identifier: Apache-2.0
/* bench.c - how fast the collector's user side is, on one core: each stage alone and the whole way of a record, in
 * records a CPU second. Rates are medians over windows of the same records; A/A says what two halves of the windows
 * differ by.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/decode.h"
#include "tools/bench/hit.h"
#include "tools/bench/job_records.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "pipeline/reorder.h"
#include "tools/bench/trace_slices.h"

#define RANKTRACE O "/ranktrace" /* O: where make puts what it builds */
#define LIBRARY O "/lib/ranktrace/sim/libnccl.so.2"
#define WINDOWS 8
#define RECORDS_PER_WINDOW 700001 /* prime */
#define LOOK 2003                 /* records between two samples, prime */

struct bench {
	struct job_records job;
	uint64_t n_records;
	char dir[64], rtr[96], trace[96];
	struct pipeline *pipeline;
	uint64_t findings;
	double slices; /* of the last window's timeline */
};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t rss_kib(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && !kib && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %" SCNu64, &kib);
	if (f)
		fclose(f);
	return kib;
}

/* --- stages: each returns the CPU seconds it took for all records --- */

static int out_nothing(void *to, const struct wire_hdr *rec)
{
	++*(uint64_t *)to;
	(void)rec;
	return 0;
}

/* Each look brings what two rings hold, one after the other. */
static double stage_reorder(struct bench *b)
{
	struct reorder *r = reorder_new(8 << 20);
	const struct wire_hdr *rec = NULL, *look[LOOK];
	uint64_t n_out = 0;
	double begin = cpu_s();
	int n;

	do {
		for (n = 0; n < LOOK && (rec = job_records_next(&b->job, rec)); n++)
			look[n] = rec;
		for (int ring = 0; ring < 2; ring++)
			for (int i = ring; i < n; i += 2)
				must(!reorder_put(r, look[i]), "reorder_put");
		if (n)
			reorder_drain(r, look[n / 2]->ts_ns, out_nothing, &n_out);
	} while (rec);
	reorder_drain(r, UINT64_MAX, out_nothing, &n_out);
	begin = cpu_s() - begin;
	reorder_free(r);
	must(n_out == b->n_records, "records lost in the reorder window");
	return begin;
}

static double stage_decode(struct bench *b)
{
	struct event events[DECODE_EVENTS_MAX];
	struct intern *strings = intern_new();
	double begin = cpu_s();

	for (const struct wire_hdr *rec = NULL; (rec = job_records_next(&b->job, rec));)
		must(decode_record(rec, strings, events) >= 0, "decode");
	begin = cpu_s() - begin;
	intern_free(strings);
	return begin;
}

static double stage_model(struct bench *b)
{
	struct event events[DECODE_EVENTS_MAX];
	struct intern *strings = intern_new();
	struct model *m = model_new();
	double begin = cpu_s();

	for (const struct wire_hdr *rec = NULL; (rec = job_records_next(&b->job, rec));) {
		for (int i = 0, n = decode_record(rec, strings, events); i < n; i++) {
			model_apply(m, &events[i]);
			while (model_next_ended(m))
				;
		}
	}
	begin = cpu_s() - begin;
	must(m->n_ops_ended > m->n_ops * 9 / 10, "operations never ended");
	model_free(m);
	intern_free(strings);
	return begin;
}

static double pipeline_run(struct bench *b, const char *output)
{
	struct pipeline *p = pipeline_new();
	double begin = cpu_s();

	must(p && (!output || !pipeline_add_output(p, output)), "pipeline");
	for (const struct wire_hdr *rec = NULL; (rec = job_records_next(&b->job, rec));)
		must(!pipeline_feed(p, rec), "pipeline_feed");
	b->findings += incidents_opened(pipeline_incidents(p)); /* lint: the callers' bench is theirs */
	must(!pipeline_free(p), "closing the output");
	return cpu_s() - begin;
}

static double stage_pipeline(struct bench *b)
{
	return pipeline_run(b, NULL);
}

static double stage_record(struct bench *b)
{
	return pipeline_run(b, b->rtr);
}

static double stage_perfetto(struct bench *b)
{
	double s = pipeline_run(b, b->trace);

	b->slices = trace_slices(b->trace);
	return s;
}

static double stage_replay(struct bench *b)
{
	struct recording_reader *r = NULL;
	struct pipeline *p = pipeline_new();
	const struct wire_hdr *rec;
	double begin = cpu_s();

	must(p && !recording_open(b->rtr, &r), b->rtr);
	while (recording_next(r, &rec) == 1)
		must(!pipeline_feed(p, rec), "pipeline_feed");
	b->findings += incidents_opened(pipeline_incidents(p));
	must(pipeline_records(p) == b->n_records, "records lost in the recording");
	recording_reader_free(r);
	pipeline_free(p);
	return cpu_s() - begin;
}

static const struct stage {
	const char *name;
	double (*run)(struct bench *b);
	double target; /* records a second; 0 none */
	bool slices;   /* print slices a second too */
} stages[] = {
	{ "reorder window", stage_reorder, 0, false },        { "decode", stage_decode, 0, false },
	{ "decode, model", stage_model, 0, false },           { "decode, model, detectors", stage_pipeline, 0, false },
	{ "the same, writing .rtr", stage_record, 0, false }, { "replay of .rtr", stage_replay, 3e6, false },
	{ "decode to .pftrace", stage_perfetto, 0, true },
};

static int double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(const double *values, int first, int step)
{
	double s[WINDOWS];
	int n = 0;

	for (int i = first; i < WINDOWS; i += step)
		s[n++] = values[i];          /* lint: of the windows in turn, n are filled */
	qsort(s, n, sizeof(*s), double_cmp); /* lint: of the windows in turn, n are filled */
	return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

static void stage_print(struct bench *b, const struct stage *st)
{
	double s[WINDOWS], min = 1e9, max = 0;

	for (int i = 0; i < WINDOWS; i++) {
		s[i] = st->run(b);
		min = s[i] < min ? s[i] : min;
		max = s[i] > max ? s[i] : max;
	}
	printf("  %-26s %7.2f  %6.2f to %-6.2f %5.3f", st->name, b->n_records / median(s, 0, 1) / 1e6,
	       b->n_records / max / 1e6, b->n_records / min / 1e6, median(s, 0, 2) / median(s, 1, 2));
	if (st->target)
		printf("   target %.0f", st->target / 1e6);
	if (st->slices)
		printf("   %.2f M slices/s (%.0f a window), target 1", b->slices / median(s, 0, 1) / 1e6, b->slices);
	printf("\n");
	fflush(stdout);
}

static void job_print(struct bench *b, int n_ranks, const char *only)
{
	memset(&b->job, 0, sizeof(b->job));
	job_records_begin(&b->job, n_ranks);
	job_records_make(&b->job, 1 + RECORDS_PER_WINDOW / (90 * n_ranks));
	b->n_records = b->findings = 0;
	for (const struct wire_hdr *rec = NULL; (rec = job_records_next(&b->job, rec));)
		if (++b->n_records == RECORDS_PER_WINDOW)
			b->job.used = (const char *)rec + rec->size - b->job.sorted; /* the rest is left out */
	printf("%d ranks, %" PRIu64 " records of %.0f s a window: million a CPU second, range, A/A\n", n_ranks,
	       b->n_records, b->job.step * 0.06);
	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
		if (!only || strstr(stages[i].name, only))
			stage_print(b, &stages[i]);
	if (b->findings)
		printf("  %" PRIu64 " findings on a healthy job: these figures are of something else\n", b->findings);
	job_records_free(&b->job);
}

/* What a session of hours holds, in a process of its own so that nothing freed before counts: records are made as they
 * are used, nothing is kept but by the pipeline. */
static void memory_print(const char *output, const char *name, uint64_t n_records)
{
	struct job_records j;
	struct pipeline *p = pipeline_new();
	uint64_t before, early = 0, n = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	must(pid >= 0, "fork");
	if (pid) {
		must(waitpid(pid, NULL, 0) == pid, "waitpid");
		return;
	}
	job_records_begin(&j, 64);
	j.churn = 7;
	job_records_make(&j, 3);
	before = rss_kib();
	must(p && (!output || !pipeline_add_output(p, output)), "pipeline");
	while (n < n_records) {
		for (const struct wire_hdr *rec = NULL; (rec = job_records_next(&j, rec)); n++)
			must(!pipeline_feed(p, rec), "pipeline_feed");
		if (!early && n > n_records / 4)
			early = rss_kib();
		job_records_make(&j, 3);
	}
	printf("  %-26s %7.1f MiB after %.0f M, %.1f after %.0f M records (%.0f s of 64 ranks, %" PRIu64
	       " workers come and gone)\n",
	       name, (early - before) / 1024.0, n / 4e6, (rss_kib() - before) / 1024.0, n / 1e6, j.step * 0.06,
	       (uint64_t)(j.churn_pid - 2000000));
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct bench b = { .dir = "/tmp/ranktrace-bench-XXXXXX" };
	const char *only = argc > 1 ? argv[1] : NULL;
	bool good = true;

	must(mkdtemp(b.dir), b.dir);
	snprintf(b.rtr, sizeof(b.rtr), "%s/job.rtr", b.dir);
	snprintf(b.trace, sizeof(b.trace), "%s/job.pftrace", b.dir);
	if (!only || !strcmp(only, "memory")) {
		printf("memory beyond what the bench holds itself, target 64 MiB\n");
		memory_print(NULL, "model, detectors", 40000003);
		memory_print(b.trace, "the same, to .pftrace", 8000009);
	}
	if (!only || !strcmp(only, "hit"))
		good = hit_print(RANKTRACE, LIBRARY);
	if (!only || (strcmp(only, "memory") && strcmp(only, "hit"))) {
		job_print(&b, 8, only);
		job_print(&b, 64, only);
	}
	unlink(b.rtr);
	unlink(b.trace);
	rmdir(b.dir);
	return good ? 0 : 1;
}
