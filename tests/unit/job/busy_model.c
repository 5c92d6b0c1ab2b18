/* SPDX-License-Identifier: Apache-2.0
 *
 * busy_model.c - see busy_model.h.
 */
#include "tests/unit/job/busy_model.h"

#include <assert.h>
#include <string.h>

#include "tests/unit/job/job_script.h"

enum { COMM = 7, OTHER = 8, SEEN = 9, STREAM = 100, SIDE = 200, EVENT = 0xe0, GRAPH = 50, EXEC = 60, CHILD = 5000 };
enum { THREADED = 6000, OF_THREADS = 0x600 };

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert(model_apply(m, &e) == 0);
}

static void session_begins(void)
{
	struct event e = { .kind = EV_START };

	e.start.realtime_offset_ns = 1000;
	e.start.dstate_limit_ns = 11;
	e.start.hang_floor_ns = 1600 * MSEC;
	e.start.busy_limit_ns = 13;
	e.start.host = "node-1";
	e.start.by_session = true;
	give(e);
	e = (struct event){ .kind = EV_LOSS };
	e.loss.lost = 5;
	e.loss.class = LOSS_NORMAL;
	give(e);
	e = (struct event){ .kind = EV_CLOCK };
	e.clock.realtime_offset_ns = 2000;
	give(e);
}

static void ranks_appear(void)
{
	struct event e;

	for (int r = 0; r < 3; r++) {
		e = job_proc_event(r, 3, 0);
		e.proc.start_ns = 40 + r;
		e.proc.parent_tgid = 17;
		e.proc.ns_pid = 3 + r;
		e.proc.netns = 4026531840;
		e.proc.pod = "uid";
		e.proc.pod_name = "train-0";
		e.proc.namespace = "team";
		e.proc.container = "0123456789ab";
		e.proc.cgroup = "/a/b";
		e.proc.boot_id = "boot";
		e.proc.slurm_job = "77";
		e.proc.slurm_step = "0";
		give(e);
	}
	e = job_event(EV_FORK, 0, 0);
	e.fork.child_tgid = e.fork.child_tid = CHILD;
	give(e);
}

static void comm_made(int r, uint64_t addr)
{
	struct event e = job_event(EV_COMM_READY, r, 0);

	e.comm_init.addr = addr;
	e.comm_init.id_hash = 90 + addr;
	e.comm_init.rank = r;
	e.comm_init.nranks = 2;
	give(e);
	e = job_event(EV_COMM_SEEN, r, 0);
	e.comm_seen.addr = addr;
	e.comm_seen.hash = 90 + addr;
	e.comm_seen.rank = r;
	e.comm_seen.nranks = 2;
	e.comm_seen.device = 4 + r;
	give(e);
}

static void call(int r, uint64_t addr, enum op_kind kind, int depth)
{
	struct event e = job_event(EV_OP, r, 0);

	e.op.addr = addr;
	e.op.stream = STREAM;
	e.op.count = 100 + kind;
	e.op.op = kind;
	e.op.dtype = 7;
	e.op.redop = 2;
	e.op.root = kind == OP_BROADCAST ? 1 : -1;
	e.op.peer = op_kind_p2p(kind) ? 1 - r : -1;
	e.op.group_depth = depth;
	give(e);
}

static void group(int r, enum event_kind kind)
{
	struct event e = job_event(kind, r, 0);

	e.group.depth_before = kind == EV_GROUP_END;
	give(e);
}

static void cuda_event(int r, enum event_kind kind, uint64_t handle, uint64_t stream, int result)
{
	struct event e = job_event(kind, r, 0);

	e.cuda_event.handle = handle;
	e.cuda_event.stream = stream;
	e.cuda_event.result = result;
	e.ts_ns = now += MSEC / 10;
	assert(model_apply(m, &e) == 0);
}

static void sync_of(int r, enum event_kind kind, enum sync_kind what, uint64_t handle)
{
	struct event e = job_event(kind, r, 0);

	e.sync.kind = what;
	e.sync.handle = handle;
	e.sync.begin_ns = now;
	give(e);
}

static void capture(int r, enum capture_kind kind, uint64_t stream, uint64_t exec)
{
	struct event e = job_event(EV_CAPTURE, r, 0);

	e.capture.kind = kind;
	e.capture.stream = stream;
	e.capture.graph = kind == CAPTURE_LAUNCH || kind == CAPTURE_BEGIN ? 0 : GRAPH;
	e.capture.exec = exec;
	give(e);
}

