/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * verbs.h - records of the verbs tracer, the functions it probes, and where things lie in the structs of
 * <infiniband/verbs.h> that applications are compiled against: these are libibverbs' ABI since 1.1 and cannot move.
 */
#ifndef RANKTRACE_VERBS_H
#define RANKTRACE_VERBS_H

#include "schemas/wire.h"
#include "tracers/rdma/wire/qp.h"

enum verbs_kind {
	VERBS_QP = 1,       /* a queue pair: made, changed, gone, or found */
	VERBS_STATS = 2,    /* burst tier, from a scan: totals of one queue pair */
	VERBS_ERROR = 3,    /* burst tier: a completion that is no success */
	VERBS_ASYNC = 4,    /* ibv_get_async_event returned */
	VERBS_MR = 5,       /* memory was registered */
	VERBS_CM = 6,       /* rdma_get_cm_event returned */
	VERBS_UNOPENED = 8, /* ibv_open_device returned NULL */
	VERBS_BURST = 9,    /* burst tier: posts up to a moment at which all that was posted had been completed */
	VERBS_TABLE = 7,    /* an ops table came to light: wakes the collector, which attaches to what it points at */
};

/* X(number, symbol, sides, tier): exported functions. Numbers stand in records; where probes are placed one by one it
 * is in this order: what leads to the provider and to a queue pair's readiness first. */
/* clang-format off */
#define VERBS_FUNCTIONS(X) \
	X(1, ibv_open_device, PAIR) \
	X(3, ibv_create_qp, PAIR) \
	X(4, ibv_modify_qp, PAIR) \
	X(6, ibv_qp_to_qp_ex, PAIR) \
	X(2, ibv_create_cq, PAIR) \
	X(5, ibv_destroy_qp, IN) \
	X(7, ibv_reg_mr, PAIR) \
	X(8, ibv_reg_mr_iova, PAIR) \
	X(9, ibv_reg_mr_iova2, PAIR) \
	X(10, ibv_reg_dmabuf_mr, PAIR) \
	X(11, ibv_get_async_event, PAIR) \
	X(12, rdma_get_cm_event, PAIR) \
	X(13, ibv_import_device, PAIR)
/* clang-format on */

enum verbs_fn {
	VERBS_FN_NONE = 0,
#define X(number, name, sides) VERBS_FN_##name = number,
	VERBS_FUNCTIONS(X)
#undef X
};

/* Functions behind inlines, by where their pointer lies: in struct ibv_context (its ops), or in struct ibv_qp_ex.
 * X(number, inline, offset of the pointer, program, what): what is an opcode for verbs_wr_op, the argument that says
 * how long for verbs_wr_data. */
/* clang-format off */
#define VERBS_INLINES(X) \
	X(0, ibv_poll_cq, 96, verbs_poll_enter, 0) \
	X(1, ibv_poll_cq, 96, verbs_poll_exit, 0) \
	X(2, ibv_post_send, 208, verbs_post_send, 0) \
	X(3, ibv_post_recv, 216, verbs_post_recv, 0) \
	X(4, ibv_wr_atomic_cmp_swp, 184, verbs_wr_op, 5) \
	X(5, ibv_wr_atomic_fetch_add, 192, verbs_wr_op, 6) \
	X(6, ibv_wr_rdma_read, 216, verbs_wr_op, 4) \
	X(7, ibv_wr_rdma_write, 224, verbs_wr_op, 0) \
	X(8, ibv_wr_rdma_write_imm, 232, verbs_wr_op, 1) \
	X(9, ibv_wr_send, 240, verbs_wr_op, 2) \
	X(10, ibv_wr_send_imm, 248, verbs_wr_op, 3) \
	X(11, ibv_wr_send_inv, 256, verbs_wr_op, 2) \
	X(12, ibv_wr_set_inline_data, 288, verbs_wr_data, 2) \
	X(13, ibv_wr_set_inline_data_list, 296, verbs_wr_list, 0) \
	X(14, ibv_wr_set_sge, 304, verbs_wr_data, 3) \
	X(15, ibv_wr_set_sge_list, 312, verbs_wr_list, 1)
/* clang-format on */
#define VERBS_INLINES_MAX 16
#define VERBS_IN_CONTEXT 4 /* the first ones; the others are in ibv_qp_ex */

