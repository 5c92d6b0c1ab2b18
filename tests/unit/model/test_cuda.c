/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cuda.c - decode of the cuda tracer: every kind of record, records of older and of later versions, damaged ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/decode.h"
#include "tracers/cuda/cuda.h"

#define T_NS 5000000000ull

static struct intern *strings;
static struct event out[DECODE_EVENTS_MAX];

static struct wire_hdr hdr(uint8_t kind, size_t size)
{
	return (struct wire_hdr){ .size = size, .tracer = WIRE_CUDA, .kind = kind, .tid = 8, .tgid = 7, .ts_ns = T_NS };
}

static int decoded(const void *rec)
{
	memset(out, 0xa5, sizeof(out)); /* nothing may depend on what was there */
	return decode_record(rec, strings, out);
}

static void error_is(const struct event *e, const char *call, const char *error, int result)
{
	assert_int_equal(e->kind, EV_CUDA_ERROR);
	assert_string_equal(e->cuda_error.call, call);
	assert_string_equal(e->cuda_error.error, error);
	assert_int_equal(e->cuda_error.result, result);
	assert_true(e->tgid == 7 && e->tid == 8 && e->ts_ns == T_NS);
}

static void waits(void **state)
{
	struct cuda_sync r = { .hdr = hdr(CUDA_SYNC_BEGIN, sizeof(r)),
			       .handle = 0x10,
			       .begin_ns = 4,
			       .sync = SYNC_STREAM,
			       .fn = CUDA_FN_cuStreamSynchronize };

	(void)state;
	assert_int_equal(decoded(&r), 1);
	assert_true(out->kind == EV_SYNC_BEGIN && out->sync.kind == SYNC_STREAM && out->sync.handle == 0x10);
	r.hdr.kind = CUDA_SYNC_END;
	r.result = 719;
	assert_int_equal(decoded(&r), 2);
	assert_true(out->kind == EV_SYNC_END && out->sync.result == 719 && out->sync.begin_ns == 4);
	error_is(&out[1], "cuStreamSynchronize", "CUDA_ERROR_LAUNCH_FAILED", 719);
	r.result = CUDA_RESULT_UNKNOWN;
	assert_int_equal(decoded(&r), 1); /* not seen is no error */
	r = (struct cuda_sync){ .hdr = hdr(CUDA_SYNC_END, sizeof(r)),
				.handle = CUDA_STREAM_PER_THREAD,
				.begin_ns = 4,
				.sync = SYNC_COPY,
				.bytes = 1 << 20,
				.fn = CUDA_FN_cuMemcpy2D };
	assert_int_equal(decoded(&r), 1);
	assert_true(out->sync.kind == SYNC_COPY && out->sync.handle == 2 && out->sync.bytes == 1 << 20);
	r.sync = SYNC_COPY + 1;
	assert_int_equal(decoded(&r), 0);
}

/* 48 bytes, no `bytes`, no `fn`: what lies behind it is another record. */
static void waits_of_version_1(void **state)
{
	struct cuda_sync r = { .hdr = hdr(CUDA_SYNC_END, CUDA_SYNC_SIZE_1),
			       .handle = 3,
			       .sync = SYNC_EVENT,
			       .result = 700,
			       .bytes = 99,
			       .fn = CUDA_FN_cuInit };

	(void)state;
	assert_int_equal(decoded(&r), 2);
	assert_true(out->sync.kind == SYNC_EVENT && out->sync.handle == 3 && !out->sync.bytes);
	error_is(&out[1], "cuEventSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", 700);
}

static void cuda_events_and_queries(void **state)
{
	static const struct {
		uint8_t kind;
		enum event_kind event;
	} kinds[] = {
		{ CUDA_EVENT_RECORD, EV_CUDA_EVENT },
		{ CUDA_EVENT_WAIT, EV_CUDA_EVENT_WAIT },
		{ CUDA_EVENT_QUERY, EV_CUDA_EVENT_QUERY },
		{ CUDA_STREAM_QUERY, EV_STREAM_QUERY },
	};
	struct cuda_event_use r = { .event = 0x20, .stream = 0x30, .result = CUDA_NOT_READY };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		r.hdr = hdr(kinds[i].kind, sizeof(r));
		assert_int_equal(decoded(&r), 1); /* not ready is an answer, no error */
		assert_int_equal(out->kind, kinds[i].event);
		assert_true(out->cuda_event.handle == 0x20 && out->cuda_event.stream == 0x30 &&
			    out->cuda_event.result == CUDA_NOT_READY);
	}
	r.hdr = hdr(CUDA_EVENT_QUERY, sizeof(r));
	r.result = 400;
	assert_int_equal(decoded(&r), 2);
	error_is(&out[1], "cuEventQuery", "CUDA_ERROR_INVALID_HANDLE", 400);
	r.fn = CUDA_FN_cuStreamQuery;
	assert_int_equal(decoded(&r), 2);
	error_is(&out[1], "cuStreamQuery", "CUDA_ERROR_INVALID_HANDLE", 400);
}

