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
		assert_true(k->decode || k->event);
		assert_true(k->to + k->bytes <= sizeof(struct event) && (!k->bytes || k->event));
		assert_true(!k->bytes || (k->to > offsetof(struct event, ts_ns) && sizeof(h) + k->bytes == k->size));
		place_check(k, k->kept_by, k->kept_bytes ? k->kept_bytes : sizeof(uint32_t));
		assert_true(k->kept_bytes <= RECORD_KEY_MAX);
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

static struct event of_body(uint8_t tracer, uint8_t kind, const void *body, size_t bytes, int expected)
{
	struct event out[DECODE_EVENTS_MAX];

	rec.h = (struct wire_hdr){
		.size = sizeof(rec.h) + bytes, .tracer = tracer, .kind = kind, .tgid = 7, .ts_ns = 9
	};
	memcpy(&rec.h + 1, body, bytes);
	assert_int_equal(decode_record(&rec.h, NULL, out), expected);
	return out[0];
}

/* What record and event share comes through as it is, also out of a longer record of a later version. */
static void shared(void **state)
{
	const struct record_kind *k;
	uint8_t body[1024];
	int n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = i + 1;
	for (size_t i = 0; (k = record_kind_listed(i)); i++) {
		struct event e;

		if (!k->bytes || k->decode)
			continue;
		e = of_body(k->tracer, k->kind, body, sizeof(body), 1);
		assert_int_equal(e.kind, k->event);
		assert_true(e.tgid == 7 && e.ts_ns == 9);
		assert_memory_equal((char *)&e + k->to, body, k->bytes);
		n++;
	}
	assert_true(n >= 4); /* pressure, throttle, a GPU's sample and health */
}

/* What a foreign or damaged record may hold, and nobody behind the decoder is to meet. */
static void out_of_range(void **state)
{
	struct gpu_procs procs = { .index = 3, .n = 1000, .pids = { 11 } };
	struct gpu_usage usage = { .index = 3, .pid = 11, .memory_mib = 5, .sm_percent = GPU_NO_VALUE };
	struct gpu_state answer = { .index = 3, .answer = GPU_IS_LOST }, unheard_of = { .answer = 4 };
	struct port_users users = { .index = 2, .n = 1000, .pids = { 12 } };
	struct comm_sample sample = { .comm = 4096,
				      .hash = 77,
				      .rank = 1,
				      .nranks = 2,
				      .async_result = 5,
				      .init_state = 6,
				      .abort = 7 },
			   no_rank = { .hash = 2, .rank = 3, .nranks = 3 };
	struct proxy_part part = { .peer = -1 }, begin = { .peer = -1, .flags = PROXY_SAMPLE };
	struct event e;

	(void)state;
	e = of_body(WIRE_COLLECTOR, RECORD_GPU_PROCS, &procs, sizeof(procs), 1);
	assert_true(e.gpu_procs.n == GPU_PIDS_MAX && e.gpu_procs.pids[0] == 11);
	e = of_body(WIRE_COLLECTOR, RECORD_GPU_USAGE, &usage, sizeof(usage), 1);
	assert_true(e.gpu_usage.pid == 11 && e.gpu_usage.sm_percent == GPU_NO_VALUE);
	usage.sm_percent = 101;
	of_body(WIRE_COLLECTOR, RECORD_GPU_USAGE, &usage, sizeof(usage), -EINVAL);
	e = of_body(WIRE_COLLECTOR, RECORD_GPU_STATE, &answer, sizeof(answer), 1);
	assert_true(e.gpu_state.since_ns == 9 && e.gpu_state.answer == GPU_IS_LOST);
	of_body(WIRE_COLLECTOR, RECORD_GPU_STATE, &unheard_of, sizeof(unheard_of), -EINVAL);
	e = of_body(WIRE_COLLECTOR, RECORD_PORT_USERS, &users, sizeof(users), 1);
	assert_true(e.port.users.n == PORT_USERS_MAX && e.port.index == 2);
	e = of_body(WIRE_COLLECTOR, RECORD_COMM_SAMPLE, &sample, sizeof(sample), 1);
	assert_true(!e.comm_sample.async_result && !e.comm_sample.init_state && !e.comm_sample.abort);
	sample.known = COMM_SAMPLE_ASYNC_RESULT | COMM_SAMPLE_INIT_STATE | COMM_SAMPLE_ABORT;
	e = of_body(WIRE_COLLECTOR, RECORD_COMM_SAMPLE, &sample, sizeof(sample), 1);
	assert_memory_equal(&e.comm_sample, &sample, sizeof(sample));
	of_body(WIRE_COLLECTOR, RECORD_COMM_SAMPLE, &no_rank, sizeof(no_rank), -EINVAL);
	of_body(WIRE_COLLECTOR, RECORD_PROXY, &part, sizeof(part), -EINVAL);
	e = of_body(WIRE_COLLECTOR, RECORD_PROXY, &begin, sizeof(begin), 1);
	assert_memory_equal(&e.proxy, &begin, sizeof(begin));
}

