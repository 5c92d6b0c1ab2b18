// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* verbs.bpf.c - exported functions of libibverbs by two programs (entry, return), and in the burst tier the provider's
 * own post and poll functions, which the collector finds through the tables these calls bring to light. What is posted
 * and completed is added up per queue pair; nothing is reported per post, and an empty poll costs its two traps only.
 */
#include "bpf/record.bpf.h"
#include "bpf/regs.bpf.h"
#include "bpf/cookie.bpf.h"
#include "bpf/own_time.bpf.h"
#include "tracers/rdma/verbs.h"
#include "tracers/rdma/verbs_counts.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(verbs_qp_record);
RECORD_IN_BTF(verbs_error);
RECORD_IN_BTF(verbs_async);
RECORD_IN_BTF(verbs_mr_record);
RECORD_IN_BTF(verbs_cm);
RECORD_IN_BTF(verbs_not_opened);
RECORD_IN_BTF(verbs_burst);

#if defined(__TARGET_ARCH_x86)
#define RETURN_POPS 8 /* the return address */
#else
#define RETURN_POPS 0
#endif
#define CHAIN_MAX 64 /* work requests of one post */
#define POLL_MAX 32  /* completions of one poll */

static const __u8 fn_of_row[] = { /* the rows of verbs.c, in its order */
#define IN(n) n,
#define PAIR(n) n, n,
#define X(number, name, sides) sides(number)
				  VERBS_FUNCTIONS(X)
#undef X
};
#define FN_ROWS (sizeof(fn_of_row) / sizeof(fn_of_row[0]))

static const struct {
	__u32 offset;
	__u8 what;
} inlines[] = {
#define X(number, name, offset, program, what) { offset, what },
	VERBS_INLINES(X)
#undef X
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct verbs_flight_key);
	__type(value, struct verbs_flight);
} verbs_flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct verbs_table_key);
	__type(value, struct verbs_table);
} verbs_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* tgid */
	__type(value, struct verbs_opens);
} verbs_opens SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32); /* tid */
	__type(value, struct verbs_poll);
} verbs_polls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct verbs_unopened);
	__type(value, __u32);
} verbs_unopened SEC(".maps");

/* --- tables of function pointers --- */

static __always_inline void table_emit(__u64 at)
{
	struct verbs_table_found *r = record_reserve(RING_NORMAL, struct verbs_table_found, WIRE_VERBS, VERBS_TABLE);

	if (!r)
		return;
	r->at = at;
	bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP); /* the first post may be milliseconds away */
}

/* Its id; 0: there is no table. */
static __always_inline __u64 table_note(__u32 tgid, __u64 at, bool in_qp)
{
	struct verbs_table t = { .since_ns = bpf_ktime_get_ns() };
	struct verbs_table_key key = { .tgid = tgid, .in_qp = in_qp };
	__u64 any = 0;

	if (!at)
		return 0;
	for (int i = 0; i < VERBS_INLINES_MAX; i++)
		if ((i >= VERBS_IN_CONTEXT) == in_qp)
			any |= t.fn[i] = word_at(at + inlines[i].offset);
	if (!any)
		return 0;
	key.a = verbs_table_id(&t);
	if (!bpf_map_update_elem(&verbs_tables, &key, &t, BPF_NOEXIST))
		table_emit(at);
	return key.a;
}

static __always_inline __u64 context_table(__u64 context)
{
	struct verbs_table t = {};

	for (int i = 0; i < VERBS_IN_CONTEXT; i++)
		t.fn[i] = word_at(context + inlines[i].offset);
	return verbs_table_id(&t);
}

/* --- exported functions --- */

static __always_inline __u8 fn_of(__u64 cookie)
{
	__u64 row = COOKIE_ROW(cookie);

	if (row >= FN_ROWS)
		return VERBS_FN_NONE;
	barrier_var(row);
	return fn_of_row[row];
}

static __always_inline void device_name(char *to, __u64 context)
{
	__builtin_memset(to, 0, VERBS_DEVICE_LEN);
	bpf_probe_read_user_str(to, VERBS_DEVICE_LEN, (void *)(word_at(context + CONTEXT_DEVICE) + DEVICE_NAME));
}

