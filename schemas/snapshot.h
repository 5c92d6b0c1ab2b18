/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.h - bodies of RECORD_SNAPSHOT: the model's state as of one record, so that a recording may begin in the
 * middle of a session. The model writes and takes these itself: a field is what the field of that name in user/model
 * means. Whose it is stands in the record's header (tgid, tid). Of a pointer its identity is written: a communicator by
 * one of its members (tgid, addr), a stream by (handle, lane), an operation by its id, captured work by its number
 * here.
 */
#ifndef RANKTRACE_SNAPSHOT_H
#define RANKTRACE_SNAPSHOT_H

#include <linux/types.h>

enum snapshot_what {
	SNAPSHOT_SESSION = 1,
	SNAPSHOT_PROC,
	SNAPSHOT_TASK,
	SNAPSHOT_MEMBER,
	SNAPSHOT_P2P,
	SNAPSHOT_COMM,
	SNAPSHOT_COMM_INIT,
	SNAPSHOT_CALLER,
	SNAPSHOT_WORK,
	SNAPSHOT_CAPTURED,
	SNAPSHOT_GRAPH,
	SNAPSHOT_CAPTURE,
	SNAPSHOT_STREAM,
	SNAPSHOT_OP,
	SNAPSHOT_ITEM,
	SNAPSHOT_CUDA_EVENT,
	SNAPSHOT_CALL,
	SNAPSHOT_END,
	SNAPSHOT_GPU,
	SNAPSHOT_QP,
	SNAPSHOT_RANK_CLOCK,
	SNAPSHOT_WHAT_MAX,
};

#define SNAPSHOT_TEXTS 8 /* zero-terminated texts behind a body, at most */
#define SNAPSHOT_SPACES 5
#define SNAPSHOT_COUNTED 5
#define SNAPSHOT_CALL_CLASSES 8 /* driver calls; as many are used as there are classes */
#define SNAPSHOT_SPANS 32
#define SNAPSHOT_DISK_LOOKS 3
#define SNAPSHOT_PER_RECORD 64 /* things of an array in one record, at most */

struct snapshot_session {
	__u64 next_op_id, next_group, next_capture, ops_kept;
	__u64 lost, last_loss_ns, n_ops, n_ops_ended, swept_ns, realtime_offset_ns;
};

struct snapshot_steps {
	__u64 period_ops, n, phase, role, checked_n, found_n, from_n, searched_n, base, median_bits;
};
struct snapshot_span {
	__u64 ts_ns, gpu_ns;
};

struct snapshot_disk_looks {
	__u64 at_ns[SNAPSHOT_DISK_LOOKS], seen_ns;
	__u32 seen_tid, reserved;
};

struct snapshot_proc { /* behind its RECORD_PROC; texts: the CUDA call that failed, its error */
	__u64 first_ns, seen_ns, exit_ns, last_call_ns, attached_ns, last_sync_ns, n_ops;
	__u64 io_bytes, prev_io_bytes, io_seen_ns, prev_io_seen_ns;
	__u64 call_ns[SNAPSHOT_CALL_CLASSES];
	__u64 cuda_error_ns, throttled_ns, throttle_seen_ns, prev_throttled_ns, prev_throttle_seen_ns;
	__u64 quota_bits; /* as median_bits: an IEEE 754 double's */
	struct snapshot_steps steps;
	__u64 n_gpu_spans;
	struct snapshot_span gpu_spans[SNAPSHOT_SPANS];
	__s32 exit_code, exit_signal, cuda_error;
	__u8 dead;
	__u8 shed; /* probes it has no more, a bit for each group (probing.h) */
	__u8 warm; /* its first steps are over */
	__u8 reserved;
	struct snapshot_disk_looks disk; /* not in old recordings */
};

struct snapshot_rank_clock { /* behind the operations of its process, whose ranks several threads call for */
	__u64 n_ops;         /* called for the GPU `device` of the process, as far as counted */
	struct snapshot_steps steps;
	__s32 device;
	__u32 reserved;
};

/* Texts: name, preempted by, kernel stack, user stack, wait channel, system call, file, mount. */
struct snapshot_task {
	__u64 since_ns, seen_ns, run_ns, wait_ns, sleep_ns, disk_ns, stopped_ns, prev_run_ns, prev_seen_ns,
		prev_wait_ns;
	__u64 preempted, prev_preempted, blocked_since_ns, at_ns, group_begin_ns;
	__u32 state;
	__u8 blocked, mmap_lock_held, stalled, frozen;
};

struct snapshot_samples {
	__u64 n, seen_ns, since_ns, counters[SNAPSHOT_COUNTED];
	__s32 async_result, init_state;
	__u8 counted, moved, aborted;
	__u8 reserved[5];
};

struct snapshot_stood { /* of the samples before */
	__u64 after_ns, stood_ns, stood_seq;
};