static void calls(void **state)
{
	struct cuda_span r = { .hdr = hdr(CUDA_CALL_END, sizeof(r)),
			       .begin_ns = T_NS - 70,
			       .bytes = 4096,
			       .result = 2,
			       .fn = CUDA_FN_cuMemAlloc };

	(void)state;
	assert_int_equal(decoded(&r), 2);
	assert_true(out->kind == EV_CALL && out->call.class == CALL_ALLOC && out->call.begin_ns == T_NS - 70);
	assert_true(out->call.bytes == 4096 && out->call.result == 2);
	assert_string_equal(out->call.name, "cuMemAlloc");
	error_is(&out[1], "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", 2);
	r.fn = CUDA_FN_cuModuleLoadDataEx;
	r.result = 0;
	assert_int_equal(decoded(&r), 1);
	assert_int_equal(out->call.class, CALL_MODULE);
	r.hdr.kind = CUDA_CALL_OPEN;
	r.result = CUDA_RESULT_UNKNOWN;
	assert_int_equal(decoded(&r), 1);
	assert_true(out->kind == EV_CALL_OPEN && out->call.result == 0 && out->call.begin_ns == T_NS - 70);
}

/* Numbers that a later version added still distinguish functions and errors. */
static void unknown_numbers(void **state)
{
	struct cuda_span r = { .hdr = hdr(CUDA_CALL_END, sizeof(r)), .result = 4711, .fn = 60000 };

	(void)state;
	assert_int_equal(decoded(&r), 2);
	assert_int_equal(out->call.class, CALL_OTHER);
	assert_string_equal(out->call.name, "cuda function 60000");
	error_is(&out[1], "cuda function 60000", "CUDA_ERROR 4711", 4711);
	r.fn = 0;
	assert_int_equal(decoded(&r), 2);
	assert_string_equal(out->call.name, "cuda function 0");
}

static void elapsed(void **state)
{
	struct cuda_elapsed r = { .hdr = hdr(CUDA_ELAPSED, sizeof(r)), .start = 1, .end = 2 };
	static const float bad[] = { -1.0f, 1e30f };
	float ms = 12.5f;

	(void)state;
	memcpy(&r.ms, &ms, sizeof(ms));
	assert_int_equal(decoded(&r), 1);
	assert_true(out->kind == EV_ELAPSED && out->elapsed.start == 1 && out->elapsed.end == 2);
	assert_int_equal(out->elapsed.gpu_ns, 12500000);
	for (size_t i = 0; i < 2; i++) {
		memcpy(&r.ms, &bad[i], sizeof(ms));
		assert_int_equal(decoded(&r), 0);
	}
	r.ms = 0x7fc00000; /* NaN */
	assert_int_equal(decoded(&r), 0);
	r.result = CUDA_NOT_READY;
	assert_int_equal(decoded(&r), 0);
	r.result = 400;
	assert_int_equal(decoded(&r), 1);
	error_is(out, "cuEventElapsedTime", "CUDA_ERROR_INVALID_HANDLE", 400);
}

static struct cuda_capture capture(enum capture_kind kind, enum cuda_fn fn, int result)
{
	return (struct cuda_capture){ .hdr = hdr(CUDA_CAPTURE, sizeof(struct cuda_capture)),
				      .begin_ns = T_NS - 5,
				      .stream = 1,
				      .graph = 2,
				      .exec = 3,
				      .parent = 4,
				      .result = result,
				      .fn = fn,
				      .capture = kind };
}

static void graphs(void **state)
{
	struct cuda_capture r = capture(CAPTURE_INSTANTIATE, CUDA_FN_cuGraphInstantiate, 0);

	(void)state;
	assert_int_equal(decoded(&r), 2);
	assert_true(out->kind == EV_CAPTURE && out->capture.kind == CAPTURE_INSTANTIATE && out->capture.stream == 1);
	assert_true(out->capture.graph == 2 && out->capture.exec == 3 && out->capture.parent == 4);
	assert_true(out[1].kind == EV_CALL && out[1].call.class == CALL_GRAPH && out[1].call.begin_ns == T_NS - 5);
	r = capture(CAPTURE_LAUNCH, CUDA_FN_cuGraphLaunch, CUDA_RESULT_UNKNOWN); /* emitted at its entry */
	assert_int_equal(decoded(&r), 1);
	assert_true(out->kind == EV_CAPTURE && out->capture.kind == CAPTURE_LAUNCH);
	r = capture(CAPTURE_BEGIN, CUDA_FN_cuStreamBeginCapture, 900); /* failed: nothing began */
	assert_int_equal(decoded(&r), 2);
	assert_int_equal(out->kind, EV_CALL);
	error_is(&out[1], "cuStreamBeginCapture", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 900);
	r.capture = CAPTURE_DESTROY + 1;
	assert_int_equal(decoded(&r), 0);
}

