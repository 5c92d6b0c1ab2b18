// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cuda.bpf.c - driver calls, by three programs: entry, return, and launches of the burst tier. What a function is comes
 * from its row of cuda_calls.def. Calls in flight stand in cuda_in_flight, so that "in cuStreamSynchronize for 12 s"
 * needs no return. A thread keeps its place there, idle between two calls: to take it out and put it in again costs as
 * much as all else that a program does.
 */
#include "bpf/record.bpf.h"
#include "bpf/regs.bpf.h"
#include "bpf/cookie.bpf.h"
#include "bpf/own_time.bpf.h"
#include "tracers/cuda/cuda.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(cuda_sync);
RECORD_IN_BTF(cuda_event_use);
RECORD_IN_BTF(cuda_span);
RECORD_IN_BTF(cuda_elapsed);
RECORD_IN_BTF(cuda_capture);
RECORD_IN_BTF(cuda_launch);

/* enum sync_kind and enum capture_kind of user/event.h, which the kernel side cannot include; cuda.c asserts them. */
enum { SYNC_STREAM, SYNC_EVENT, SYNC_CONTEXT, SYNC_COPY };
enum {
	CAPTURE_BEGIN,
	CAPTURE_END,
	CAPTURE_INSTANTIATE,
	CAPTURE_CLONE,
	CAPTURE_LAUNCH,
	CAPTURE_UPDATE,
	CAPTURE_DESTROY
};

#define MEMORY_HOST 1 /* CU_MEMORYTYPE_* of cuda.h */
#define MEMORY_DEVICE 2
#define MEMORY_ARRAY 3
#define LAUNCH_CONFIG_STREAM 32 /* offset of CUlaunchConfig.hStream */
#define COUNTED_PROCESSES 4096

static const struct cuda_call calls[] = {
#define ONE(name, ...) { .fn = CUDA_FN_##name, __VA_ARGS__ },
#define PAIR(symbol, name, ...) ONE(name, __VA_ARGS__) ONE(name, __VA_ARGS__)
#define ENTRY(symbol, name, ...) ONE(name, __VA_ARGS__)
#define BURST(symbol, name, ...) ONE(name, __VA_ARGS__)
#define BURST_PAIR(symbol, name, ...) PAIR(symbol, name, __VA_ARGS__)
#include "tracers/cuda/cuda_calls.def"
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32); /* tid */
	__type(value, struct cuda_in_flight);
} cuda_in_flight SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, COUNTED_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct cuda_counts_value);
} cuda_counts SEC(".maps");

/* --- what the arguments say --- */

static __always_inline const struct cuda_call *call_of(__u64 cookie)
{
	__u64 row = COOKIE_ROW(cookie);

	if (row >= N_CALLS)
		return NULL;
	barrier_var(row); /* the compiler must index with what was checked: the verifier knows no other bound */
	return &calls[row];
}

static __always_inline __u64 arg_of(struct pt_regs *ctx, __u8 place)
{
	return place ? user_arg(ctx, place - 1) : 0;
}

static __always_inline __u64 user_word(__u64 address)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)address);
	return v;
}

static __always_inline __u64 stream_of(const struct cuda_call *c, __u64 stream)
{
	return c->per_thread && !stream ? CUDA_STREAM_PER_THREAD : stream;
}

struct copy_shape {
	__u64 bytes;
	__u32 from, to;
};

/* The struct that a 2D or 3D copy points to. */
static __always_inline void copy_read(__u64 at, __u8 copy, struct copy_shape *s)
{
	__u32 from = copy == CUDA_COPY_2D ? 16 : 32, to = copy == CUDA_COPY_2D ? 72 : 120;
	__u64 width = copy == CUDA_COPY_2D ? 112 : 176;

	s->from = user_word(at + from);
	s->to = user_word(at + to);
	s->bytes = user_word(at + width) * user_word(at + width + 8);
	if (copy == CUDA_COPY_3D)
		s->bytes *= user_word(at + width + 16);
}

static __always_inline __u64 bytes_of(struct pt_regs *ctx, const struct cuda_call *c)
{
	__u64 bytes = arg_of(ctx, c->bytes);

	if (c->times)
		bytes *= arg_of(ctx, c->times);
	return c->unit ? bytes * c->unit : bytes;
}