static void more_counters(void **state)
{
	struct {
		struct port_status now;
		uint64_t counters[PORT_COUNTERS + 2];
	} port = { .now = { .index = 5, .n_counters = PORT_COUNTERS + 2 }, .counters = { 42 } };
	struct {
		struct tcp_status now;
		uint64_t counters[TCP_COUNTERS + 2];
	} tcp = { .now = { .index = 6, .n_counters = TCP_COUNTERS + 2 }, .counters = { 43 } };
	struct event e;

	(void)state;
	e = of_body(WIRE_COLLECTOR, RECORD_PORT_SAMPLE, &port, sizeof(port), 1);
	assert_true(e.port.sample.n_counters == PORT_COUNTERS && e.port.counters[0] == 42 && e.port.index == 5);
	e = of_body(WIRE_COLLECTOR, RECORD_TCP_SAMPLE, &tcp, sizeof(tcp), 1);
	assert_true(e.tcp.sample.n_counters == TCP_COUNTERS && e.tcp.counters[0] == 43 && e.tcp.index == 6);
	of_body(WIRE_COLLECTOR, RECORD_PORT_SAMPLE, &port, sizeof(port) - 8, -EINVAL);
	of_body(WIRE_COLLECTOR, RECORD_TCP_SAMPLE, &tcp, sizeof(tcp) - 8, -EINVAL);
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

/* Texts behind a record: each with its zero byte, cut to fit; none is the empty one; zeros at the end. */
static void texts_put(void **state)
{
	const char *texts = (const char *)rec.bytes + sizeof(rec.h);

	(void)state;
	memset(&rec, 0xff, sizeof(rec));
	rec.h.size = sizeof(rec.h);
	assert_int_equal(record_text_put(&rec.h, sizeof(rec.h) + 10, "ab"), 3);
	assert_int_equal(record_text_put(&rec.h, sizeof(rec.h) + 10, NULL), 1);
	assert_int_equal(record_text_put(&rec.h, sizeof(rec.h) + 9, "12345"), 5);
	assert_int_equal(record_text_put(&rec.h, sizeof(rec.h) + 10, "never"), 1);
	assert_int_equal(rec.h.size, sizeof(rec.h) + 10);
	assert_memory_equal(texts,
			    "ab\0\0"
			    "1234\0",
			    10);
	assert_int_equal(record_pad(&rec.h), sizeof(rec.h) + 16);
	assert_memory_equal(texts + 10, "\0\0\0\0\0\0\xff", 7);
	assert_int_equal(record_pad(&rec.h), sizeof(rec.h) + 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(declared),     cmocka_unit_test(decoded),       cmocka_unit_test(unknown),
		cmocka_unit_test(nested),       cmocka_unit_test(by_number),     cmocka_unit_test(shared),
		cmocka_unit_test(out_of_range), cmocka_unit_test(more_counters), cmocka_unit_test(texts_put),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