static __always_inline void qp_emit(__u64 qp, const struct verbs_flight *f, __u8 change, __s32 result)
{
	struct verbs_qp_record *r = record_reserve(RING_NORMAL, struct verbs_qp_record, WIRE_VERBS, VERBS_QP);

	if (!r)
		return;
	r->context = word_at(qp + QP_CONTEXT);
	r->qp = qp;
	r->qpn = half_at(qp + QP_NUM);
	r->type = half_at(qp + QP_TYPE);
	r->change = change;
	r->result = result;
	r->dest_qpn = f->dest_qpn;
	r->state = f->state;
	r->port = f->port;
	r->has_gid = f->has_gid;
	r->sig_all = f->sig_all;
	r->dlid = f->dlid;
	r->reserved = 0;
	__builtin_memcpy(r->dgid, f->dgid, sizeof(r->dgid));
	device_name(r->device, r->context);
	record_submit(r);
}

/* It cannot have sent before it is made ready to send: were the probes there by then, every post is seen. Whether they
 * were may be reported later, so the time is kept: start_check(). */
static __always_inline void born(__u32 tgid, __u64 generation, __u64 qp)
{
	struct verbs_qp_key key = qp_key(tgid, qp);
	struct verbs_counts *c = counts_of(&key, generation);

	if (!c || c->posts || c->ready_ns)
		return;
	c->table = context_table(key.context);
	c->ready_ns = bpf_ktime_get_ns();
}

/* What it posts by ibv_wr_* before those functions are probed is missed. */
static __always_inline void is_extended(__u32 tgid, __u64 generation, __u64 qp, __u64 table)
{
	struct verbs_qp_key key = qp_key(tgid, qp);
	struct verbs_counts *c = table ? counts_of(&key, generation) : NULL;

	if (!c || c->ex == table)
		return;
	c->ex = table;
	c->ex_ns = bpf_ktime_get_ns();
	if (c->from_start)
		c->from_start = c->aligned = 0; /* until start_check() */
}

/* Entered: what is open and was not counted here was opened before the probes were there. */
static __always_inline void open_count(__u32 tgid, __u64 generation, int by)
{
	struct verbs_opens *o = bpf_map_lookup_elem(&verbs_opens, &tgid), first = { .generation = generation, .n = 1 };

	if (o && o->generation == generation)
		__sync_fetch_and_add(&o->n, by);
	else if (by > 0)
		bpf_map_update_elem(&verbs_opens, &tgid, &first, BPF_ANY);
}

static __always_inline void modify_read(struct verbs_flight *f, __u64 attr)
{
	f->state = f->mask & VERBS_MASK_STATE ? half_at(attr + ATTR_STATE) : VERBS_STATE_UNKNOWN;
	if (f->mask & VERBS_MASK_DEST_QPN)
		f->dest_qpn = half_at(attr + ATTR_DEST_QPN);
	if (!(f->mask & VERBS_MASK_AV))
		return;
	bpf_probe_read_user(&f->has_gid, 1, (void *)(attr + ATTR_IS_GLOBAL));
	bpf_probe_read_user(&f->port, 1, (void *)(attr + ATTR_PORT));
	bpf_probe_read_user(&f->dlid, 2, (void *)(attr + ATTR_DLID));
	bpf_probe_read_user(f->dgid, 16, (void *)(attr + ATTR_DGID));
}

UPROBE_ENTRY(verbs_enter)
{
	__u64 id = bpf_get_current_pid_tgid(), cookie = probe_cookie(ctx);
	struct target *target = target_hit(id >> 32, cookie);
	struct verbs_flight f = { .begin_ns = bpf_ktime_get_ns(),
				  .a = user_arg(ctx, 0),
				  .b = user_arg(ctx, 1),
				  .state = VERBS_STATE_UNKNOWN };
	struct verbs_flight_key key = { .tid = (__u32)id, .sp = PT_REGS_SP(ctx) };

	f.fn = fn_of(cookie);
	if (!target || !f.fn)
		return 0;
	if (f.fn == VERBS_FN_ibv_create_qp) {
		f.sig_all = half_at(f.b + INIT_ATTR_SIG_ALL) != 0;
		f.state = VERBS_RESET;
	} else if (f.fn == VERBS_FN_ibv_modify_qp) {
		f.mask = user_arg(ctx, 2);
		modify_read(&f, f.b);
		if (f.state == VERBS_RTS)
			born(id >> 32, target->generation, f.a);
	} else if (f.fn == VERBS_FN_ibv_open_device || f.fn == VERBS_FN_ibv_import_device) {
		open_count(id >> 32, target->generation, 1);
	} else if (f.fn == VERBS_FN_ibv_destroy_qp) {
		qp_emit(f.a, &f, VERBS_QP_GONE, 0);
		return 0;
	} else if (f.fn == VERBS_FN_ibv_reg_dmabuf_mr) {
		f.a = user_arg(ctx, 3);
		f.b = user_arg(ctx, 2);
	} else if (f.fn >= VERBS_FN_ibv_reg_mr && f.fn <= VERBS_FN_ibv_reg_mr_iova2) {
		f.a = f.b;
		f.b = user_arg(ctx, 2);
	}
	bpf_map_update_elem(&verbs_flights, &key, &f, BPF_ANY);
	return 0;
}