static __always_inline bool is_wait(__u8 what)
{
	return what >= CUDA_WAIT_STREAM && what <= CUDA_WAIT_COPY;
}

static __always_inline struct cuda_in_flight *flight_of(__u32 tid)
{
	struct cuda_in_flight *f = bpf_map_lookup_elem(&cuda_in_flight, &tid), idle = {};

	if (f)
		return f;
	bpf_map_update_elem(&cuda_in_flight, &tid, &idle, BPF_ANY);
	return bpf_map_lookup_elem(&cuda_in_flight, &tid);
}

/* But for `what`, by which a reader knows that it is whole. */
static __always_inline void flight_fill(struct cuda_in_flight *f, struct pt_regs *ctx, const struct cuda_call *c)
{
	f->begin_ns = bpf_ktime_get_ns();
	f->tgid = bpf_get_current_pid_tgid() >> 32;
	f->fn = c->fn;
	f->sp = PT_REGS_SP(ctx);
	f->a = arg_of(ctx, c->a);
	f->b = arg_of(ctx, c->b);
	f->out = arg_of(ctx, c->out);
	if (c->stream == 1 || c->what == CUDA_WAIT_COPY)
		f->a = stream_of(c, f->a);
	else if (c->stream == 2)
		f->b = stream_of(c, f->b);
}

/* What it is, and its bytes. */
static __always_inline __u8 flight_what(struct cuda_in_flight *f, struct pt_regs *ctx, const struct cuda_call *c)
{
	struct copy_shape s;

	if (!c->copy) {
		f->bytes = bytes_of(ctx, c);
		return c->what;
	}
	copy_read(arg_of(ctx, 1), c->copy, &s);
	f->bytes = s.bytes;
	/* only a copy to the host is known to return when it, and so all before it on the stream, is done */
	if (c->what == CUDA_WAIT_COPY && !(s.to == MEMORY_HOST && (s.from == MEMORY_DEVICE || s.from == MEMORY_ARRAY)))
		return CUDA_TIMED;
	return c->what;
}

/* --- records --- */

static __always_inline void sync_emit(__u8 kind, const struct cuda_in_flight *f, __s32 result)
{
	struct cuda_sync *r = record_reserve(RING_NORMAL, struct cuda_sync, WIRE_CUDA, kind);

	if (!r)
		return;
	r->handle = f->a;
	r->begin_ns = f->begin_ns;
	r->result = result;
	r->sync = f->what - CUDA_WAIT_STREAM;
	r->bytes = f->bytes;
	r->fn = f->fn;
	r->reserved = 0;
	record_submit(r);
}

static __always_inline void event_use_emit(__u8 kind, __u16 fn, __u64 event, __u64 stream, __s32 result)
{
	struct cuda_event_use *r = record_reserve(RING_NORMAL, struct cuda_event_use, WIRE_CUDA, kind);

	if (!r)
		return;
	r->event = event;
	r->stream = stream;
	r->result = result;
	r->fn = fn;
	record_submit(r);
}

static __always_inline void span_emit(const struct cuda_in_flight *f, __s32 result)
{
	struct cuda_span *r = record_reserve(RING_NORMAL, struct cuda_span, WIRE_CUDA, CUDA_CALL_END);

	if (!r)
		return;
	r->begin_ns = f->begin_ns;
	r->bytes = f->bytes;
	r->result = result;
	r->fn = f->fn;
	record_submit(r);
}

static __always_inline void elapsed_emit(const struct cuda_in_flight *f, __s32 result)
{
	struct cuda_elapsed *r = record_reserve(RING_NORMAL, struct cuda_elapsed, WIRE_CUDA, CUDA_ELAPSED);

	if (!r)
		return;
	r->start = f->a;
	r->end = f->b;
	r->result = result;
	r->ms = result ? 0 : (__u32)user_word(f->out);
	record_submit(r);
}

