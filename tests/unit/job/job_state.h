/* SPDX-License-Identifier: Apache-2.0
 *
 * job_state.h - the inside of the scripted job: hosts, streams, what the scheduler would have seen. For job_*.c only.
 */
#ifndef RANKTRACE_JOB_STATE_H
#define RANKTRACE_JOB_STATE_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/job/job_script.h"

#define RANKS_MAX 64
#define COMMS_MAX 64
#define HOST_CALL_NS 20000
#define XFER_NS 500000
#define WATCH_NS (100 * MSEC)

enum ins_kind { INS_COMPUTE, INS_COLL, INS_SEND, INS_RECV, INS_SYNC, INS_GROUP, INS_GROUP_END, INS_STEP };

struct ins {
	enum ins_kind kind;
	int comm, peer;
	uint64_t count;
	double s;
};
struct comm_def {
	uint64_t hash;
	int n, ranks[RANKS_MAX];
	uint64_t seq[RANKS_MAX];
	uint64_t p2p[RANKS_MAX][RANKS_MAX][2];
};
struct match {
	int comm, n, need;
	enum op_kind kind;
	uint64_t seq;
	int a, b;
	uint64_t ready_ns, end_ns;
};
struct item {
	bool is_op, ready, known;
	size_t match;
	uint64_t enq_ns, dur_ns, end_ns, handle, cuda_event_ns;
};
struct segment {
	uint64_t begin_ns;
	enum task_state state;
	bool io;
};

struct host {
	struct ins *code;
	size_t n_code, pc;
	int step;
	uint64_t now_ns;
	struct item *items;
	size_t n_items, cap_items, head;
	uint64_t head_end_ns;
	struct segment *segs;
	size_t n_segs, cap_segs;
	bool in_group, stuck, killed, in_sync, lose;
	size_t group_from;
	uint64_t stop_ns, resume_ns, coll_count;
	bool shown[COMMS_MAX];
	double slow;
};

struct job_state {
	struct comm_def comms[COMMS_MAX];
	int n_comms, generation;
	int tp_of[RANKS_MAX], dp_of[RANKS_MAX], pp_of[RANKS_MAX], world;
	struct host hosts[RANKS_MAX];
	struct match *matches;
	size_t n_matches, cap_matches;
	uint64_t rng;
};

#define PUSH(base, n, cap) \
	({ \
		if ((n) == (cap)) { \
			(cap) = (cap) ? 2 * (cap) : 64; \
			(base) = realloc((base), (cap) * sizeof(*(base))); \
			assert(base); \
		} \
		memset(&(base)[n], 0, sizeof(*(base))); \
		&(base)[(n)++]; \
	})

struct event *emit(struct job *j, int rank, uint64_t ts, enum event_kind kind);

double uneven_work(const struct job *j, int r, int step); /* job_uneven.c: relative compute, no fault */

/* job_program.c */
void layout(struct job *j);
void program(struct job *j, int r);
const struct fault *fault_at(struct job *j, int r, int step, enum fault_kind kind);
const struct ins *ins_now(struct job *j, int r);

/* job_trace.c: events that are made when the run is over, and the thread states they are made from */
void segment(struct host *h, uint64_t ns, enum task_state state, bool io);
void announce(struct job *j);
void trace_finish(struct job *j, uint64_t end_ns);

#endif