static __always_inline void mr_emit(const struct verbs_flight *f, __u32 fn, bool failed)
{
	struct verbs_mr_record *r = record_reserve(RING_NORMAL, struct verbs_mr_record, WIRE_VERBS, VERBS_MR);

	if (!r)
		return;
	r->begin_ns = f->begin_ns;
	r->addr = f->a;
	r->bytes = f->b;
	r->fn = fn;
	r->failed = failed;
	record_submit(r);
}

static __always_inline void async_emit(const struct verbs_flight *f)
{
	struct verbs_async *r = record_reserve(RING_NORMAL, struct verbs_async, WIRE_VERBS, VERBS_ASYNC);

	if (!r)
		return;
	r->context = f->a;
	r->element = word_at(f->b + ASYNC_ELEMENT);
	r->type = half_at(f->b + ASYNC_TYPE);
	r->qpn = 0;
	/* IBV_EVENT_QP_FATAL to PATH_MIG_ERR, and QP_LAST_WQE_REACHED, carry a QP; 0 is a CQ's */
	if ((r->type >= 1 && r->type <= 7) || r->type == 16)
		r->qpn = half_at(r->element + QP_NUM);
	device_name(r->device, f->a);
	record_submit(r);
}

static __always_inline void cm_emit(const struct verbs_flight *f)
{
	__u64 event = word_at(f->b);
	struct verbs_cm *r = record_reserve(RING_NORMAL, struct verbs_cm, WIRE_VERBS, VERBS_CM);

	if (!r)
		return;
	r->type = half_at(event + CM_EVENT_TYPE);
	r->status = half_at(event + CM_EVENT_STATUS);
	record_submit(r);
}

static __always_inline void made(__u32 tgid, __u64 generation, __u64 qp, const struct verbs_flight *f)
{
	struct verbs_qp_key key = qp_key(tgid, qp);
	struct verbs_counts *c = counts_of(&key, generation);

	if (c)
		c->sig_all = f->sig_all;
	table_note(tgid, key.context, false);
	qp_emit(qp, f, VERBS_QP_MADE, 0);
}

static __always_inline void unopened_emit(__u32 tgid, __u64 device)
{
	struct verbs_not_opened *r = record_reserve(RING_NORMAL, struct verbs_not_opened, WIRE_VERBS, VERBS_UNOPENED);
	struct verbs_unopened key = { .tgid = tgid };
	__u32 once = 1;

	bpf_probe_read_user_str(key.device, sizeof(key.device), (void *)(device + DEVICE_NAME));
	bpf_probe_read_user_str(key.node, sizeof(key.node), (void *)(device + DEVICE_DEV_NAME));
	bpf_map_update_elem(&verbs_unopened, &key, &once, BPF_NOEXIST);
	if (!r)
		return;
	__builtin_memcpy(r->device, key.device, sizeof(r->device));
	__builtin_memcpy(r->node, key.node, sizeof(r->node));
	record_submit(r);
}