/* Two branches, the second behind a part of the first. */
static void graph_is_captured(void)
{
	capture(0, CAPTURE_BEGIN, STREAM, 0);
	call(0, COMM, OP_ALLREDUCE, 0);
	cuda_event(0, EV_CUDA_EVENT, EVENT, STREAM, 0);
	cuda_event(0, EV_CUDA_EVENT_WAIT, EVENT, SIDE, 0);
	group(0, EV_GROUP_START);
	call(0, COMM, OP_SEND, 1);
	call(0, COMM, OP_RECV, 1);
	group(0, EV_GROUP_END);
	cuda_event(0, EV_CUDA_EVENT, EVENT, SIDE, 0);
	cuda_event(0, EV_CUDA_EVENT_WAIT, EVENT, STREAM, 0);
	capture(0, CAPTURE_END, STREAM, 0);
	capture(0, CAPTURE_INSTANTIATE, 0, EXEC);
	capture(0, CAPTURE_LAUNCH, STREAM, EXEC);
}

static void calls_are_under_way(void)
{
	struct event e;

	for (int i = 0; i < 6; i++)
		for (int r = 0; r < 2; r++) {
			call(r, COMM, i % 2 ? OP_ALLREDUCE : OP_BROADCAST, 0);
			cuda_event(r, EV_CUDA_EVENT, EVENT + 2 + i, STREAM, 0);
			sync_of(r, EV_SYNC_END, SYNC_STREAM, STREAM);
		}
	cuda_event(0, EV_CUDA_EVENT, EVENT + 20, STREAM, 0);
	cuda_event(0, EV_CUDA_EVENT, EVENT + 21, STREAM, 0);
	e = job_event(EV_ELAPSED, 0, 0);
	e.elapsed.start = EVENT + 20;
	e.elapsed.end = EVENT + 21;
	e.elapsed.gpu_ns = 12345;
	give(e);
	call(0, COMM, OP_ALLTOALL, 0);
	call(0, COMM, OP_GATHER, 0);
	call(0, COMM, OP_SCATTER, 0);
	call(0, OTHER, OP_SEND, 0);
	cuda_event(0, EV_CUDA_EVENT, EVENT, STREAM, 0);
	cuda_event(0, EV_CUDA_EVENT_WAIT, EVENT, SIDE, 0);
	cuda_event(0, EV_CUDA_EVENT_QUERY, EVENT, 0, CUDA_NOT_READY);
	cuda_event(0, EV_STREAM_QUERY, 0, STREAM, CUDA_NOT_READY);
}

static void waits_go_on(void)
{
	sync_of(0, EV_SYNC_BEGIN, SYNC_EVENT, EVENT);
	sync_of(1, EV_SYNC_BEGIN, SYNC_STREAM, STREAM);
}

static void captures_go_on(void)
{
	struct event e = job_event(EV_CAPTURE, 0, 0);

	e.tid += 3;
	e.capture.kind = CAPTURE_BEGIN;
	e.capture.stream = 300;
	give(e);
	cuda_event(0, EV_CUDA_EVENT, EVENT + 40, 300, 0);
	cuda_event(0, EV_CUDA_EVENT_WAIT, EVENT + 40, 301, 0);
	e.capture.stream = 310;
	e.tid++;
	give(e);
}

static void group_is_open(void)
{
	struct event e = job_event(EV_GROUP_START, 1, 0);

	e.tid += 5;
	give(e);
	e = job_event(EV_OP, 1, 0);
	e.tid += 5;
	e.op.addr = OTHER;
	e.op.count = 3;
	e.op.op = OP_ALLREDUCE;
	e.op.root = e.op.peer = -1;
	e.op.group_depth = 1;
	give(e);
}

static void calls_take_long_or_fail(void)
{
	struct event e = job_event(EV_CALL, 1, 0);

	for (int class = 0; class < CALL_CLASS_MAX; class ++) {
		e.kind = EV_CALL;
		e.call.class = class;
		e.call.name = "cuMemAlloc";
		e.call.begin_ns = now - class;
		e.tid = job_pid(1) + 9;
		give(e);
	}
	e.kind = EV_CALL_OPEN;
	give(e);
	e = job_event(EV_CUDA_ERROR, 1, 0);
	e.tid += 8;
	e.cuda_error.call = "cuStreamSynchronize";
	e.cuda_error.error = "CUDA_ERROR_ILLEGAL_ADDRESS";
	e.cuda_error.result = 700;
	give(e);
}

