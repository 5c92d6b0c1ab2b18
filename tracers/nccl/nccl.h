/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * nccl.h - records of the nccl tracer, and the facts its programs work by (rows of calls, offsets of a library).
 */
#ifndef RANKTRACE_NCCL_H
#define RANKTRACE_NCCL_H

#include "schemas/wire.h"

enum nccl_kind {
	NCCL_OP = 1,
	NCCL_COMM = 2,
	NCCL_INIT = 3,
	NCCL_READY = 4,
	NCCL_GROUP = 5,
	NCCL_GONE = 6,
	NCCL_SIGNAL = 7
};

/* One-sided calls: no peer has a call that belongs to it. */
enum nccl_signal_what { NCCL_PUT_SIGNAL = 1, NCCL_SEND_SIGNAL = 2, NCCL_WAIT_SIGNAL = 3 };

#define NCCL_ID_BYTES 128   /* NCCL_UNIQUE_ID_BYTES */
#define NCCL_COUNTERS_MAX 8 /* of ncclComm.seqNumber[]; 5 in 2.26 to 2.30 */
#define NCCL_CALLS_MAX 64
#define NCCL_LIBS_MAX WIRE_LIBS_MAX
#define NCCL_NO_ARG 0xff

/* One exported function: which argument carries what (index from 0, NCCL_NO_ARG none). Index: the row's place in
 * nccl.c's table; the probe's cookie carries it. */
struct nccl_call {
	__u8 op; /* of op calls: enum op_kind; of signals: enum nccl_signal_what; of init calls: enum comm_init_kind;
		    gone: enum comm_gone_kind; group: 1 end */
	__u8 comm, stream, count, dtype, redop, root, peer;
	__u8 newcomm, nranks, rank, color, key; /* init calls */
	__u8 id;                                /* unique id: by value at this place, or a pointer */
	__u8 id_by_value;
	__u8 wraps_next; /* 1: implemented by a tail call of another probed function (Bcast -> Broadcast) */
};
_Static_assert(sizeof(struct nccl_call) == 16, "nccl_call");

/* struct ncclComm of one library, in bytes; learned from its DWARF. 0 in `valid`: nothing is read. */
struct nccl_lib {
	__u32 valid;
	__u32 magic, end_magic, hash, rank, nranks, device, counters;
	__u32 n_counters;
	__u32 reserved;
	__u64 text_first, text_end; /* addresses in the image, from the first to behind the last function of the API */
};

struct nccl_text_key {
	__u32 tgid, lib;
};
#define NCCL_COPIES_MAX 4
struct nccl_text { /* where that is in the process: several mapped copies of one build are several places */
	__u64 begin[NCCL_COPIES_MAX];
	__u64 bytes;
	__u32 n; /* ever put; the oldest gives way */
	__u32 reserved;
};

struct nccl_op { /* a collective, Send or Recv is called */
	struct wire_hdr hdr;
	__u64 comm, stream, count;
	__u64 counters_sum;             /* sum of seqNumber[] at entry */
	__s32 dtype, redop, root, peer; /* -1 none */
	__u8 op;                        /* enum op_kind */
	__u8 counters_valid;
	__u16 group_depth;
	__u32 lib;
};
_Static_assert(sizeof(struct nccl_op) == 80, "nccl_op");

struct nccl_comm { /* ncclComm as it lies in the target's memory; checked by the decoder */
	struct wire_hdr hdr;
	__u64 comm, magic, end_magic, hash;
	__s32 rank, nranks, device;
	__u32 n_counters;
	__u64 counters[NCCL_COUNTERS_MAX];
	__u32 lib;
	__u32 reserved;
};
_Static_assert(sizeof(struct nccl_comm) == 144, "nccl_comm");

struct nccl_init { /* a communicator creation begins */
	struct wire_hdr hdr;
	__u64 parent;                   /* Split, Shrink, Grow */
	__s32 nranks, rank, color, key; /* -1 not known by the call */
	__u8 how;                       /* enum comm_init_kind */
	__u8 has_id;
	__u8 reserved[6];
	__u8 id[NCCL_ID_BYTES];
};
_Static_assert(sizeof(struct nccl_init) == 184, "nccl_init");

struct nccl_ready { /* it returned, or the next call shows that it did */
	struct wire_hdr hdr;
	__u64 comm, begin_ns, parent;
	__s32 nranks, rank, result;
	__u8 how;
	__u8 returned; /* 1: seen by a return probe; 0: by the thread's next call, ts is later than the return */
	__u8 has_id;
	__u8 reserved[1];
	__u8 id[NCCL_ID_BYTES];
};
_Static_assert(sizeof(struct nccl_ready) == 192, "nccl_ready");

struct nccl_group {
	struct wire_hdr hdr;
	__u32 end;   /* 0 GroupStart, 1 GroupEnd */
	__s32 depth; /* before the call */
};

struct nccl_signal {
	struct wire_hdr hdr;
	__u64 comm, stream, count; /* elements put, or descriptors waited for */
	__s32 peer, dtype;         /* -1 none */
	__u32 what;                /* enum nccl_signal_what */
	__u32 reserved;
};
_Static_assert(sizeof(struct nccl_signal) == 64, "nccl_signal");

struct nccl_gone {
	struct wire_hdr hdr;
	__u64 comm;
	__u32 how; /* enum comm_gone_kind */
	__u32 reserved;
};

#endif