static __always_inline void capture_words(struct cuda_capture *r, const struct cuda_in_flight *f, __u64 made)
{
	r->stream = r->graph = r->exec = r->parent = 0;
	switch (f->what) {
	case CUDA_CAPTURE_BEGINS:
		r->capture = CAPTURE_BEGIN;
		r->stream = f->a;
		break;
	case CUDA_CAPTURE_ENDS:
		r->capture = CAPTURE_END;
		r->stream = f->a;
		r->graph = made;
		break;
	case CUDA_INSTANTIATES:
		r->capture = CAPTURE_INSTANTIATE;
		r->graph = f->a;
		r->exec = made;
		break;
	case CUDA_CLONES:
		r->capture = CAPTURE_CLONE;
		r->parent = f->a;
		r->graph = made;
		break;
	case CUDA_GRAPH_LAUNCHES:
		r->capture = CAPTURE_LAUNCH;
		r->exec = f->a;
		r->stream = f->b;
		break;
	case CUDA_UPDATES:
		r->capture = CAPTURE_UPDATE;
		r->exec = f->a;
		r->graph = f->b;
		break;
	case CUDA_GRAPH_DESTROYS:
		r->capture = CAPTURE_DESTROY;
		r->graph = f->a;
		break;
	default:
		r->capture = CAPTURE_DESTROY;
		r->exec = f->a;
		break;
	}
}

/* out: where it writes the handle that it makes; 0: nowhere, or not yet. */
static __always_inline void capture_emit(const struct cuda_in_flight *f, __s32 result, __u64 out)
{
	struct cuda_capture *r = record_reserve(RING_NORMAL, struct cuda_capture, WIRE_CUDA, CUDA_CAPTURE);

	if (!r)
		return;
	capture_words(r, f, result || !out ? 0 : user_word(out));
	r->begin_ns = f->begin_ns;
	r->result = result;
	r->fn = f->fn;
	r->reserved = 0;
	record_submit(r);
}

/* --- entry and return --- */

/* Where no return probe may be used, the next call of the thread shows that the last one is over. */
static __always_inline void stale_end(struct cuda_in_flight *f, __u64 generation)
{
	if (is_wait(f->what) && f->generation == generation)
		sync_emit(CUDA_SYNC_END, f, CUDA_RESULT_UNKNOWN);
	f->what = 0;
}

/* What takes effect with the call itself is reported at once: a launch that blocks has been called, and a handle is no
 * longer the old graph's before its destruction returns. The begin of a capture is reported at its return, since a
 * failed one begins nothing and no call can be captured before it returned - unless returns are not seen. */
static __always_inline bool emits_at_entry(__u8 what, bool no_returns)
{
	if (what == CUDA_GRAPH_LAUNCHES || what == CUDA_GRAPH_DESTROYS || what == CUDA_EXEC_DESTROYS)
		return true;
	return no_returns && (what == CUDA_CAPTURE_BEGINS || what == CUDA_CAPTURE_ENDS || what == CUDA_UPDATES);
}

static __always_inline void flight_begin(struct pt_regs *ctx, struct cuda_in_flight *f, const struct cuda_call *c,
					 __u64 generation, bool no_returns)
{
	__u8 what;

	flight_fill(f, ctx, c);
	f->generation = generation;
	f->no_returns = no_returns;
	f->return_address = no_returns ? user_return_address(ctx) : 0;
	what = flight_what(f, ctx, c);
	barrier();
	f->what = what;
}

/* Neither has a return probe. */
static __always_inline bool is_event_call(__u8 what)
{
	return what == CUDA_RECORD || what == CUDA_STREAM_WAITS;
}

static __always_inline void event_call_emit(struct pt_regs *ctx, const struct cuda_call *c)
{
	__u64 stream = arg_of(ctx, c->b);

	event_use_emit(c->what == CUDA_RECORD ? CUDA_EVENT_RECORD : CUDA_EVENT_WAIT, c->fn, arg_of(ctx, c->a),
		       c->stream == 2 ? stream_of(c, stream) : stream, 0);
}

