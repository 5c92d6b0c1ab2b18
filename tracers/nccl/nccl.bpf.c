// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* nccl.bpf.c - entry of NCCL's API calls. What differs between the functions (which argument is what) is data:
 * the probe's cookie names the row (low 16 bits) and the library (next 16). Programs are named after the hook.
 * A call that comes from inside the library itself (Bcast calling Broadcast) is not a call of the job.
 */
#include "bpf/record.bpf.h"
#include "bpf/cookie.bpf.h"
#include "bpf/own_time.bpf.h"
#include "bpf/regs.bpf.h"
#include "tracers/nccl/nccl.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(nccl_op);
RECORD_IN_BTF(nccl_comm);
RECORD_IN_BTF(nccl_init);
RECORD_IN_BTF(nccl_ready);
RECORD_IN_BTF(nccl_group);
RECORD_IN_BTF(nccl_gone);
RECORD_IN_BTF(nccl_signal);

struct thread { /* of one thread inside NCCL */
	__u64 generation;
	__s32 depth;    /* open ncclGroupStart */
	__u32 wrap_row; /* row + 1 of a call that may tail-call another */
	__u64 wrap_sp, wrap_return;
	__u64 init_newcomm; /* address of the pending creation's result, 0 none */
	__u64 init_ns, init_parent;
	__s32 init_nranks, init_rank;
	__u32 init_row, init_has_id, init_lib, reserved;
	__u8 init_id[NCCL_ID_BYTES];
};

struct comm_key {
	__u64 addr;
	__u32 tgid, reserved;
};

#define MAP(name, kind, n, k, v) \
	struct { \
		__uint(type, kind); \
		__uint(max_entries, n); \
		__type(key, k); \
		__type(value, v); \
	} name SEC(".maps")

MAP(nccl_calls, BPF_MAP_TYPE_ARRAY, NCCL_CALLS_MAX, __u32, struct nccl_call);
MAP(nccl_libs, BPF_MAP_TYPE_ARRAY, NCCL_LIBS_MAX, __u32, struct nccl_lib);
/* LRU, as the next two: processes come and go, and no probe sees their end */
MAP(nccl_texts, BPF_MAP_TYPE_LRU_HASH, TARGETS_MAX, struct nccl_text_key, struct nccl_text);
MAP(nccl_threads, BPF_MAP_TYPE_LRU_HASH, 65536, __u32, struct thread);
MAP(nccl_thread_zero, BPF_MAP_TYPE_ARRAY, 1, __u32, struct thread);
MAP(nccl_comms_seen, BPF_MAP_TYPE_LRU_HASH, 65536, struct comm_key, __u64); /* -> generation */

struct hit { /* what every program needs to know about its call */
	__u32 tgid, tid, row, lib;
	const struct nccl_call *call;
	const struct nccl_lib *layout;
	struct target *target;
	__u64 ret; /* return address */
};

/* The caller lies in the same copy of the library as the function it calls. */
static __always_inline bool call_is_internal(struct pt_regs *ctx, const struct hit *h)
{
	struct nccl_text_key key = { .tgid = h->tgid, .lib = h->lib };
	struct nccl_text *text = bpf_map_lookup_elem(&nccl_texts, &key);
	__u64 ip = PT_REGS_IP(ctx);
	int i;

	for (i = 0; text && i < NCCL_COPIES_MAX; i++)
		if (text->begin[i] && ip - text->begin[i] < text->bytes)
			return h->ret - text->begin[i] < text->bytes;
	return false;
}

static __always_inline bool hit_init(struct pt_regs *ctx, struct hit *h)
{
	__u64 id = bpf_get_current_pid_tgid(), cookie = probe_cookie(ctx);

	h->tgid = id >> 32;
	h->tid = (__u32)id;
	h->target = target_call(h->tgid, cookie, RING_NORMAL);
	if (!h->target)
		return false;
	h->row = cookie & 0xffff;
	h->lib = (cookie >> 16) & 0xffff;
	h->call = bpf_map_lookup_elem(&nccl_calls, &h->row);
	h->layout = bpf_map_lookup_elem(&nccl_libs, &h->lib);
	if (!h->call || !h->layout)
		return false;
	h->ret = user_return_address(ctx);
	return !call_is_internal(ctx, h);
}

