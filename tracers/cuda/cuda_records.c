/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_records.c - what the probes on the CUDA driver write. One call can be several: an instantiation that failed is a
 * graph's creation that was not, a call with its time, and an error.
 */
#include <stdio.h>
#include <string.h>

#include "record.h"
#include "tracers/cuda/cuda.h"
#include "tracers/cuda/cuda_errors.h"

#define NS_PER_MS 1e6

static const struct {
	const char *name;
	enum call_class class;
} functions[] = {
#define X(number, function, class_) [number] = { #function, CALL_##class_ },
	CUDA_FUNCTIONS(X)
#undef X
};

static bool fn_known(uint32_t fn)
{
	return fn < sizeof(functions) / sizeof(functions[0]) && functions[fn].name;
}

/* A number that a later version wrote still distinguishes calls. */
static const char *fn_name(uint32_t fn, struct intern *strings)
{
	char name[32];

	if (fn_known(fn))
		return functions[fn].name;
	snprintf(name, sizeof(name), "cuda function %u", fn);
	return intern(strings, name);
}

static const char *error_name(int result, struct intern *strings)
{
	const char *known = cuda_error_name(result);
	char name[32];

	if (known)
		return known;
	snprintf(name, sizeof(name), "CUDA_ERROR %d", result);
	return intern(strings, name);
}

/* Appends the error, if the result is one; returns how many events there are then. */
static int error_add(struct event *out, int n, uint32_t fn, int result, struct intern *strings)
{
	struct event *e = &out[n];

	if (result <= 0 || result == CUDA_NOT_READY)
		return n;
	e->kind = EV_CUDA_ERROR;
	e->cuda_error.call = fn_name(fn, strings);
	e->cuda_error.error = error_name(result, strings);
	e->cuda_error.result = result;
	return n + 1;
}

static uint32_t sync_fn(uint32_t sync)
{
	return sync == SYNC_STREAM    ? CUDA_FN_cuStreamSynchronize
	       : sync == SYNC_EVENT   ? CUDA_FN_cuEventSynchronize
	       : sync == SYNC_CONTEXT ? CUDA_FN_cuCtxSynchronize
				      : CUDA_FN_cuMemcpyDtoH;
}

static int decode_sync(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_sync *r = (const void *)rec;
	bool whole = r->hdr.size >= sizeof(*r); /* recordings of version 1 end before `bytes` */
	uint32_t fn = whole && r->fn ? r->fn : sync_fn(r->sync);

	if (r->sync > SYNC_COPY)
		return 0; /* a later version's kind of wait */
	out->kind = r->hdr.kind == CUDA_SYNC_BEGIN ? EV_SYNC_BEGIN : EV_SYNC_END;
	out->sync.kind = r->sync;
	out->sync.handle = r->handle;
	out->sync.result = r->result;
	out->sync.begin_ns = r->begin_ns;
	out->sync.bytes = whole ? r->bytes : 0;
	return error_add(out, 1, fn, r->result, strings);
}

static int decode_event_use(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_event_use *r = (const void *)rec;
	static const enum event_kind kinds[] = {
		[CUDA_EVENT_RECORD] = EV_CUDA_EVENT,
		[CUDA_EVENT_WAIT] = EV_CUDA_EVENT_WAIT,
		[CUDA_EVENT_QUERY] = EV_CUDA_EVENT_QUERY,
		[CUDA_STREAM_QUERY] = EV_STREAM_QUERY,
	};

	out->kind = kinds[r->hdr.kind];
	out->cuda_event.handle = r->event;
	out->cuda_event.stream = r->stream;
	out->cuda_event.result = r->result;
	return error_add(out, 1, r->fn ? r->fn : CUDA_FN_cuEventQuery, r->result,
			 strings); /* version 1 had one query */
}

static void call_fill(struct event *e, uint32_t fn, uint64_t begin_ns, uint64_t bytes, int result,
		      struct intern *strings)
{
	e->kind = EV_CALL;
	e->call.class = fn_known(fn) ? functions[fn].class : CALL_OTHER;
	e->call.name = fn_name(fn, strings);
	e->call.begin_ns = begin_ns;
	e->call.bytes = bytes;
	e->call.result = result;
}

static int decode_span(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_span *r = (const void *)rec;

	call_fill(out, r->fn, r->begin_ns, r->bytes, r->result, strings);
	if (r->hdr.kind == CUDA_CALL_OPEN) {
		out->kind = EV_CALL_OPEN;
		out->call.result = 0;
		return 1;
	}
	return error_add(out, 1, r->fn, r->result, strings);
}

static int decode_elapsed(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_elapsed *r = (const void *)rec;
	float ms;

	if (r->result)
		return error_add(out, 0, CUDA_FN_cuEventElapsedTime, r->result, strings);
	memcpy(&ms, &r->ms, sizeof(ms));
	if (!(ms >= 0 && ms < 1e12f)) /* the target's memory: NaN, or events in the wrong order */
		return 0;
	out->kind = EV_ELAPSED;
	out->elapsed.start = r->start;
	out->elapsed.end = r->end;
	out->elapsed.gpu_ns = (uint64_t)((double)ms * NS_PER_MS);
	return 1;
}

