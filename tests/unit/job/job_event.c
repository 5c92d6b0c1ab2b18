/* SPDX-License-Identifier: Apache-2.0
 *
 * job_event.c - events of a rank's main thread, for tests that write their own streams; see job_script.h.
 */
#include "tests/unit/job/job_script.h"

struct event job_event(enum event_kind kind, int rank, uint64_t ts_ns)
{
	return (struct event){ .kind = kind, .tgid = job_pid(rank), .tid = job_pid(rank), .ts_ns = ts_ns };
}

struct event job_proc_event(int rank, int ranks, uint64_t ts_ns)
{
	struct event e = job_event(EV_PROC, rank, ts_ns);

	e.proc = (typeof(e.proc)){ .start_ns = 1,
				   .rank = rank,
				   .local_rank = rank,
				   .world_size = ranks,
				   .job = "job",
				   .name = "train",
				   .container = "",
				   .pod = "" };
	return e;
}

struct event job_call_event(int rank, enum op_kind kind, uint64_t comm, uint64_t stream, uint64_t count)
{
	struct event e = job_event(EV_OP, rank, 0);

	e.op.addr = comm;
	e.op.stream = stream;
	e.op.count = count;
	e.op.op = kind;
	e.op.redop = e.op.root = e.op.peer = -1;
	return e;
}

struct event job_wait_event(int rank, uint64_t stream)
{
	struct event e = job_event(EV_SYNC_BEGIN, rank, 0);

	e.sync.kind = SYNC_STREAM;
	e.sync.handle = stream;
	return e;
}

struct event job_ready_event(int rank, int ranks, uint64_t comm, uint64_t hash)
{
	struct event e = job_event(EV_COMM_READY, rank, 0);

	e.comm_init.addr = comm;
	e.comm_init.id_hash = hash;
	e.comm_init.rank = rank;
	e.comm_init.nranks = ranks;
	return e;
}

struct event job_seen_event(int rank, int ranks, uint64_t comm, uint64_t hash)
{
	struct event e = job_event(EV_COMM_SEEN, rank, 0);

	e.comm_seen.addr = comm;
	e.comm_seen.hash = hash;
	e.comm_seen.rank = rank;
	e.comm_seen.nranks = ranks;
	return e;
}