static __always_inline struct thread *thread_get(const struct hit *h)
{
	struct thread *t = bpf_map_lookup_elem(&nccl_threads, &h->tid), *zero;
	__u32 first = 0;

	if (t && t->generation == h->target->generation)
		return t;
	zero = bpf_map_lookup_elem(&nccl_thread_zero, &first);
	if (!zero)
		return NULL;
	bpf_map_update_elem(&nccl_threads, &h->tid, zero, BPF_ANY);
	t = bpf_map_lookup_elem(&nccl_threads, &h->tid);
	if (t)
		t->generation = h->target->generation;
	return t;
}

static __always_inline __s32 arg_or_none(struct pt_regs *ctx, __u8 index)
{
	return index == NCCL_NO_ARG ? -1 : (__s32)user_arg(ctx, index);
}

static __always_inline __u64 arg_or_zero(struct pt_regs *ctx, __u8 index)
{
	return index == NCCL_NO_ARG ? 0 : user_arg(ctx, index);
}

/* All at once, as each read costs; what lies behind them in ncclComm is dropped. False: zeroes. */
static __always_inline bool counters_copy(const struct nccl_lib *l, __u64 comm, __u64 *to)
{
	bool is_read = !bpf_probe_read_user(to, 8 * NCCL_COUNTERS_MAX, (void *)(comm + l->counters));
	int i;

	for (i = 0; i < NCCL_COUNTERS_MAX; i++)
		if ((__u32)i >= l->n_counters)
			to[i] = 0;
	return is_read;
}

#define FIELD_READ(dst, comm, off) bpf_probe_read_user(&(dst), sizeof(dst), (void *)((comm) + (off)))

static __always_inline bool comm_is_sane(const struct nccl_comm *r)
{
	return r->magic == r->end_magic && r->magic && r->rank >= 0 && r->rank < r->nranks;
}

/* The identity of a communicator met for the first time, as it lies in memory. */
static __always_inline void comm_show(const struct hit *h, __u64 comm)
{
	struct comm_key key = { .addr = comm, .tgid = h->tgid };
	const struct nccl_lib *l = h->layout;
	__u64 generation = h->target->generation, *seen = bpf_map_lookup_elem(&nccl_comms_seen, &key);
	struct nccl_comm *r;

	if (!comm || !l->valid || (seen && *seen == generation))
		return;
	r = record_reserve(RING_NORMAL, struct nccl_comm, WIRE_NCCL, NCCL_COMM);
	if (!r)
		return;
	__builtin_memset((void *)r + sizeof(r->hdr), 0, sizeof(*r) - sizeof(r->hdr));
	r->comm = comm;
	r->lib = h->lib;
	r->device = -1;
	r->n_counters = l->n_counters;
	FIELD_READ(r->magic, comm, l->magic);
	FIELD_READ(r->end_magic, comm, l->end_magic);
	FIELD_READ(r->hash, comm, l->hash);
	FIELD_READ(r->rank, comm, l->rank);
	FIELD_READ(r->nranks, comm, l->nranks);
	FIELD_READ(r->device, comm, l->device);
	counters_copy(l, comm, r->counters);
	if (comm_is_sane(r) && r->hash)
		bpf_map_update_elem(&nccl_comms_seen, &key, &generation, BPF_ANY);
	record_submit(r);
}

/* Sum of NCCL's own counters: true if the object still looks like a communicator. */
static __always_inline bool counters_read(const struct nccl_lib *l, __u64 comm, __u64 *sum)
{
	__u64 n[NCCL_COUNTERS_MAX], magic = 0, end_magic = 0;
	int i;

	*sum = 0;
	if (!l->valid || !l->n_counters)
		return false;
	FIELD_READ(magic, comm, l->magic);
	FIELD_READ(end_magic, comm, l->end_magic);
	if (!magic || magic != end_magic)
		return false;
	if (!counters_copy(l, comm, n))
		return false;
	for (i = 0; i < NCCL_COUNTERS_MAX; i++)
		*sum += n[i];
	return true;
}