/* A capture whose end failed is over all the same, with nothing made (graph 0), unless it was not this thread's or this
 * stream's to end. */
static bool capture_given_up(const struct cuda_capture *r)
{
	enum {
		INVALID_VALUE = 1,
		INVALID_CONTEXT = 201,
		INVALID_HANDLE = 400,
		ILLEGAL_STATE = 401,
		UNMATCHED = 903,
		WRONG_THREAD = 908
	};

	return r->capture == CAPTURE_END && r->result != INVALID_VALUE && r->result != INVALID_CONTEXT &&
	       r->result != INVALID_HANDLE && r->result != ILLEGAL_STATE && r->result != UNMATCHED &&
	       r->result != WRONG_THREAD;
}

static int decode_capture(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_capture *r = (const void *)rec;
	int n = 0;

	if (r->capture > CAPTURE_DESTROY)
		return 0; /* of a later version */
	if (r->result <= 0 || capture_given_up(r)) {
		out->kind = EV_CAPTURE;
		out->capture.kind = r->capture;
		out->capture.stream = r->stream;
		out->capture.graph = r->graph;
		out->capture.exec = r->exec;
		out->capture.parent = r->parent;
		n = 1;
	}
	if (r->result != CUDA_RESULT_UNKNOWN) /* those emitted at the entry have a CUDA_CALL_END for their return */
		call_fill(&out[n++], r->fn, r->begin_ns, 0, r->result, strings);
	return error_add(out, n, r->fn, r->result, strings);
}

static const char *stream_track(uint64_t stream, struct intern *strings)
{
	char name[40];

	snprintf(name, sizeof(name), "launches on stream 0x%llx", (unsigned long long)stream);
	return intern(strings, name);
}

static int decode_launch(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_launch *r = (const void *)rec;

	out->kind = EV_INSTANT;
	out->generic.name = fn_name(r->fn, strings);
	out->generic.track = stream_track(r->stream, strings);
	if (r->bytes) {
		out->generic.args[0] = (struct event_arg){ .name = "bytes", .number = r->bytes };
		out->generic.n_args = 1;
	}
	return 1;
}

static int decode_counts(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct cuda_counts *r = (const void *)rec;
	const struct {
		const char *name;
		uint64_t value;
	} totals[] = {
		{ "kernel launches", r->launches },
		{ "async copies", r->copies },
		{ "copy bytes", r->copy_bytes },
		{ "async memsets", r->sets },
	};
	int n = sizeof(totals) / sizeof(totals[0]);

	(void)strings;
	for (int i = 0; i < n; i++) {
		out[i].kind = EV_COUNTER;
		out[i].generic.name = totals[i].name;
		out[i].generic.value = totals[i].value;
	}
	return n;
}

#define CUDA(id) .tracer = WIRE_CUDA, .kind = id
const struct record_kind source_records_cuda[] = {
	{ "cuda_sync_begin", CUDA(CUDA_SYNC_BEGIN), .size = CUDA_SYNC_SIZE_1, .n_events = 2,
	  .times = { offsetof(struct cuda_sync, begin_ns) }, .decode = decode_sync },
	{ "cuda_sync_end", CUDA(CUDA_SYNC_END), .size = CUDA_SYNC_SIZE_1, .n_events = 2,
	  .times = { offsetof(struct cuda_sync, begin_ns) }, .decode = decode_sync },
	{ "cuda_event_record", CUDA(CUDA_EVENT_RECORD), .size = sizeof(struct cuda_event_use), .n_events = 2,
	  .decode = decode_event_use },
	{ "cuda_event_wait", CUDA(CUDA_EVENT_WAIT), .size = sizeof(struct cuda_event_use), .n_events = 2,
	  .decode = decode_event_use },
	{ "cuda_event_query", CUDA(CUDA_EVENT_QUERY), .size = sizeof(struct cuda_event_use), .n_events = 2,
	  .decode = decode_event_use },
	{ "cuda_stream_query", CUDA(CUDA_STREAM_QUERY), .size = sizeof(struct cuda_event_use), .n_events = 2,
	  .decode = decode_event_use },
	{ "cuda_call_end", CUDA(CUDA_CALL_END), .size = sizeof(struct cuda_span), .n_events = 2,
	  .times = { offsetof(struct cuda_span, begin_ns) }, .decode = decode_span },
	{ "cuda_call_open", CUDA(CUDA_CALL_OPEN), .size = sizeof(struct cuda_span), .n_events = 2,
	  .times = { offsetof(struct cuda_span, begin_ns) }, .decode = decode_span },
	{ "cuda_elapsed", CUDA(CUDA_ELAPSED), .size = sizeof(struct cuda_elapsed), .decode = decode_elapsed },
	{ "cuda_capture", CUDA(CUDA_CAPTURE), .size = sizeof(struct cuda_capture), .n_events = 3,
	  .times = { offsetof(struct cuda_capture, begin_ns) }, .decode = decode_capture },
	{ "cuda_launch", CUDA(CUDA_LAUNCH), .size = sizeof(struct cuda_launch), .decode = decode_launch },
	{ "cuda_counts", CUDA(CUDA_COUNTS), .size = sizeof(struct cuda_counts), .n_events = 4,
	  .decode = decode_counts },
	{}
};
