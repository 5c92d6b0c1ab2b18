/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * verbs_counts.bpf.h - what is added up per queue pair: posts as they are made, completions as they are matched to
 * them. Who calls what is verbs.bpf.c.
 */
#ifndef RANKTRACE_VERBS_COUNTS_BPF_H
#define RANKTRACE_VERBS_COUNTS_BPF_H

#include "bpf/record.bpf.h"
#include "tracers/rdma/verbs.h"

#define SGE_MAX 8 /* of one work request */
#define ALIGN_TRIES 100

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, VERBS_QPS_COUNTED);
	__type(key, struct verbs_qp_key);
	__type(value, struct verbs_counts);
} verbs_qps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct verbs_qp_key);
	__type(value, struct verbs_fifo);
} verbs_fifos SEC(".maps");

struct { /* a fresh verbs_fifo: too large for the stack */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct verbs_fifo);
} verbs_fifo_empty SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct verbs_placed_key);
	__type(value, struct verbs_placed);
} verbs_placed SEC(".maps");

static __always_inline __u64 word_at(__u64 address)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)address);
	return v;
}

static __always_inline __u32 half_at(__u64 address)
{
	__u32 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)address);
	return v;
}

static __always_inline struct verbs_qp_key qp_key(__u32 tgid, __u64 qp)
{
	struct verbs_qp_key key = { .context = word_at(qp + QP_CONTEXT), .tgid = tgid, .qpn = half_at(qp + QP_NUM) };

	return key;
}

static __always_inline struct verbs_counts *counts_of(const struct verbs_qp_key *key, __u64 generation)
{
	struct verbs_counts *c = bpf_map_lookup_elem(&verbs_qps, key), fresh = { .generation = generation };

	if (c && c->generation == generation)
		return c;
	bpf_map_update_elem(&verbs_qps, key, &fresh, c ? BPF_ANY : BPF_NOEXIST);
	return bpf_map_lookup_elem(&verbs_qps, key);
}

/* --- from the start? --- */

/* 0: not known yet, else whether the table's functions were probed by `ns`. */
static __always_inline int placed_by(const struct verbs_qp_key *key, __u64 generation, __u64 table, __u64 ns)
{
	struct verbs_placed_key at = { .table = table, .tgid = key->tgid };
	struct verbs_placed *p = bpf_map_lookup_elem(&verbs_placed, &at);

	return !p || p->generation != generation ? 0 : p->since_ns <= ns ? 1 : -1;
}

/* Once it is known. Where all was seen the counts of posts and completions are not apart. */
static __always_inline void start_check(const struct verbs_qp_key *key, struct verbs_counts *c)
{
	int by = 0, ex = 1;

	if (c->from_start || !c->ready_ns)
		return;
	by = placed_by(key, c->generation, c->table, c->ready_ns);
	if (c->ex)
		ex = placed_by(key, c->generation, c->ex, c->ex_ns > c->ready_ns ? c->ex_ns : c->ready_ns);
	if (by < 0 || ex < 0)
		c->ready_ns = 0; /* not asked again */
	else if (by && ex)
		c->from_start = c->aligned = 1;
}

/* --- posts --- */

static __always_inline struct verbs_fifo *fifo_of(const struct verbs_qp_key *key)
{
	struct verbs_fifo *f = bpf_map_lookup_elem(&verbs_fifos, key), *empty;
	__u32 zero = 0;

	if (f)
		return f;
	empty = bpf_map_lookup_elem(&verbs_fifo_empty, &zero);
	if (empty)
		bpf_map_update_elem(&verbs_fifos, key, empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&verbs_fifos, key);
}

/* A post that finds its place taken takes it: the older one's latency is then missing, never wrong. */
static __always_inline void fifo_put(struct verbs_fifo *q, struct verbs_counts *c, __u64 wr_id, __u64 now_ns)
{
	struct verbs_out *o = &q->out[c->signalled & (VERBS_FIFO - 1)];

	o->wr_id = wr_id;
	o->ts_ns = now_ns;
	o->bytes = c->post_bytes;
	o->nth = c->signalled + 1; /* 0 is an empty place */
}

static __always_inline void post_count(struct verbs_counts *c, struct verbs_fifo *q, __u32 opcode, __u32 flags,
				       __u64 wr_id, __u64 bytes, __u64 now_ns)
{
	__u32 op = opcode < VERBS_OPS ? opcode : VERBS_OPS - 1;
	bool signalled = flags & VERBS_SIGNALED || c->sig_all;

	c->posts++;
	c->post_bytes += bytes;
	c->by_op[op & (VERBS_OPS - 1)]++;
	c->last_signalled = signalled;
	if (!signalled)
		return;
	if (q)
		fifo_put(q, c, wr_id, now_ns);
	c->signalled++;
}