/* A creation whose return was not seen (no return probe, or an asynchronous one) shows at the thread's next call. */
static __always_inline void init_finish(const struct hit *h, struct thread *t, bool returned, __s32 result)
{
	struct nccl_ready *r;
	__u64 comm = 0;

	if (!t->init_newcomm)
		return;
	bpf_probe_read_user(&comm, sizeof(comm), (void *)t->init_newcomm);
	t->init_newcomm = 0;
	r = record_reserve(RING_NORMAL, struct nccl_ready, WIRE_NCCL, NCCL_READY);
	if (!r)
		return;
	r->comm = comm;
	r->begin_ns = t->init_ns;
	r->parent = t->init_parent;
	r->nranks = t->init_nranks;
	r->rank = t->init_rank;
	r->result = result;
	r->how = t->init_row;
	r->returned = returned;
	r->has_id = t->init_has_id;
	r->reserved[0] = 0;
	__builtin_memcpy(r->id, t->init_id, NCCL_ID_BYTES);
	record_submit(r);
	if (comm)
		comm_show(h, comm);
}

/* Bcast jumps to Broadcast in some builds: same frame, same return address, so one call. Two calls of the job may have
 * the same frame, but not from the same place. */
static __always_inline bool call_is_tail(struct pt_regs *ctx, const struct hit *h, struct thread *t)
{
	__u64 sp = PT_REGS_SP(ctx);
	bool tail = t->wrap_row && t->wrap_row != h->row + 1 && t->wrap_sp == sp && t->wrap_return == h->ret;

	t->wrap_row = h->call->wraps_next ? h->row + 1 : 0;
	t->wrap_sp = sp;
	t->wrap_return = h->ret;
	return tail;
}

static __always_inline void op_emit(struct pt_regs *ctx, const struct hit *h, struct thread *t, __u64 comm)
{
	const struct nccl_call *c = h->call;
	struct nccl_op *r = record_reserve(RING_NORMAL, struct nccl_op, WIRE_NCCL, NCCL_OP);
	__u64 sum;

	if (!r)
		return;
	r->comm = comm;
	r->stream = arg_or_zero(ctx, c->stream);
	r->count = arg_or_zero(ctx, c->count);
	r->dtype = arg_or_none(ctx, c->dtype);
	r->redop = arg_or_none(ctx, c->redop);
	r->root = arg_or_none(ctx, c->root);
	r->peer = arg_or_none(ctx, c->peer);
	r->op = c->op;
	r->counters_valid = counters_read(h->layout, comm, &sum);
	r->counters_sum = sum;
	r->group_depth = t->depth;
	r->lib = h->lib;
	record_submit(r);
}

UPROBE_ENTRY(nccl_op_enter)
{
	struct hit h;
	struct thread *t;
	__u64 comm;

	if (!hit_init(ctx, &h))
		return 0;
	t = thread_get(&h);
	if (!t || call_is_tail(ctx, &h, t))
		return 0;
	init_finish(&h, t, false, 0);
	comm = user_arg(ctx, h.call->comm);
	comm_show(&h, comm);
	op_emit(ctx, &h, t, comm);
	return 0;
}

/* One-sided: PutSignal, Signal, WaitSignal. */
UPROBE_ENTRY(nccl_signal_enter)
{
	struct nccl_signal *r;
	struct hit h;

	if (!hit_init(ctx, &h))
		return 0;
	r = record_reserve(RING_NORMAL, struct nccl_signal, WIRE_NCCL, NCCL_SIGNAL);
	if (!r)
		return 0;
	r->comm = user_arg(ctx, h.call->comm);
	r->stream = arg_or_zero(ctx, h.call->stream);
	r->count = arg_or_zero(ctx, h.call->count);
	r->peer = arg_or_none(ctx, h.call->peer);
	r->dtype = arg_or_none(ctx, h.call->dtype);
	r->what = h.call->op;
	r->reserved = 0;
	record_submit(r);
	return 0;
}