enum verbs_abi { /* offsets, bytes; LP64 */
		 CONTEXT_DEVICE = 0,
		 CONTEXT_ABI_COMPAT = 320,
		 CONTEXT_BYTES = 328,
		 CONTEXT_POLL_CQ = 96,
		 CONTEXT_POST_SEND = 208,
		 CONTEXT_POST_RECV = 216,
		 CONTEXT_CMD_FD = 264,
		 DEVICE_NAME = 24,
		 DEVICE_DEV_NAME = 88,
		 QP_CONTEXT = 0,
		 QP_PD = 16,
		 QP_SEND_CQ = 24,
		 QP_RECV_CQ = 32,
		 QP_NUM = 52,
		 QP_STATE = 56,
		 QP_TYPE = 60,
		 QP_EX_WR_ID = 168,
		 QP_EX_WR_FLAGS = 176,
		 QP_EX_WR_START = 320,
		 QP_EX_WR_COMPLETE = 328,
		 WR_ID = 0,
		 WR_NEXT = 8,
		 WR_SG_LIST = 16,
		 WR_NUM_SGE = 24,
		 WR_OPCODE = 28,
		 WR_FLAGS = 32,
		 WC_STATUS = 8,
		 WC_OPCODE = 12,
		 WC_VENDOR_ERR = 16,
		 WC_BYTE_LEN = 20,
		 WC_QP_NUM = 28,
		 WC_BYTES = 48,
		 INIT_ATTR_SIG_ALL = 56,
		 ATTR_STATE = 0,
		 ATTR_DEST_QPN = 28,
		 ATTR_DGID = 56,
		 ATTR_DLID = 80,
		 ATTR_IS_GLOBAL = 85,
		 ATTR_PORT = 86,
		 ASYNC_ELEMENT = 0,
		 ASYNC_TYPE = 8,
		 CM_EVENT_TYPE = 16,
		 CM_EVENT_STATUS = 20,
};
#define VERBS_SIGNALED 2       /* IBV_SEND_SIGNALED */
#define VERBS_WC_RECV 128      /* IBV_WC_RECV: set in the opcode of what was received */
#define VERBS_MASK_STATE 1     /* IBV_QP_STATE */
#define VERBS_MASK_AV (1 << 7) /* IBV_QP_AV */
#define VERBS_MASK_DEST_QPN (1 << 20)
#define VERBS_STATE_UNKNOWN 0xff

enum verbs_qp_state { VERBS_RESET, VERBS_INIT, VERBS_RTR, VERBS_RTS, VERBS_SQD, VERBS_SQE, VERBS_ERR };

enum verbs_qp_change { /* struct verbs_qp_record.change: how it came to be reported */
		       VERBS_QP_MADE = 1,
		       VERBS_QP_CHANGED = 2,
		       VERBS_QP_GONE = 3,
		       VERBS_QP_FOUND = 4, /* in the memory of a process that was attached to late */
};

#define VERBS_DEVICE_LEN 32
struct verbs_qp_record {
	struct wire_hdr hdr;
	__u64 context, qp;   /* addresses in the process */
	__u32 qpn, dest_qpn; /* dest_qpn 0: not known by this call */
	__u8 state;          /* enum verbs_qp_state; VERBS_STATE_UNKNOWN */
	__u8 type;           /* enum ibv_qp_type */
	__u8 change;         /* enum verbs_qp_change */
	__u8 port;           /* 0 not known */
	__u8 has_gid;        /* dgid is the peer's */
	__u8 sig_all;
	__u16 dlid;
	__s32 result; /* of the call */
	__u32 reserved;
	__u8 dgid[16];
	char device[VERBS_DEVICE_LEN];
};
_Static_assert(sizeof(struct verbs_qp_record) == 112, "verbs_qp_record");

#define VERBS_OPS 8          /* by enum ibv_wr_opcode; the last: all others */
struct verbs_stats {         /* since the probes were placed */
	struct wire_hdr hdr; /* tgid */
	__u64 context;
	__u32 qpn;
	__u32 first_status; /* ibv_wc_status of the first completion that was no success; 0 none */
	struct qp_counts n;
	__u64 latency_ns_sum, latency_n, latency_ns_max; /* signalled posts to the poll that brought the completion */
	__u64 cut; /* chains, lists or polls longer than is walked: the totals are short of them */
	__u32 by_op[VERBS_OPS];
	__u32 from_start; /* the probes were there before it could send */
	__u32 reserved;
};
_Static_assert(sizeof(struct verbs_stats) == 208, "verbs_stats");

struct verbs_error {
	struct wire_hdr hdr;
	__u64 context, wr_id;
	__u32 qpn, status, vendor_error;
	__u32 reserved;
};
_Static_assert(sizeof(struct verbs_error) == 56, "verbs_error");

struct verbs_async {
	struct wire_hdr hdr;
	__u64 context, element; /* QP, CQ, SRQ or port number, by type */
	__u32 type;             /* enum ibv_event_type */
	__u32 qpn;              /* of events that concern a QP; 0 none */
	char device[VERBS_DEVICE_LEN];
};
_Static_assert(sizeof(struct verbs_async) == 80, "verbs_async");

