/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kept_records.c - the collector's records that a file in the middle of a session begins with: what of them goes
 * with a process or with its GPU's list, and that those of a session of weeks leave room for the present jobs'.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "pipeline/kept_records.h"
#include "pipeline/pipeline.h"
#include "schemas/collector.h"
#include "schemas/probing.h"
#include "tracers/gpu/wire/gpu.h"
#include "tracers/process/life.h"

#define SEC 1000000000ull
#define GPUS 8

static struct kept_records kept;
static struct model *m;
static uint64_t now_ns;

static int fresh(void **state)
{
	(void)state;
	kept = (struct kept_records){};
	m = model_new();
	now_ns = SEC;
	return 0;
}

static int done(void **state)
{
	(void)state;
	kept_records_free(&kept);
	model_free(m);
	return 0;
}

static struct wire_hdr collector(size_t size, int kind, uint32_t tgid)
{
	return (struct wire_hdr){
		.size = size, .tracer = WIRE_COLLECTOR, .kind = kind, .tgid = tgid, .tid = tgid, .ts_ns = now_ns
	};
}

/* As nvml_child.c writes them: the list, then a record for each that it has. */
static void computing(uint32_t gpu, uint32_t n, const uint32_t *pids)
{
	struct record_gpu_procs list = { .hdr = collector(sizeof(list), RECORD_GPU_PROCS, 0),
					 .body = { .index = gpu, .n = n } };

	memcpy(list.body.pids, pids, n * sizeof(*pids));
	kept_records_note(&kept, &list.hdr);
	for (uint32_t i = 0; i < n; i++) {
		struct record_gpu_usage u = { .hdr = collector(sizeof(u), RECORD_GPU_USAGE, 0),
					      .body = { .index = gpu, .pid = pids[i], .memory_mib = 1000 + gpu } };

		kept_records_note(&kept, &u.hdr);
	}
}

static void tier(uint32_t tgid)
{
	struct record_tier t = { .hdr = collector(sizeof(t), RECORD_TIER, tgid), .tier = 1 };

	kept_records_note(&kept, &t.hdr);
}

static void gone(uint32_t tgid)
{
	struct life_exit e = { .hdr = { .size = sizeof(e),
					.tracer = WIRE_LIFE,
					.kind = LIFE_EXIT,
					.tgid = tgid,
					.tid = tgid,
					.ts_ns = now_ns },
			       .last = 1 };

	kept_records_note(&kept, &e.hdr);
}

static int count(void *to, const struct wire_hdr *rec)
{
	int *n = to;

	n[rec->kind]++;
	return 0;
}

static int n_of(int kind)
{
	int n[256] = {};

	assert_int_equal(stream_state(&kept, m, count, n), 0);
	return n[kind];
}

static void usage_goes_with_the_list_of_its_gpu(void **state)
{
	(void)state;
	computing(0, 2, (uint32_t[]){ 100, 101 });
	computing(1, 1, (uint32_t[]){ 200 });
	assert_int_equal(n_of(RECORD_GPU_USAGE), 3);
	gone(100);
	computing(0, 1, (uint32_t[]){ 101 });
	assert_int_equal(n_of(RECORD_GPU_USAGE), 2);
	computing(0, 0, NULL);
	assert_int_equal(n_of(RECORD_GPU_USAGE), 1); /* the other GPU's */
	assert_int_equal(n_of(RECORD_GPU_PROCS), 2);
}

static void a_process_on_several_gpus_has_a_usage_of_each(void **state)
{
	(void)state;
	for (uint32_t gpu = 0; gpu < GPUS; gpu++)
		computing(gpu, 1, (uint32_t[]){ 100 });
	assert_int_equal(n_of(RECORD_GPU_USAGE), GPUS);
}

static void past_jobs_leave_room(void **state)
{
	uint32_t pid = 1000;

	(void)state;
	for (int job = 0; job < 1200; job++, pid += GPUS) {
		for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
			tier(pid + gpu);
			computing(gpu, 1, (uint32_t[]){ pid + gpu });
		}
		for (uint32_t gpu = 0; gpu < GPUS; gpu++)
			gone(pid + gpu);
	}
	for (uint32_t gpu = 0; gpu < GPUS; gpu++)
		tier(pid + gpu);
	assert_int_equal(n_of(RECORD_TIER), GPUS);
	assert_int_equal(n_of(RECORD_GPU_USAGE), GPUS); /* of the last job: no list came since */
	assert_int_equal(kept.refused, 0);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

/* What is known already is renewed; what is new is counted. A record is found without a walk over all. */
static void a_full_list_counts_and_costs_no_more(void **state)
{
	uint64_t begin_ns;

	(void)state;
	for (uint32_t i = 0; i < KEPT_MAX + 5; i++)
		tier(1 + i);
	assert_int_equal(kept.n, KEPT_MAX);
	assert_int_equal(kept.refused, 5);
	begin_ns = cpu_ns();
	for (uint32_t i = 0; i < KEPT_MAX; i++)
		tier(1 + i);
	assert_true(cpu_ns() - begin_ns < KEPT_MAX * 20000ull); /* a walk: 137 us each */
	assert_int_equal(kept.refused, 5);
	gone(1);
	tier(KEPT_MAX + 1);
	assert_int_equal(kept.refused, 5);
}

static int first_last(void *to, const struct wire_hdr *rec)
{
	uint32_t *tgid = to;

	tgid[0] = tgid[0] ? tgid[0] : rec->tgid;
	tgid[1] = rec->tgid;
	return 0;
}

static void the_state_is_in_order_of_the_last_records(void **state)
{
	uint32_t tgid[2] = {};

	(void)state;
	tier(1);
	tier(2);
	tier(3);
	tier(1);
	assert_int_equal(stream_state(&kept, m, first_last, tgid), 0);
	assert_int_equal(tgid[0], 2);
	assert_int_equal(tgid[1], 1);
}

static void tap(void *to, const struct wire_hdr *rec, struct pipeline *p)
{
	(void)to;
	(void)rec;
	(void)p;
}

static void tick(struct pipeline *p)
{
	struct record_tick t = { .hdr = collector(sizeof(t), RECORD_TICK, 0) };

	assert_int_equal(pipeline_feed(p, &t.hdr), 0);
}

static void what_found_no_room_is_said_once_a_while(void **state)
{
	struct pipeline *p = pipeline_new();
	struct pipeline_shortage s;

	(void)state;
	pipeline_set_tap(p, tap, NULL);
	tick(p);
	assert_false(pipeline_shortage(p, &s));
	for (uint32_t i = 0; i < KEPT_MAX + 5; i++) {
		struct record_tier t = { .hdr = collector(sizeof(t), RECORD_TIER, 1 + i), .tier = 1 };

		assert_int_equal(pipeline_feed(p, &t.hdr), 0);
	}
	assert_true(pipeline_shortage(p, &s));
	assert_int_equal(s.records, 5);
	assert_false(pipeline_shortage(p, &s));
	pipeline_free(p);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(usage_goes_with_the_list_of_its_gpu),
		TEST(a_process_on_several_gpus_has_a_usage_of_each),
		TEST(past_jobs_leave_room),
		TEST(a_full_list_counts_and_costs_no_more),
		TEST(the_state_is_in_order_of_the_last_records),
		TEST(what_found_no_room_is_said_once_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