UPROBE_RETURN(verbs_exit)
{
	__u64 id = bpf_get_current_pid_tgid(), ret = PT_REGS_RC(ctx);
	struct target *target = target_of(id >> 32);
	struct verbs_flight_key key = { .tid = (__u32)id, .sp = PT_REGS_SP(ctx) - RETURN_POPS };
	struct verbs_flight *at, f;

	private_stack_refuse(ctx);
	at = target ? bpf_map_lookup_elem(&verbs_flights, &key) : NULL;
	if (!at)
		return 0;
	f = *at;
	bpf_map_delete_elem(&verbs_flights, &key);
	if (f.fn == VERBS_FN_ibv_open_device || f.fn == VERBS_FN_ibv_import_device) {
		if (!ret)
			open_count(id >> 32, target->generation, -1);
		if (!ret && f.fn == VERBS_FN_ibv_open_device)
			unopened_emit(id >> 32, f.a);
		table_note(id >> 32, ret, false);
	} else if (f.fn == VERBS_FN_ibv_create_cq)
		table_note(id >> 32, ret ? word_at(ret) : 0, false);
	else if (f.fn == VERBS_FN_ibv_qp_to_qp_ex)
		is_extended(id >> 32, target->generation, ret, table_note(id >> 32, ret, true));
	else if (f.fn == VERBS_FN_ibv_create_qp && ret)
		made(id >> 32, target->generation, ret, &f);
	else if (f.fn == VERBS_FN_ibv_modify_qp) { /* its context may have been opened before the probes were there */
		table_note(id >> 32, word_at(f.a + QP_CONTEXT), false);
		qp_emit(f.a, &f, VERBS_QP_CHANGED, (__s32)ret);
	} else if (f.fn >= VERBS_FN_ibv_reg_mr && f.fn <= VERBS_FN_ibv_reg_dmabuf_mr)
		mr_emit(&f, f.fn, !ret);
	else if (f.fn == VERBS_FN_ibv_get_async_event && !(__s32)ret)
		async_emit(&f);
	else if (f.fn == VERBS_FN_rdma_get_cm_event && !(__s32)ret)
		cm_emit(&f);
	return 0;
}

/* --- burst tier: posts --- */

struct wr_head {
	__u64 wr_id, next, sg_list;
	__u32 num_sge, opcode, flags, reserved;
};

UPROBE_ENTRY(verbs_post_send)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct target *target = target_hit(tgid, probe_cookie(ctx));
	__u64 qp = user_arg(ctx, 0), wr = user_arg(ctx, 1), now_ns = bpf_ktime_get_ns();
	struct verbs_qp_key key;
	struct verbs_counts *c;
	struct verbs_fifo *q;

	if (!target)
		return 0;
	key = qp_key(tgid, qp);
	c = counts_of(&key, target->generation);
	q = fifo_of(&key);
	if (!c)
		return 0;
	post_time(c, now_ns);
	for (int i = 0; i < CHAIN_MAX && wr; i++) {
		struct wr_head h = {};

		if (bpf_probe_read_user(&h, sizeof(h), (void *)wr))
			break;
		post_count(c, q, h.opcode, h.flags, h.wr_id, sge_bytes(h.sg_list, h.num_sge, c), now_ns);
		wr = h.next;
	}
	c->cut += wr != 0;
	return 0;
}

UPROBE_ENTRY(verbs_post_recv)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct target *target = target_hit(tgid, probe_cookie(ctx));
	__u64 qp = user_arg(ctx, 0), wr = user_arg(ctx, 1);
	struct verbs_qp_key key;
	struct verbs_counts *c;

	if (!target)
		return 0;
	key = qp_key(tgid, qp);
	c = counts_of(&key, target->generation);
	if (!c)
		return 0;
	for (int i = 0; i < CHAIN_MAX && wr; i++) {
		c->recv_posts++;
		wr = word_at(wr + WR_NEXT);
	}
	c->cut += wr != 0;
	return 0;
}

/* --- burst tier: ibv_wr_*, where one function says what and others how much --- */

static __always_inline __u32 what_of(__u64 cookie)
{
	__u64 i = COOKIE_ROW(cookie) - FN_ROWS;

	if (i >= VERBS_INLINES_MAX)
		return 0;
	barrier_var(i);
	return inlines[i].what;
}

UPROBE_ENTRY(verbs_wr_op)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 cookie = probe_cookie(ctx);
	struct target *target = target_hit(tgid, cookie);
	__u64 qp = user_arg(ctx, 0), now_ns = bpf_ktime_get_ns();
	struct verbs_qp_key key;
	struct verbs_counts *c;

	if (!target)
		return 0;
	key = qp_key(tgid, qp);
	c = counts_of(&key, target->generation);
	if (!c)
		return 0;
	post_time(c, now_ns);
	post_count(c, fifo_of(&key), what_of(cookie), half_at(qp + QP_EX_WR_FLAGS), word_at(qp + QP_EX_WR_ID), 0,
		   now_ns);
	return 0;
}

static __always_inline void wr_bytes_add(__u32 tgid, __u64 generation, __u64 qp, __u64 bytes, bool cut)
{
	struct verbs_qp_key key = qp_key(tgid, qp);
	struct verbs_counts *c = counts_of(&key, generation);
	struct verbs_fifo *q;

	if (!c)
		return;
	c->post_bytes += bytes;
	c->cut += cut;
	q = c->last_signalled ? bpf_map_lookup_elem(&verbs_fifos, &key) : NULL;
	if (q)
		q->out[(c->signalled - 1) & (VERBS_FIFO - 1)].bytes = c->post_bytes;
}

