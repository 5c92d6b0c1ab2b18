// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tcp.bpf.c - tracepoints of TCP that fire when something goes wrong, never where data go. They run for anybody's
 * sockets in no process' context, so sockets have owners: noted as the process connects or listens, for connections
 * that come in by the listener on their port, and for those open before by an iterator over the targets' files. Raw
 * tracepoints, whose arguments behind the socket differ between kernels and are not read.
 */
#include "bpf/record.bpf.h"
#include "tracers/tcp/tcp.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(tcp_record);

/* include/net/tcp_states.h, include/linux/socket.h, include/uapi/linux/{in,stat}.h */
#define KERNEL_ESTABLISHED 1
#define KERNEL_SYN_SENT 2
#define KERNEL_SYN_RECV 3
#define KERNEL_CLOSE 7
#define KERNEL_CLOSE_WAIT 8
#define KERNEL_LISTEN 10
#define KERNEL_AF_INET 2
#define KERNEL_AF_INET6 10
#define KERNEL_PROTO_TCP 6
#define KERNEL_S_IFMT 0170000
#define KERNEL_S_IFSOCK 0140000

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH); /* the oldest make room */
	__uint(max_entries, 16384);
	__type(key, __u64); /* struct sock * */
	__type(value, struct tcp_owner);
} tcp_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct tcp_listener_key);
	__type(value, __u32); /* tgid */
} tcp_listeners SEC(".maps");

static __always_inline struct tcp_owner *owner_of(struct sock *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_lookup_elem(&tcp_owners, &key);
}

static __always_inline void owner_note(struct sock *sk, __u32 tgid)
{
	struct tcp_owner o = { .tgid = tgid };
	__u64 key = (__u64)sk;

	bpf_map_update_elem(&tcp_owners, &key, &o, BPF_NOEXIST);
}

static __always_inline struct tcp_listener_key listener_key(struct sock *sk)
{
	struct tcp_listener_key key = {};

	key.net = (__u64)BPF_CORE_READ(sk, __sk_common.skc_net.net);
	key.port = BPF_CORE_READ(sk, __sk_common.skc_num);
	return key;
}

static __always_inline void addresses_take(struct tcp_record *r, struct sock *sk)
{
	__builtin_memset(r->local, 0, sizeof(r->local));
	__builtin_memset(r->remote, 0, sizeof(r->remote));
	r->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	r->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	r->remote_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (r->family == KERNEL_AF_INET6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		BPF_CORE_READ_INTO(&r->local, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&r->remote, sk, __sk_common.skc_v6_daddr);
		return;
	}
	*(__u32 *)r->local = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	*(__u32 *)r->remote = BPF_CORE_READ(sk, __sk_common.skc_daddr);
}

static __always_inline void emit(struct sock *sk, __u32 tgid, __u8 kind, __u8 state, __u32 n)
{
	struct tcp_record *r = record_reserve(RING_NORMAL, struct tcp_record, WIRE_TCP, kind);

	if (!r)
		return;
	r->hdr.tid = r->hdr.tgid = tgid;
	r->state = state;
	r->reserved = 0;
	r->n = n;
	r->error = BPF_CORE_READ(sk, sk_err);
	addresses_take(r, sk);
	record_submit(r);
}

SEC("raw_tp/tcp_retransmit_skb")
int tcp_again(struct bpf_raw_tracepoint_args *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	struct tcp_owner *o = owner_of(sk);
	__u64 now;

	if (!o)
		return 0;
	__sync_fetch_and_add(&o->n, 1);
	now = bpf_ktime_get_ns();
	if (now < o->emitted_ns + TCP_AGAIN_EVERY_NS)
		return 0;
	o->emitted_ns = now;
	emit(sk, o->tgid, TCP_SENT_AGAIN, BPF_CORE_READ(sk, __sk_common.skc_state), o->n);
	o->n = 0;
	return 0;
}

SEC("raw_tp/tcp_receive_reset")
int tcp_reset_came(struct bpf_raw_tracepoint_args *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	struct tcp_owner *o = owner_of(sk);

	if (o)
		emit(sk, o->tgid, TCP_RESET_CAME, BPF_CORE_READ(sk, __sk_common.skc_state), 1);
	return 0;
}

SEC("raw_tp/tcp_send_reset")
int tcp_reset_went(struct bpf_raw_tracepoint_args *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	struct tcp_owner *o = sk ? owner_of(sk) : NULL; /* none: no process listens there */

	if (o)
		emit(sk, o->tgid, TCP_RESET_WENT, BPF_CORE_READ(sk, __sk_common.skc_state), 1);
	return 0;
}

static __always_inline void closed(struct sock *sk, int before)
{
	struct tcp_owner *o = owner_of(sk);
	__u64 key = (__u64)sk;

	if (!o)
		return;
	if (before == KERNEL_ESTABLISHED || before == KERNEL_SYN_SENT || before == KERNEL_CLOSE_WAIT)
		emit(sk, o->tgid, TCP_ENDED, before, 1);
	bpf_map_delete_elem(&tcp_owners, &key);
}

/* In the context of the process that connects or listens. */
static __always_inline void opened(struct sock *sk, int state)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!target_of(tgid))
		return;
	if (state == KERNEL_SYN_SENT) {
		owner_note(sk, tgid);
	} else {
		struct tcp_listener_key key = listener_key(sk);

		bpf_map_update_elem(&tcp_listeners, &key, &tgid, BPF_ANY);
	}
}

SEC("raw_tp/inet_sock_set_state")
int tcp_state(struct bpf_raw_tracepoint_args *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	int before = (int)ctx->args[1], state = (int)ctx->args[2];

	if (state == KERNEL_CLOSE) {
		closed(sk, before);
	} else if (state == KERNEL_SYN_SENT || state == KERNEL_LISTEN) {
		opened(sk, state);
	} else if (before == KERNEL_SYN_RECV && state == KERNEL_ESTABLISHED) {
		struct tcp_listener_key key = listener_key(sk);
		__u32 *tgid = bpf_map_lookup_elem(&tcp_listeners, &key);

		if (tgid && target_of(*tgid))
			owner_note(sk, *tgid);
	}
	return 0;
}

/* Sockets that a target had before; a row each, of those that are new to us. */
SEC("iter/task_file")
int tcp_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *p = ctx->task;
	struct file *file = ctx->file;
	struct tcp_sample l = {};
	struct tcp_listener_key key;
	struct socket *socket;
	struct sock *sk;
	__u32 tgid;
	int state;

	if (!p || !file || !target_of(p->tgid))
		return 0;
	tgid = p->tgid;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & KERNEL_S_IFMT) != KERNEL_S_IFSOCK)
		return 0;
	socket = (struct socket *)BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != KERNEL_PROTO_TCP)
		return 0;
	state = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (state != KERNEL_AF_INET && state != KERNEL_AF_INET6)
		return 0;
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == KERNEL_LISTEN) {
		key = listener_key(sk);
		bpf_map_update_elem(&tcp_listeners, &key, &tgid, BPF_ANY);
	} else if (state != KERNEL_CLOSE && !owner_of(sk)) {
		owner_note(sk, tgid);
		l.sk = (__u64)sk;
		bpf_seq_write(ctx->meta->seq, &l, sizeof(l));
	}
	return 0;
}