static void threads_are_scanned(void)
{
	struct event e = job_event(EV_THREAD, 1, 0);

	e.thread.name = "python";
	give(e);
	for (int i = 0; i < 2; i++) {
		e = job_event(EV_TASK, 1, 0);
		e.task.state = TASK_SLEEP;
		e.task.since_ns = now - 7;
		e.task.run_ns = 100 + 10 * i;
		e.task.wait_ns = 200 + 20 * i;
		e.task.sleep_ns = 300;
		e.task.disk_ns = 400;
		e.task.stopped_ns = 500;
		e.task.preempted = 6 + i;
		e.task.preempted_by = "kswapd0";
		e.task.io_bytes = 700 + i;
		give(e);
		e = job_event(EV_THROTTLE, 1, 0);
		e.throttle.throttled_ns = 800 + i;
		e.throttle.quota_millicores = 1500;
		give(e);
	}
	e = job_event(EV_TASK_AT, 1, 0);
	e.task_at.wchan = "futex_wait";
	e.task_at.syscall = "futex";
	e.task_at.file = "/dev/x";
	give(e);
	e = job_event(EV_BLOCKED, 1, 0);
	e.tid += 2;
	e.blocked.begin_ns = now - 50;
	e.blocked.kernel_stack = "a\nb";
	e.blocked.user_stack = "c";
	e.blocked.wchan = "nfs_wait";
	e.blocked.syscall = "read";
	e.blocked.file = "/data";
	e.blocked.mmap_lock_held = true;
	give(e);
	e = job_event(EV_STACK, 1, 0);
	e.stack = (struct stack_event){ .sampled = true,
					.wait = "w",
					.file = "f",
					.kernel = "k",
					.frames = "fr",
					.python = "p",
					.native = "n",
					.end = "e" };
	give(e);
	e = job_event(EV_WAIT, 1, 0);
	e.wait = (struct waits_for){ .ns = now,
				     .kind = WAITS_SOCKET,
				     .act = WAITS_TO_READ,
				     .flags = WAITS_STANDS,
				     .pid = 5,
				     .what = "10.0.0.7:443",
				     .who = "",
				     .activity = "" };
	give(e);
}

static void ranks_are_sampled(void)
{
	static const int counts[] = { 3, 3, 5, 6, 6 };

	for (int i = 0; i < 5; i++)
		for (int r = 0; r < 2; r++) {
			struct event e = job_event(EV_COMM_SAMPLE, 2, 0);

			e.comm_sample.comm = SEEN + r;
			e.comm_sample.hash = 99 + r;
			e.comm_sample.nranks = 4;
			e.comm_sample.rank = 2;
			e.comm_sample.device = 6;
			e.comm_sample.n_counters = OP_KINDS_COUNTED;
			for (int k = 0; k < OP_KINDS_COUNTED; k++)
				e.comm_sample.counters[k] = counts[i] + k;
			e.comm_sample.async_result = 7;
			e.comm_sample.init_state = 1;
			e.comm_sample.abort = 1;
			e.ts_ns = now += (1 - r) * 300 * MSEC;
			assert(model_apply(m, &e) == 0);
		}
}

static void communicators_are_made(void)
{
	struct event e = job_event(EV_COMM_INIT, 0, 0);

	e.tid += 6;
	e.comm_init.kind = COMM_INIT_SPLIT;
	e.comm_init.parent_addr = COMM;
	e.comm_init.rank = 0;
	e.comm_init.nranks = -1;
	give(e);
	e = job_event(EV_COMM_INIT, 0, 0);
	e.tid += 7;
	e.comm_init.kind = COMM_INIT_CONFIG;
	e.comm_init.id_hash = 0x5151;
	e.comm_init.rank = 0;
	e.comm_init.nranks = 3;
	give(e);
	e.kind = EV_COMM_READY;
	e.comm_init.addr = 0x77;
	e.comm_init.result = 7; /* in progress */
	give(e);
	e = job_event(EV_GROUP_START, 1, 0);
	e.tid += 6;
	give(e);
	e = job_event(EV_COMM_INIT, 1, 0);
	e.tid += 6;
	e.comm_init.kind = COMM_INIT_CONFIG;
	e.comm_init.id_hash = 0x5151;
	e.comm_init.rank = 1;
	e.comm_init.nranks = 3;
	give(e);
}

static void probes_come_and_go(void)
{
	struct event e = job_event(EV_ATTACH, 1, 0);

	e.attach.group = PROBES_NEEDED;
	give(e);
	e = job_event(EV_BUDGET, 1, 0);
	e.budget.what = BUDGET_SHED;
	e.budget.shed = 1u << PROBES_POLLS;
	give(e);
	e = job_event(EV_EXIT, 0, 0);
	e.tgid = e.tid = CHILD;
	e.exit.last = true;
	e.exit.code = 3;
	e.exit.signal = 6;
	give(e);
}

