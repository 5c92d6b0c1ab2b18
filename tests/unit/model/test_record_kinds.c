/* SPDX-License-Identifier: Apache-2.0
 *
 * test_record_kinds.c - what the sources declare of their records holds for every kind: sizes, places of times, and
 * that a decoder makes no more events than it says.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "pipeline/decode.h"
#include "record.h"
#include "schemas/collector.h"
#include "tracers/sched/sched.h"
#include "tests/unit/job/job_script.h"

static union {
	struct wire_hdr h;
	uint8_t bytes[WIRE_SIZE_MAX];
} rec;

static void place_check(const struct record_kind *k, uint16_t at, size_t bytes)
{
	if (!at)
		return;
	assert_true(at >= sizeof(struct wire_hdr) && at + bytes <= k->size);
	assert_int_equal(at % bytes, 0);
}

static void declared(void **state)
{
	const struct record_kind *k;
	size_t n = 0;

	(void)state;
	for (; (k = record_kind_listed(n)); n++) {
		struct wire_hdr h = { .tracer = k->tracer, .kind = k->kind };

		assert_ptr_equal(record_kind_of(&h), k);
		assert_true(k->size >= sizeof(h) && k->size % 8 == 0 && k->size <= WIRE_SIZE_MAX);
		assert_true(k->n_events <= DECODE_EVENTS_MAX);
		assert_non_null(k->decode);
		place_check(k, k->kept_by, sizeof(uint32_t));
		for (int i = 0; i < RECORD_TIMES_MAX; i++)
			place_check(k, k->times[i], sizeof(uint64_t));
	}
	assert_true(n > 50);
}

/* Whatever is in a record, its events are as many as declared, and nothing behind them is touched. */
static void decoded(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX + 1], untouched;
	uint64_t rng = 7;
	const struct record_kind *k;

	(void)state;
	memset(&untouched, 0x5a, sizeof(untouched));
	for (size_t i = 0; (k = record_kind_listed(i)); i++) {
		int max = k->n_events ? k->n_events : 1;

		for (int n = 0; n < 500; n++) {
			for (size_t b = 0; b < 1024; b++)
				rec.bytes[b] = n % 2 ? random_next(&rng) % 3 : random_next(&rng);
			rec.h = (struct wire_hdr){ .size = k->size + 8 * (n % 64),
						   .tracer = k->tracer,
						   .kind = k->kind };
			memset(out, 0x5a, sizeof(out));
			assert_true(decode_record(&rec.h, strings, out) <= max);
			assert_memory_equal(&out[max], &untouched, sizeof(untouched));
		}
		rec.h.size = k->size - 8;
		assert_int_equal(decode_record(&rec.h, strings, out), -EINVAL);
	}
	intern_free(strings);
}

static void unknown(void **state)
{
	struct event out[DECODE_EVENTS_MAX];

	(void)state;
	for (int tracer = 0; tracer < 256; tracer++)
		for (int kind = 0; kind < 256; kind++) {
			rec.h = (struct wire_hdr){ .size = sizeof(rec.h) - 8, .tracer = tracer, .kind = kind };
			assert_int_equal(decode_record(&rec.h, NULL, out), -EINVAL);
		}
}

static void nested(void **state)
{
	struct sched_task task = { .hdr = { .size = sizeof(task), .tracer = WIRE_SCHED, .kind = SCHED_TASK } };
	struct record_proc proc = { .hdr = { .size = sizeof(proc), .tracer = WIRE_COLLECTOR, .kind = RECORD_PROC } };

	(void)state;
	assert_ptr_equal(record_time(&task.hdr, 0), &task.since_ns);
	assert_null(record_time(&task.hdr, 1));
	assert_null(record_time(&proc.hdr, 0));
	task.hdr.size = sizeof(task.hdr); /* too short for it */
	assert_null(record_time(&task.hdr, 0));
	task.hdr.kind = 63;
	assert_null(record_time(&task.hdr, 0));
}

/* By numbers that stand in recordings. */
static void by_number(void **state)
{
	static const struct {
		const struct record_kind *of;
		uint8_t tracer, kind;
		const char *name;
	} known[] = {
		{ source_records_collector, 0, 1, "start" },
		{ source_records_process, 1, 1, "fork" },
		{ source_records_process, 0, 3, "proc" },
		{ source_records_nccl, 2, 1, "nccl_op" },
		{ source_records_comms, 0, 10, "comm_sample" },
		{ source_records_sched, 3, 1, "sched_task" },
		{ source_records_cuda, 4, 1, "cuda_sync_begin" },
		{ source_records_verbs, 6, 1, "verbs_qp" },
		{ source_records_tcp, 0, 33, "tcp" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct wire_hdr h = { .tracer = known[i].tracer, .kind = known[i].kind };
		const struct record_kind *k = record_kind_of(&h), *of = known[i].of;

		assert_non_null(k);
		assert_string_equal(k->name, known[i].name);
		while (of->name && of != k)
			of++;
		assert_ptr_equal(of, k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(declared), cmocka_unit_test(decoded),   cmocka_unit_test(unknown),
		cmocka_unit_test(nested),   cmocka_unit_test(by_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