/* GroupStart and GroupEnd: the row's `op` says which. */
UPROBE_ENTRY(nccl_group_enter)
{
	struct nccl_group *r;
	struct thread *t;
	struct hit h;
	__s32 depth;

	if (!hit_init(ctx, &h))
		return 0;
	t = thread_get(&h);
	if (!t)
		return 0;
	depth = t->depth;
	if (!h.call->op)
		t->depth++;
	else if (depth > 0) /* 0: the group was opened before we attached */
		t->depth--;
	r = record_reserve(RING_NORMAL, struct nccl_group, WIRE_NCCL, NCCL_GROUP);
	if (!r)
		return 0;
	r->end = h.call->op;
	r->depth = depth;
	record_submit(r);
	return 0;
}

/* The id's place: by value it is copied onto the stack on x86-64 (right above the return address, taking no
 * register), and passed by reference on arm64 (taking one, so that later arguments move up by one). */
static __always_inline const void *id_address(struct pt_regs *ctx, const struct nccl_call *c)
{
#if defined(__TARGET_ARCH_x86)
	if (c->id_by_value)
		return (const void *)(PT_REGS_SP(ctx) + ARG_STACK_SKIP);
#endif
	return (const void *)user_arg(ctx, c->id);
}

static __always_inline __u32 after_id(const struct nccl_call *c, __u8 index)
{
#if defined(__TARGET_ARCH_x86)
	if (c->id_by_value && index > c->id)
		return index - 1;
#endif
	return index;
}

UPROBE_ENTRY(nccl_init_enter)
{
	const struct nccl_call *c;
	struct nccl_init *r;
	struct thread *t;
	struct hit h;

	if (!hit_init(ctx, &h))
		return 0;
	t = thread_get(&h);
	if (!t)
		return 0;
	init_finish(&h, t, false, 0);
	c = h.call;
	t->init_newcomm = user_arg(ctx, after_id(c, c->newcomm));
	t->init_ns = bpf_ktime_get_ns();
	t->init_parent = arg_or_zero(ctx, c->comm);
	t->init_nranks = c->nranks == NCCL_NO_ARG ? -1 : (__s32)user_arg(ctx, after_id(c, c->nranks));
	t->init_rank = c->rank == NCCL_NO_ARG ? -1 : (__s32)user_arg(ctx, after_id(c, c->rank));
	t->init_row = c->op;
	t->init_lib = h.lib;
	t->init_has_id = c->id != NCCL_NO_ARG && !bpf_probe_read_user(t->init_id, NCCL_ID_BYTES, id_address(ctx, c));
	r = record_reserve(RING_NORMAL, struct nccl_init, WIRE_NCCL, NCCL_INIT);
	if (!r)
		return 0;
	r->parent = t->init_parent;
	r->nranks = t->init_nranks;
	r->rank = t->init_rank;
	r->color = arg_or_none(ctx, c->color);
	r->key = arg_or_none(ctx, c->key);
	r->how = c->op;
	r->has_id = t->init_has_id;
	__builtin_memset(r->reserved, 0, sizeof(r->reserved));
	__builtin_memcpy(r->id, t->init_id, NCCL_ID_BYTES);
	record_submit(r);
	return 0;
}

UPROBE_RETURN(nccl_init_exit)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct hit h = { .tgid = id >> 32, .tid = (__u32)id };
	struct thread *t;

	private_stack_refuse(ctx);
	h.target = target_of(h.tgid);
	t = bpf_map_lookup_elem(&nccl_threads, &h.tid);
	if (!h.target || !t)
		return 0;
	h.lib = t->init_lib; /* a return has no cookie on every kernel */
	h.layout = bpf_map_lookup_elem(&nccl_libs, &h.lib);
	if (!h.layout)
		return 0;
	init_finish(&h, t, true, (__s32)PT_REGS_RC(ctx));
	return 0;
}

UPROBE_ENTRY(nccl_gone_enter)
{
	struct nccl_gone *r;
	struct comm_key key = {};
	struct hit h;

	if (!hit_init(ctx, &h))
		return 0;
	key.tgid = h.tgid;
	key.addr = user_arg(ctx, h.call->comm);
	bpf_map_delete_elem(&nccl_comms_seen, &key);
	r = record_reserve(RING_NORMAL, struct nccl_gone, WIRE_NCCL, NCCL_GONE);
	if (!r)
		return 0;
	r->comm = key.addr;
	r->how = h.call->op;
	r->reserved = 0;
	record_submit(r);
	return 0;
}