UPROBE_ENTRY(verbs_wr_data)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 cookie = probe_cookie(ctx);
	struct target *target = target_hit(tgid, cookie);

	if (!target)
		return 0;
	if (what_of(cookie) == 3)
		wr_bytes_add(tgid, target->generation, user_arg(ctx, 0), (__u32)user_arg(ctx, 3), false);
	else
		wr_bytes_add(tgid, target->generation, user_arg(ctx, 0), user_arg(ctx, 2), false);
	return 0;
}

/* struct ibv_sge {addr, u32 length, lkey} or struct ibv_data_buf {addr, size_t length}: equal places, other widths. */
UPROBE_ENTRY(verbs_wr_list)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 cookie = probe_cookie(ctx);
	struct target *target = target_hit(tgid, cookie);
	__u64 list = user_arg(ctx, 2), n = user_arg(ctx, 1), bytes = 0;
	bool sge = what_of(cookie) == 1;

	if (!target)
		return 0;
	for (__u32 i = 0; i < SGE_MAX && i < n; i++)
		bytes += sge ? half_at(list + 16 * i + 8) : word_at(list + 16 * i + 8);
	wr_bytes_add(tgid, target->generation, user_arg(ctx, 0), bytes, n > SGE_MAX);
	return 0;
}

/* --- burst tier: completions --- */

UPROBE_ENTRY(verbs_poll_enter)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct verbs_poll p = { .cq = user_arg(ctx, 0), .wc = user_arg(ctx, 2) };
	__u32 tid = (__u32)id;

	if (target_hit(id >> 32, probe_cookie(ctx)))
		bpf_map_update_elem(&verbs_polls, &tid, &p, BPF_ANY);
	return 0;
}

/* Not static, so that the verifier looks at it once and not for each turn of the loop that calls it. */
__attribute__((noinline)) int verbs_completion(__u64 wc_at, __u64 context, __u64 now_ns)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct target *target = target_of(tgid);
	struct verbs_qp_key key = { .context = context, .tgid = tgid };
	struct verbs_counts *c;
	struct wc_head wc = {};

	if (!target || bpf_probe_read_user(&wc, sizeof(wc), (void *)wc_at))
		return 0;
	key.qpn = wc.qpn;
	c = counts_of(&key, target->generation);
	if (!c)
		return 0;
	c->last_done_ns = now_ns;
	if (wc.status) {
		if (!c->errors++) { /* the first says why; those behind it were flushed */
			c->first_status = wc.status;
			error_emit(&key, &wc);
		}
	} else if (wc.opcode & VERBS_WC_RECV) {
		c->recv_done++;
		c->recv_bytes += wc.byte_len;
	} else {
		start_check(&key, c);
		send_match(c, bpf_map_lookup_elem(&verbs_fifos, &key), wc.wr_id, now_ns);
		c->send_done++;
		burst_check(&key, c, now_ns);
	}
	return 0;
}

UPROBE_RETURN(verbs_poll_exit)
{
	__u64 id = bpf_get_current_pid_tgid(), context, now_ns, wc;
	__s32 n = (__s32)PT_REGS_RC(ctx);
	__u32 tid = (__u32)id, tgid = id >> 32;
	struct wc_head first = {};
	struct target *target;
	struct verbs_poll *p;

	private_stack_refuse(ctx);
	if (n <= 0)
		return 0;
	target = target_of(tgid);
	p = bpf_map_lookup_elem(&verbs_polls, &tid);
	if (!target || !p)
		return 0;
	context = word_at(p->cq);
	wc = p->wc;
	now_ns = bpf_ktime_get_ns();
	if (!bpf_probe_read_user(&first, sizeof(first), (void *)wc)) {
		struct verbs_qp_key key = { .context = context, .tgid = tgid, .qpn = first.qpn };

		align(&key, &first);
	}
	for (int i = 0; i < POLL_MAX && i < n; i++)
		verbs_completion(wc + i * WC_BYTES, context, now_ns);
	if (n > POLL_MAX) {
		struct verbs_qp_key key = { .context = context, .tgid = tgid, .qpn = half_at(wc + WC_QP_NUM) };
		struct verbs_counts *c = bpf_map_lookup_elem(&verbs_qps, &key);

		if (c)
			c->cut++;
	}
	return 0;
}