struct verbs_mr_record {
	struct wire_hdr hdr;
	__u64 begin_ns, addr, bytes;
	__u32 fn; /* enum verbs_fn */
	__u32 failed;
};
_Static_assert(sizeof(struct verbs_mr_record) == 56, "verbs_mr_record");

struct verbs_cm {
	struct wire_hdr hdr;
	__u32 type; /* enum rdma_cm_event_type */
	__s32 status;
};
_Static_assert(sizeof(struct verbs_cm) == 32, "verbs_cm");

struct verbs_table_found {
	struct wire_hdr hdr;
	__u64 at;
};

struct verbs_not_opened {
	struct wire_hdr hdr;
	char device[VERBS_DEVICE_LEN]; /* "mlx5_0" */
	char node[VERBS_DEVICE_LEN];   /* "uverbs0" */
};
_Static_assert(sizeof(struct verbs_not_opened) == 88, "verbs_not_opened");

struct verbs_burst {                                    /* since the burst before it on this queue pair */
	struct wire_hdr hdr;                            /* ts: the poll that brought the last completion */
	__u64 context, posts, bytes, first_ns, last_ns; /* of its posts */
	__u32 qpn, reserved;
};
_Static_assert(sizeof(struct verbs_burst) == 72, "verbs_burst");
#define VERBS_BURST_EVERY_NS 1000000 /* bursts that follow each other within a millisecond are one */

/* --- maps --- */

struct verbs_unopened {
	__u32 tgid;
	char device[VERBS_DEVICE_LEN], node[VERBS_DEVICE_LEN];
};

struct verbs_flight_key {
	__u64 sp;
	__u32 tid, reserved;
};                    /* sp: where the return address lies, or lay */
struct verbs_flight { /* a call of an exported function */
	__u64 begin_ns, a, b;
	__u32 mask; /* ibv_modify_qp */
	__u32 dest_qpn;
	__u8 state, port, has_gid, sig_all;
	__u16 dlid, fn; /* fn: enum verbs_fn */
	__u8 dgid[16];
};

struct verbs_table_key {
	__u32 tgid, in_qp;
	__u64 a;
}; /* in_qp 0: of a context; a: verbs_table_id() */
struct verbs_table {
	__u64 since_ns;
	__u64 fn[VERBS_INLINES_MAX];
}; /* by number of VERBS_INLINES; 0 none */

/* Of all its pointers: a queue pair has those of the operations that it was made for. */
static inline __u64 verbs_table_id(const struct verbs_table *t)
{
	__u64 id = 0;

	for (int i = 0; i < VERBS_INLINES_MAX; i++)
		id = (id ^ t->fn[i]) * 0x100000001b3ull;
	return id;
}

struct verbs_placed_key {
	__u64 table;
	__u32 tgid, reserved;
}; /* verbs_table_key.a of a table whose functions are probed */
struct verbs_placed {
	__u64 generation, since_ns;
}; /* of the process; when the last of them was */

struct verbs_opens {
	__u64 generation;
	__u32 n, reserved;
}; /* devices that were opened under our eyes, opening ones included */

struct verbs_qp_key {
	__u64 context;
	__u32 tgid, qpn;
};
#define VERBS_QPS_COUNTED 8192 /* counted at once on a node: the least recently used go */
#define VERBS_FIFO 64          /* signalled posts that may be out; a power of two */
struct verbs_counts {
	__u64 generation;
	__u64 posts, post_bytes, signalled, recv_posts, send_done, recv_done, recv_bytes, errors;
	__u64 first_post_ns, last_post_ns, last_done_ns, done_bytes;
	__u64 latency_ns_sum, latency_n, latency_ns_max, cut;
	__u64 skew; /* completions of posts from before the probes: what they are ahead of our count */
	__u64 burst_posts, burst_bytes;         /* reported of until then */
	__u64 burst_first_ns, burst_emitted_ns; /* first post since; 0 none */
	__u64 table, ready_ns; /* of its context; when it was made ready to send, with no post seen until then; 0 not */
	__u64 ex, ex_ns;       /* its own table, and when it was asked for its struct ibv_qp_ex; 0 */
	__u32 by_op[VERBS_OPS];
	__u32 first_status;
	__u8 from_start, aligned, sig_all, last_signalled;
	__u32 align_tries, reserved;
};

struct verbs_out {
	__u64 wr_id, ts_ns, bytes, nth;
}; /* bytes: posted on this QP up to and with it */
struct verbs_fifo {
	struct verbs_out out[VERBS_FIFO];
};

struct verbs_poll {
	__u64 cq, wc;
};

#endif