/* An invalidated capture is over when its end says so; one that was not ours to end goes on. */
static void captures_given_up(void **state)
{
	struct cuda_capture r = capture(CAPTURE_END, CUDA_FN_cuStreamEndCapture, 901);

	(void)state;
	r.graph = 0;
	assert_int_equal(decoded(&r), 3);
	assert_true(out->kind == EV_CAPTURE && out->capture.kind == CAPTURE_END && !out->capture.graph);
	error_is(&out[2], "cuStreamEndCapture", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 901);
	r.result = 908;
	assert_int_equal(decoded(&r), 2);
	assert_int_equal(out->kind, EV_CALL);
	error_is(&out[1], "cuStreamEndCapture", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", 908);
}

static void burst(void **state)
{
	struct cuda_launch l = {
		.hdr = hdr(CUDA_LAUNCH, sizeof(l)), .stream = 0xab, .bytes = 77, .fn = CUDA_FN_cuMemcpyHtoDAsync
	};
	struct cuda_counts c = {
		.hdr = hdr(CUDA_COUNTS, sizeof(c)), .launches = 11, .copies = 13, .copy_bytes = 1700, .sets = 19
	};
	static const struct {
		const char *name;
		int64_t value;
	} totals[] = {
		{ "kernel launches", 11 },
		{ "async copies", 13 },
		{ "copy bytes", 1700 },
		{ "async memsets", 19 },
	};

	(void)state;
	assert_int_equal(decoded(&l), 1);
	assert_int_equal(out->kind, EV_INSTANT);
	assert_string_equal(out->generic.name, "cuMemcpyHtoDAsync");
	assert_string_equal(out->generic.track, "launches on stream 0xab");
	assert_true(out->generic.n_args == 1 && out->generic.args[0].number == 77 && !out->generic.args[0].text);
	l.bytes = 0;
	assert_int_equal(decoded(&l), 1);
	assert_int_equal(out->generic.n_args, 0);
	assert_int_equal(decoded(&c), 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(out[i].kind, EV_COUNTER);
		assert_string_equal(out[i].generic.name, totals[i].name);
		assert_int_equal(out[i].generic.value, totals[i].value);
		assert_int_equal(out[i].tgid, 7);
	}
}

static void short_and_unknown_records(void **state)
{
	static const uint16_t sizes[] = {
		[CUDA_SYNC_BEGIN] = CUDA_SYNC_SIZE_1,
		[CUDA_SYNC_END] = CUDA_SYNC_SIZE_1,
		[CUDA_EVENT_RECORD] = 48,
		[CUDA_EVENT_WAIT] = 48,
		[CUDA_EVENT_QUERY] = 48,
		[CUDA_CALL_END] = 48,
		[CUDA_CALL_OPEN] = 48,
		[CUDA_STREAM_QUERY] = 48,
		[CUDA_ELAPSED] = 48,
		[CUDA_CAPTURE] = 72,
		[CUDA_LAUNCH] = 48,
		[CUDA_COUNTS] = 56,
	};
	union {
		struct wire_hdr h;
		uint8_t bytes[128];
	} u;

	(void)state;
	for (int kind = 1; kind <= CUDA_COUNTS; kind++) {
		memset(&u, 0, sizeof(u));
		u.h = hdr(kind, sizes[kind]);
		assert_true(decoded(&u) >= 0);
		u.h.size = sizeof(u); /* of a later version */
		assert_true(decoded(&u) >= 0);
		u.h.size = sizes[kind] - 8;
		assert_int_equal(decoded(&u), -EINVAL);
	}
	u.h = hdr(0, sizeof(u));
	assert_int_equal(decoded(&u), -EINVAL);
	u.h.kind = CUDA_COUNTS + 1;
	assert_int_equal(decoded(&u), -EINVAL);
	u.h.kind = 255;
	assert_int_equal(decoded(&u), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits),
		cmocka_unit_test(waits_of_version_1),
		cmocka_unit_test(cuda_events_and_queries),
		cmocka_unit_test(calls),
		cmocka_unit_test(unknown_numbers),
		cmocka_unit_test(elapsed),
		cmocka_unit_test(graphs),
		cmocka_unit_test(captures_given_up),
		cmocka_unit_test(burst),
		cmocka_unit_test(short_and_unknown_records),
	};
	int rc;

	strings = intern_new();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	intern_free(strings);
	return rc;
}
