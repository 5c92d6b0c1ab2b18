// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cuda.bpf.c - the few driver calls by which a host learns that GPU work is over. Calls in flight stand in
 * cuda_in_flight, so that "in cuStreamSynchronize for 12 s" needs no return.
 */
#include "bpf/record.bpf.h"
#include "bpf/regs.bpf.h"
#include "tracers/cuda/cuda.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(cuda_sync);
RECORD_IN_BTF(cuda_mark);

struct in_flight {
	__u64 begin_ns, handle, generation;
	__u32 what, sync;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CUDA_CALLS_MAX);
	__type(key, __u32);
	__type(value, struct cuda_call);
} cuda_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32); /* tid */
	__type(value, struct in_flight);
} cuda_in_flight SEC(".maps");

static __always_inline const struct cuda_call *call_of(struct pt_regs *ctx, struct target **ret_target)
{
	__u32 row = bpf_get_attach_cookie(ctx) & 0xffff;

	*ret_target = target_of(bpf_get_current_pid_tgid() >> 32);
	return *ret_target ? bpf_map_lookup_elem(&cuda_calls, &row) : NULL;
}

static __always_inline __u64 stream_of(const struct cuda_call *c, __u64 stream)
{
	return c->per_thread && !stream ? CUDA_STREAM_PER_THREAD : stream;
}

static __always_inline void sync_emit(__u8 kind, const struct in_flight *f, __s32 result)
{
	struct cuda_sync *r = record_reserve(RING_NORMAL, struct cuda_sync, WIRE_CUDA, kind);

	if (!r)
		return;
	r->handle = f->handle;
	r->begin_ns = f->begin_ns;
	r->result = result;
	r->sync = f->sync;
	record_submit(r);
}

static __always_inline void mark_emit(__u8 kind, __u64 event, __u64 stream, __s32 result)
{
	struct cuda_mark *r = record_reserve(RING_NORMAL, struct cuda_mark, WIRE_CUDA, kind);

	if (!r)
		return;
	r->event = event;
	r->stream = stream;
	r->result = result;
	r->reserved = 0;
	record_submit(r);
}

/* Where no return probe may be used, the next call of the thread shows that the last one is over. */
static __always_inline void stale_end(__u32 tid, __u64 generation)
{
	struct in_flight *f = bpf_map_lookup_elem(&cuda_in_flight, &tid);

	if (f && f->what == CUDA_SYNC_BEGIN && f->generation == generation)
		sync_emit(CUDA_SYNC_END, f, CUDA_RESULT_UNKNOWN);
	if (f)
		bpf_map_delete_elem(&cuda_in_flight, &tid);
}

SEC("uprobe.multi")
int cuda_sync_enter(struct pt_regs *ctx)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct target *target;
	const struct cuda_call *c = call_of(ctx, &target);
	struct in_flight f = {};

	if (!c)
		return 0;
	stale_end(tid, target->generation);
	f.begin_ns = bpf_ktime_get_ns();
	f.generation = target->generation;
	f.what = CUDA_SYNC_BEGIN;
	f.sync = c->sync;
	if (c->sync == 0) /* SYNC_STREAM */
		f.handle = stream_of(c, user_arg(ctx, 0));
	else if (c->sync == 1) /* SYNC_EVENT */
		f.handle = user_arg(ctx, 0);
	bpf_map_update_elem(&cuda_in_flight, &tid, &f, BPF_ANY);
	sync_emit(CUDA_SYNC_BEGIN, &f, 0);
	return 0;
}

SEC("uprobe.multi")
int cuda_query_enter(struct pt_regs *ctx)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct target *target;
	struct in_flight f = {};

	if (!call_of(ctx, &target))
		return 0;
	stale_end(tid, target->generation);
	f.begin_ns = bpf_ktime_get_ns();
	f.generation = target->generation;
	f.what = CUDA_MARK_QUERY;
	f.handle = user_arg(ctx, 0);
	bpf_map_update_elem(&cuda_in_flight, &tid, &f, BPF_ANY);
	return 0;
}

SEC("uprobe.multi")
int cuda_call_exit(struct pt_regs *ctx)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct in_flight *f = bpf_map_lookup_elem(&cuda_in_flight, &tid), done;

	if (!f)
		return 0;
	done = *f;
	bpf_map_delete_elem(&cuda_in_flight, &tid);
	if (done.what == CUDA_SYNC_BEGIN)
		sync_emit(CUDA_SYNC_END, &done, (__s32)PT_REGS_RC(ctx));
	else
		mark_emit(CUDA_MARK_QUERY, done.handle, 0, (__s32)PT_REGS_RC(ctx));
	return 0;
}

SEC("uprobe.multi")
int cuda_event_record_enter(struct pt_regs *ctx)
{
	struct target *target;
	const struct cuda_call *c = call_of(ctx, &target);

	if (c)
		mark_emit(CUDA_MARK, user_arg(ctx, 0), stream_of(c, user_arg(ctx, 1)), 0);
	return 0;
}

SEC("uprobe.multi")
int cuda_stream_wait_event_enter(struct pt_regs *ctx)
{
	struct target *target;
	const struct cuda_call *c = call_of(ctx, &target);

	if (c)
		mark_emit(CUDA_MARK_WAIT, user_arg(ctx, 1), stream_of(c, user_arg(ctx, 0)), 0);
	return 0;
}