UPROBE_ENTRY(cuda_enter)
{
	__u64 id = bpf_get_current_pid_tgid(), cookie = probe_cookie(ctx);
	struct target *target = target_call(id >> 32, cookie, RING_NORMAL);
	const struct cuda_call *c = call_of(cookie);
	struct cuda_in_flight *f;
	__u32 tid = (__u32)id;

	if (!target || !c)
		return 0;
	f = flight_of(tid);
	if (f && f->what)
		stale_end(f, target->generation);
	if (is_event_call(c->what))
		event_call_emit(ctx, c);
	if (!f || is_event_call(c->what))
		return 0;
	flight_begin(ctx, f, c, target->generation, lacks_returns(cookie));
	if (is_wait(f->what))
		sync_emit(CUDA_SYNC_BEGIN, f, 0);
	else if (emits_at_entry(f->what, f->no_returns))
		capture_emit(f, CUDA_RESULT_UNKNOWN, 0);
	return 0;
}

static __always_inline void returned(const struct cuda_in_flight *f, __s32 result)
{
	switch (f->what) {
	case CUDA_ASK_EVENT: event_use_emit(CUDA_EVENT_QUERY, f->fn, f->a, f->b, result); break;
	case CUDA_ASK_STREAM: event_use_emit(CUDA_STREAM_QUERY, f->fn, 0, f->a, result); break;
	case CUDA_ASK_ELAPSED: elapsed_emit(f, result); break;
	case CUDA_CAPTURE_BEGINS:
	case CUDA_CAPTURE_ENDS:
	case CUDA_INSTANTIATES:
	case CUDA_CLONES:
	case CUDA_UPDATES: capture_emit(f, result, f->out); break;
	default: span_emit(f, result); break;
	}
}

static __always_inline void flight_end(const struct cuda_in_flight *f, __s32 result)
{
	if (is_wait(f->what))
		sync_emit(CUDA_SYNC_END, f, result);
	else if (!f->no_returns || emits_at_entry(f->what, false) || !emits_at_entry(f->what, true))
		returned(f, result); /* not what was reported at the entry already */
}

UPROBE_RETURN(cuda_exit)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct cuda_in_flight *f = bpf_map_lookup_elem(&cuda_in_flight, &tid);
	struct target *target;

	private_stack_refuse(ctx);
	if (!f || !f->what)
		return 0;
	target = target_of(f->tgid);
	if (target && target->generation == f->generation) /* else left behind by probes that are gone: another call */
		flight_end(f, (__s32)PT_REGS_RC(ctx));
	f->what = 0;
	return 0;
}

/* --- burst tier --- */

static __always_inline struct cuda_counts_value *counts_of(__u32 tgid, __u64 generation)
{
	struct cuda_counts_value *v = bpf_map_lookup_elem(&cuda_counts, &tgid), fresh = { .generation = generation };

	if (v && v->generation == generation)
		return v;
	bpf_map_update_elem(&cuda_counts, &tgid, &fresh, v ? BPF_ANY : BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_counts, &tgid);
}

static __always_inline void counts_add(__u32 tgid, __u64 generation, __u8 what, __u64 bytes)
{
	struct cuda_counts_value *v = counts_of(tgid, generation);

	if (!v)
		return;
	if (what == CUDA_LAUNCHES)
		__sync_fetch_and_add(&v->launches, 1);
	else if (what == CUDA_SETS)
		__sync_fetch_and_add(&v->sets, 1);
	else {
		__sync_fetch_and_add(&v->copies, 1);
		__sync_fetch_and_add(&v->copy_bytes, bytes);
	}
}

UPROBE_ENTRY(cuda_launch_enter)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 stream, cookie = probe_cookie(ctx);
	struct target *target = target_hit(tgid, cookie);
	const struct cuda_call *c = call_of(cookie);
	struct copy_shape s = {};
	struct cuda_launch *r;

	if (!target || !c)
		return 0;
	stream = arg_of(ctx, c->a);
	if (c->stream == 3)
		stream = user_word(stream + LAUNCH_CONFIG_STREAM);
	if (c->copy)
		copy_read(arg_of(ctx, 1), c->copy, &s);
	else
		s.bytes = bytes_of(ctx, c);
	counts_add(tgid, target->generation, c->what, s.bytes);
	r = record_reserve(RING_BULK, struct cuda_launch, WIRE_CUDA, CUDA_LAUNCH);
	if (!r)
		return 0;
	r->stream = stream_of(c, stream);
	r->bytes = s.bytes;
	r->fn = c->fn;
	r->reserved = 0;
	record_submit(r);
	return 0;
}