struct snapshot_member {
	__u64 addr, hash, born_ns, base_seq, last_call_ns, checked_ns, n_children;
	__u64 next_seq[SNAPSHOT_SPACES], entered_seq[SNAPSHOT_SPACES];
	struct snapshot_samples samples;
	__s32 rank, nranks, device;
	__u8 from_init, seq_known, blind;
	__u8 reserved;
	struct snapshot_stood stood; /* not in old recordings */
};

struct snapshot_p2p {
	__u64 addr;
	__u64 peer, next[2], entered[2];
};

enum snapshot_bucket_kind { SNAPSHOT_LAG = 0, SNAPSHOT_DURATION = 1, SNAPSHOT_HABIT = 2 };

struct snapshot_bucket {
	__u16 kind, bucket; /* of enum snapshot_bucket_kind */
	__u32 n;
};

enum snapshot_warm { SNAPSHOT_WARM = 1, SNAPSHOT_HABITUAL = 2 };

struct snapshot_comm { /* then its buckets that are not empty; text: its process group */
	__u64 addr, first_ns, n_complete, n_ended, n_lag, n_duration, idle_ns, highest_seq[SNAPSHOT_SPACES];
	__u32 warm, n_buckets; /* warm: of enum snapshot_warm */
	struct snapshot_bucket buckets[];
};

struct snapshot_comm_init { /* callers follow; parent 0: none */
	__u64 parent, id_hash, nth, first_ns, last_ns;
	__s32 kind, nranks, n_called;
	__u32 reserved;
};

struct snapshot_caller {
	__u64 since_ns, done_ns, addr;
	__s32 rank;
	__u8 grouped, async;
	__u8 reserved[2];
};

struct snapshot_work {
	__u64 work, begin_ns, end_ns;
	__u32 n_lanes, cut;
};

struct snapshot_captured {
	__u64 comm, count, group, ns, dep_n;
	__s32 kind, dtype, redop, root, peer, lane, dep_lane;
	__u32 reserved;
};

struct snapshot_captured_list {
	__u64 work, n;
	struct snapshot_captured items[];
};

struct snapshot_graph {
	__u64 handle, work;
	__u32 is_exec, reserved;
};
struct snapshot_capture {
	__u64 id, work;
};

struct snapshot_stream {
	__u64 handle, pos, done_pos, lower_ns, polled_pos, polled_ns, capture_id;
	__s32 lane, captured_lane;
};

enum snapshot_op_flag {
	SNAPSHOT_OP_FROM_ATTACH = 1,
	SNAPSHOT_OP_GROUPED = 2,
	SNAPSHOT_OP_PENDING = 4,
	SNAPSHOT_OP_QUEUED_OUT = 8,
	SNAPSHOT_OP_COMPLETE = 16,
	SNAPSHOT_OP_IN_PROCESS_GROUP = 32,
};

struct snapshot_op {
	__u64 addr, id, count, seq, stream, call_ns, enqueue_ns, start_bound_ns, end_ns, end_error_ns, stream_pos, nth;
	__u64 arrive_bound_ns, not_done_ns, seq_checked_ns, graph_exec, gpu_ns, sync_ns, group;
	__s32 kind, dtype, redop, root, peer;
	__u32 graph_i, graph_n, flags;
	__u64 process_group_seq; /* behind the others: older ones lack it */
};

struct snapshot_item {
	__u64 stream, pos, ns, op_id, dep, dep_pos;
	__s32 lane, dep_lane;
	__u32 has_dep, reserved;
};

struct snapshot_cuda_event {
	__u64 handle, stream, pos, capture_id, lane_n, ns, n_ops, op_id, tight_pos;
	__s32 stream_lane, lane;
};

struct snapshot_call { /* text: name */
	__u64 handle, begin_ns, stream, pos;
	__s32 lane;
	__u8 is_sync, kind, has_stream;
	__u8 reserved;
};

struct snapshot_gpu { /* texts: name, UUID */
	__u64 pci, answer_ns, driver_ns;
	__u32 index, pcie_width_max, pcie_gen_max, power_limit_mw, n_nvlinks, answer, driver, n_pids;
	__u32 pids[32];
};

struct snapshot_qp { /* tgid: whose; texts: device, name of its first error, of its newest asynchronous event */
	__u64 context, first_ns, state_ns, gone_ns, totals_ns, error_ns, async_ns;
	__u64 totals[12]; /* struct qp_counts of tracers/rdma/wire/qp.h */
	__u32 qpn, dest_qpn, error_status, first_status;
	__u16 dlid;
	__u8 state, type, port, gone, has_gid, from_start, cut, closing, failed;
	__u8 reserved[5];
	__u8 gid[16];
};
_Static_assert(sizeof(struct snapshot_qp) == 200, "snapshot_qp");

#endif