static void queue_pairs_fail(void)
{
	for (int i = 0; i < 70; i++) { /* more than one batch of them */
		struct event e = job_event(EV_QP, 1, 0);

		e.qp.context = 0x1000;
		e.qp.qpn = 20 + i;
		e.qp.device = "mlx5_0";
		e.qp.now.change = QP_MADE;
		e.qp.now.state = QP_RTS;
		e.qp.now.type = 2;
		e.qp.now.port = 1;
		e.qp.now.dlid = 5 + i;
		e.qp.now.dest_qpn = 21;
		e.qp.now.has_gid = true;
		memset(e.qp.now.gid, 0x40 + i, sizeof(e.qp.now.gid));
		give(e);
		if (i)
			continue;
		e.kind = EV_QP_TOTALS;
		e.qp.totals = (struct qp_totals){ .first_status = 12, .from_start = true, .cut = true };
		memset(&e.qp.totals.n, 0x11, sizeof(e.qp.totals.n));
		give(e);
		e.kind = EV_QP_ERROR;
		e.qp.error.status = 12;
		e.qp.error.name = "transport retry exceeded";
		give(e);
		e.kind = EV_QP_ASYNC;
		e.qp.async.name = "QP fatal error";
		give(e);
		e.kind = EV_QP;
		e.qp.now = (typeof(e.qp.now)){ .change = QP_GONE, .state = QP_ERR };
		give(e);
	}
}

static void gpus_are_asked(void)
{
	struct event e = { .kind = EV_GPU_DEVICE };

	e.gpu_device = (struct gpu_device){ .index = 3,
					    .pci = 0x1300,
					    .pcie_width_max = 16,
					    .pcie_gen_max = 5,
					    .power_limit_mw = 700000,
					    .n_nvlinks = 18 };
	e.gpu_name = "one";
	e.gpu_uuid = "two";
	give(e);
	e = (struct event){ .kind = EV_GPU_PROCS };
	e.gpu_procs.index = 3;
	e.gpu_procs.n = 2;
	e.gpu_procs.pids[0] = 4711;
	e.gpu_procs.pids[1] = 4712;
	give(e);
	e = (struct event){ .kind = EV_GPU_STATE };
	e.gpu_state.index = 3;
	e.gpu_state.answer = GPU_IS_LOST;
	e.gpu_state.since_ns = 9;
	give(e);
	e.gpu_state.index = GPU_INDEX_ALL;
	e.gpu_state.answer = GPU_NO_ANSWER;
	e.gpu_state.since_ns = 8;
	give(e);
}

static void thread_calls(int thread, enum op_kind kind)
{
	struct event e = job_call_event(0, kind, OF_THREADS + thread, STREAM + thread, 64);

	e.tgid = THREADED;
	e.tid = THREADED + 1 + thread;
	give(e);
}

/* Two ranks in one process, a thread each. */
static void threads_are_ranks(void)
{
	for (int r = 0; r < 2; r++) {
		struct event e = job_seen_event(r, 2, OF_THREADS + r, OF_THREADS);

		e.tgid = e.tid = THREADED;
		e.comm_seen.device = r;
		give(e);
	}
	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 4; k++)
			thread_calls((i + k) % 2, k < 2 ? OP_ALLREDUCE : OP_BROADCAST);
		give((struct event){ .kind = EV_TICK });
	}
}

struct model *busy_model_new(void)
{
	now = JOB_T0;
	m = model_new();
	session_begins();
	ranks_appear();
	threads_are_ranks();
	for (int r = 0; r < 2; r++) {
		comm_made(r, COMM);
		comm_made(r, OTHER);
	}
	for (int i = 0; i < 40; i++) { /* a clock, a habit */
		for (int k = 0; k < 3; k++)
			for (int r = 0; r < 2; r++)
				call(r, COMM, k ? OP_ALLREDUCE : OP_BROADCAST, 0);
		for (int r = 0; r < 2; r++)
			sync_of(r, EV_SYNC_END, SYNC_STREAM, STREAM);
		now += 100 * MSEC;
		give((struct event){ .kind = EV_TICK });
		while (model_next_ended(m))
			;
	}
	graph_is_captured();
	calls_are_under_way();
	captures_go_on();
	waits_go_on();
	group_is_open();
	calls_take_long_or_fail();
	threads_are_scanned();
	ranks_are_sampled();
	communicators_are_made();
	probes_come_and_go();
	queue_pairs_fail();
	gpus_are_asked();
	while (model_next_ended(m))
		;
	return m;
}