static __always_inline void post_time(struct verbs_counts *c, __u64 now_ns)
{
	if (!c->first_post_ns)
		c->first_post_ns = now_ns;
	if (!c->burst_first_ns)
		c->burst_first_ns = now_ns;
	c->last_post_ns = now_ns;
}

static __always_inline __u64 sge_bytes(__u64 list, __u32 n, struct verbs_counts *c)
{
	__u64 bytes = 0;

	for (__u32 i = 0; i < SGE_MAX; i++) {
		if (i >= n)
			return bytes;
		bytes += half_at(list + 16 * i + 8);
	}
	if (n > SGE_MAX)
		c->cut++;
	return bytes;
}

/* --- completions --- */

struct wc_head {
	__u64 wr_id;
	__u32 status, opcode, vendor_error, byte_len, imm, qpn;
};

static __always_inline void error_emit(const struct verbs_qp_key *key, const struct wc_head *wc)
{
	struct verbs_error *r = record_reserve(RING_NORMAL, struct verbs_error, WIRE_VERBS, VERBS_ERROR);

	if (!r)
		return;
	r->context = key->context;
	r->wr_id = wc->wr_id;
	r->qpn = wc->qpn;
	r->status = wc->status;
	r->vendor_error = wc->vendor_error;
	r->reserved = 0;
	record_submit(r);
}

/* Nothing is in flight: what was posted since the last such moment belongs together. */
static __always_inline void burst_check(const struct verbs_qp_key *key, struct verbs_counts *c, __u64 now_ns)
{
	struct verbs_burst *r;

	if (!c->burst_first_ns || !c->aligned || c->done_bytes != c->post_bytes ||
	    now_ns - c->burst_emitted_ns < VERBS_BURST_EVERY_NS)
		return;
	r = record_reserve(RING_BULK, struct verbs_burst, WIRE_VERBS, VERBS_BURST);
	if (!r)
		return;
	r->context = key->context;
	r->qpn = key->qpn;
	r->posts = c->posts - c->burst_posts;
	r->bytes = c->post_bytes - c->burst_bytes;
	r->first_ns = c->burst_first_ns;
	r->last_ns = c->last_post_ns;
	r->reserved = 0;
	c->burst_posts = c->posts;
	c->burst_bytes = c->post_bytes;
	c->burst_first_ns = 0;
	c->burst_emitted_ns = now_ns;
	record_submit(r);
}

/* The number of the post in place `i` of the queue if it carries this wr_id, else 0. Not static, as verbs_completion().
 */
__attribute__((noinline)) int verbs_fifo_nth(__u64 context, __u32 qpn, __u64 wr_id, __u32 i)
{
	struct verbs_qp_key key = { .context = context, .tgid = bpf_get_current_pid_tgid() >> 32, .qpn = qpn };
	struct verbs_fifo *q = bpf_map_lookup_elem(&verbs_fifos, &key);
	const struct verbs_out *o;

	if (!q)
		return 0;
	o = &q->out[i & (VERBS_FIFO - 1)];
	return o->wr_id == wr_id ? (int)o->nth : 0;
}

/* Attached in the middle, completions come of posts that were not seen. A wr_id that stands once among the posts that
 * are out says how far the two counts are apart; where wr_ids repeat nothing does, and there are no latencies. With the
 * first completion of a poll only. */
static __always_inline void align(const struct verbs_qp_key *key, const struct wc_head *wc)
{
	struct verbs_counts *c = bpf_map_lookup_elem(&verbs_qps, key);
	int nth = 0;

	if (!c || c->aligned || c->align_tries >= ALIGN_TRIES || wc->status || wc->opcode & VERBS_WC_RECV)
		return;
	c->align_tries++;
	for (__u32 i = 0; i < VERBS_FIFO; i++) {
		int at = verbs_fifo_nth(key->context, key->qpn, wc->wr_id, i);

		if (at && nth)
			return;
		if (at)
			nth = at;
	}
	if (!nth)
		return;
	c->skew = c->send_done - (nth - 1);
	c->aligned = 1;
}

static __always_inline void send_match(struct verbs_counts *c, const struct verbs_fifo *q, __u64 wr_id, __u64 now_ns)
{
	const struct verbs_out *o;
	__u64 nth, d;

	if (!q || !c->aligned)
		return;
	nth = c->send_done - c->skew;
	o = &q->out[nth & (VERBS_FIFO - 1)];
	if (o->nth != nth + 1 || o->wr_id != wr_id || now_ns < o->ts_ns)
		return;
	c->done_bytes = o->bytes;
	d = now_ns - o->ts_ns;
	c->latency_ns_sum += d;
	c->latency_n++;
	if (d > c->latency_ns_max)
		c->latency_ns_max = d;
}

#endif
