/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto.h - inside of the perfetto sink, shared by its files: tracks (perfetto_track.c), calls and operations
 * (perfetto_ops.c) and the sink itself (perfetto.c).
 */
#ifndef RANKTRACE_PERFETTO_H
#define RANKTRACE_PERFETTO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* All keys here are whole 8-byte words; uthash's own hash takes them byte by byte. */
#define HASH_FUNCTION(key, bytes, value) ((value) = words_hash(key, bytes))
#include <uthash.h>

#include "sink/op_size.h"
#include "sink/perfetto/perfetto_file.h"
#include "sink/sink.h"

static inline unsigned int words_hash(const void *key, size_t bytes)
{
	const char *at = key;
	uint64_t h = 0, word;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		h = (h ^ word ^ h >> 32) * 0x9e3779b97f4a7c15ull;
	}
	return (unsigned int)(h >> 32);
}

enum { UUID_RANKTRACE = 1, UUID_LOST, UUID_FIRST };

enum track_kind {
	TRACK_KIND_PROCESS,
	TRACK_KIND_THREAD,
	TRACK_KIND_STATE,
	TRACK_KIND_BLOCKED,
	TRACK_KIND_FINDINGS,
	TRACK_KIND_SEAT, /* one GPU of a process that is several ranks */
	TRACK_KIND_COMM,
	TRACK_KIND_STREAM,
	TRACK_KIND_STREAM_NUMBER, /* never drawn: held_value is the number, or of a process its last */
	TRACK_KIND_SPANS,
	TRACK_KIND_COUNTER,
	TRACK_KIND_RANKTRACE,
	TRACK_KIND_MACHINE,
};

struct track_key {                      /* what stands for one track; unused parts zero */
	uint32_t kind, node, tgid, tid; /* node: the host's number; tgid: or an index there */
	uint64_t a, b, c; /* ids of the kind: address and hash of a communicator, stream, address of the file's copy of
			     a name */
};

#define LANE_DEPTH 16 /* slices open inside each other on one lane */

struct lane { /* a track of its own in the file; those of one name are drawn as rows of one track */
	uint64_t uuid, last_begin_ns;
	uint64_t ends_ns[LANE_DEPTH]; /* of the slices still open at last_begin_ns, outermost first */
	int depth;
};

struct track {
	struct track_key key;
	uint64_t parent;
	char *name;
	struct lane *lanes;
	int n_lanes;
	uint64_t busy_until_ns;   /* of a stream: the newest end of its operations */
	uint64_t held_ns;         /* of a counter: its first value, not written while all are alike; 0 none yet */
	int64_t held_value;       /* of a communicator: what its name says of it */
	struct step_clock *steps; /* of iterations */
	UT_hash_handle hh;
};

struct call_key {
	uint32_t tid, node;
	uint64_t ts_ns;
};

struct pending_call { /* an API call whose operation has not been drawn */
	struct call_key key;
	uint64_t next_ns; /* of its thread's next event; 0 none yet */
	enum op_kind op;
	struct track *track;   /* of its thread */
	struct thread *thread; /* its newest call is this one; NULL: it went on */
	UT_hash_handle hh;
};

struct thread_key {
	uint32_t node, tid;
};

struct thread { /* what one thread is in the middle of */
	struct thread_key key;
	uint32_t tid;
	uint64_t proc;
	struct track *track, *state; /* NULL: nothing was drawn on it yet */
	struct pending_call *last_call;
	uint64_t sync_begin_ns, init_begin_ns, group_begin_ns, call_begin_ns; /* 0: not in it */
	uint64_t group_end_ns;                   /* its outermost GroupEnd was called, and is not drawn yet; 0 */
	const char *call_name;                   /* the file's own */
	uint64_t blocked_begin_ns, blocked_uuid; /* D state drawn as begun, its end not known yet; 0 none */
	enum sync_kind sync_kind;
	enum comm_init_kind init_kind;
	int group_depth;
	UT_hash_handle hh;
};

struct drawn_op { /* copy of what is shown of a struct op */
	struct track *stream;
	struct drawn_op *later;          /* of those drawn with it, while they are drawn */
	uint64_t thread_uuid, lane_uuid; /* thread_uuid 0: the call was not seen */
	uint64_t begin_ns, end_ns, call_ns, call_next_ns, end_error_ns, count, seq, comm_hash;
	uint64_t process_group_seq;       /* if in_process_group */
	uint64_t enqueue_ns, transfer_ns; /* transfer_ns: the last rank had arrived then; 0 not known */
	int rank, nranks, last_rank;      /* last_rank: who arrived last; -1 not known */
	uint32_t node;
	struct op_net net;
	enum op_kind kind;
	int dtype, root, peer;
	bool open, from_attach, cut, graph, in_process_group;
	bool all_seen; /* every rank of the communicator is traced */
};

struct gather_key { /* P2P: from and to are ranks, else -1 */
	uint64_t hash, seq;
	int32_t space, from, to, reserved;
};

#define GATHER_SIZES 21 /* a communicator has 2^20 ranks at most */

struct gather { /* operations of one (communicator, sequence) that wait for their peers' */
	struct gather_key key;
	struct gather *older, *newer;
	uint64_t born_ns;
	int n, n_expected, size; /* size: places in ops, as a power of two */
	UT_hash_handle hh;
	struct drawn_op ops[];
};

struct perfetto_sink {
	struct sink base;
	struct trace_file file;
	bool started, lost_drawn;
	uint64_t start_ns;
	uint64_t next_uuid, next_flow;
	struct track *tracks;
	struct thread *threads;
	struct pending_call *calls;
	struct gather *gathers, *oldest, *newest;
	size_t n_held;                      /* operations in gathers */
	struct gather *spare[GATHER_SIZES]; /* used up, to be used again, through `newer`; by size */
	size_t n_spare;                     /* places for operations in those */
	struct incident *findings;          /* those that are open, as last reported */
	size_t n_findings;
	char call_names[OP_KIND_MAX][24]; /* "ncclAllReduce" */
};

/* perfetto_track.c. All return NULL or 0 without memory, which drops what was to be drawn. */
struct track *track_get(struct perfetto_sink *p, struct track_key key, uint64_t parent, const char *name);
struct track *track_find(struct perfetto_sink *p, const struct track_key *key); /* NULL none */
void descriptor_write(struct perfetto_sink *p, uint64_t uuid, uint64_t parent, const char *name, bool counter);
void global_tracks_write(struct perfetto_sink *p);
/* `proc`: proc_key(). */
uint64_t process_uuid(struct perfetto_sink *p, const struct model *m, uint64_t proc);
/* Writes the process' name again when it says more now (the GPU becomes known with its first communicator). */
void process_rename(struct perfetto_sink *p, const struct model *m, uint64_t proc);
/* A rank has its track from the first record on; a child or helper, once there is something to draw. */
void process_seen(struct perfetto_sink *p, const struct model *m, uint64_t proc);
uint64_t thread_uuid(struct perfetto_sink *p, const struct model *m, uint64_t proc, uint32_t tid);
/* The thread's track, not yet in the file; its uuid: written at the first question. */
struct track *thread_track(struct perfetto_sink *p, struct thread *t);
uint64_t thread_track_uuid(struct perfetto_sink *p, const struct model *m, struct track *t);
void thread_rename(struct perfetto_sink *p, uint64_t proc, uint32_t tid, const char *name);
/* Track of its own for one thread or process; one track for each name. */
struct track *thread_child_track(struct perfetto_sink *p, const struct model *m, enum track_kind kind, uint64_t proc,
				 uint32_t tid, const char *name);
struct track *process_child_track(struct perfetto_sink *p, const struct model *m, enum track_kind kind, uint64_t proc,
				  const char *name);
/* The same of a member's GPU, where its process is several ranks. */
struct track *seat_child_track(struct perfetto_sink *p, const struct model *m, enum track_kind kind,
			       const struct member *mb, const char *name);
/* What the ranks' communicators are for becomes known with their use. */
void comms_rename(struct perfetto_sink *p, const struct model *m);
struct track *stream_track(struct perfetto_sink *p, const struct model *m, const struct op *op);
void tracks_free(struct perfetto_sink *p);

/* perfetto_lane.c */
struct lane *lane_add(struct perfetto_sink *p, struct track *t);
/* Lane 0's uuid. */
uint64_t track_uuid(struct perfetto_sink *p, struct track *t);
/* Lane of at most `lanes_max` on which the slice overlaps no other; made when there is none. When that is all used
 * up, one in which it nests; when there is no such either, the slice is shortened to fit lane 0 and *ret_cut set. */
uint64_t track_lane(struct perfetto_sink *p, struct track *t, int lanes_max, uint64_t *begin_ns, uint64_t *end_ns,
		    bool *ret_cut);

/* perfetto_finding.c. 0 or -ENOMEM. */
int finding_add(struct perfetto_sink *p, const struct incident *i, const struct model *m);
void findings_free(struct perfetto_sink *p);
void findings_finish(struct perfetto_sink *p, const struct model *m); /* those that are still open */

/* perfetto_gpu.c: GPUs, pressure and the kernel log. */
void machine_event(struct perfetto_sink *p, const struct event *e, const struct model *m);
/* A value of a counter, whose track is written once two values differ: a constant line says nothing. `parent`: its
 * track then. */
void counter_put(struct perfetto_sink *p, struct track *t, struct track *parent, uint64_t ts_ns, int64_t value);
/* A counter of one part of the machine, all of whose tracks lie in `group`; `index` distinguishes parts. */
void machine_counter_draw(struct perfetto_sink *p, uint64_t part, const char *group, const char *name, uint64_t ts_ns,
			  int64_t value);

/* perfetto_port.c: ports of RDMA devices. */
void port_event_draw(struct perfetto_sink *p, const struct event *e, const struct model *m);

/* perfetto_tcp.c: what goes between two ranks. */
void tcp_event_draw(struct perfetto_sink *p, const struct event *e, const struct model *m);

/* perfetto_thread.c. 0 or -ENOMEM. */
int thread_event(struct perfetto_sink *p, const struct event *e, const struct model *m);
void thread_probes_changed(struct perfetto_sink *p, const struct event *e, const struct model *m); /* EV_TIER */
void thread_probes_shed(struct perfetto_sink *p, const struct event *e, const struct model *m);    /* EV_BUDGET */
void threads_finish(struct perfetto_sink *p, const struct model *m);
void threads_free(struct perfetto_sink *p);

/* perfetto_step.c: the operation may begin an iteration of its rank; the one before is drawn then. */
void step_add(struct perfetto_sink *p, const struct op *op, const struct model *m);
/* A step that the model knows with its phases. */
void step_done_draw(struct perfetto_sink *p, const struct step_done *s, const struct model *m);
/* A collection of garbage that is over, on a track of its process. */
void collection_draw(struct perfetto_sink *p, const struct event *e, const struct model *m);
void steps_finish(struct perfetto_sink *p); /* what is held of a clock that has not broken */

/* perfetto_call.c. 0 or -ENOMEM. */
extern const char NCCL_CATEGORY[], CALL_END_BOUND[];
int call_add(struct perfetto_sink *p, struct thread *t, const struct event *e);
/* The thread did something else at `ts_ns`: its last call was over by then. */
void call_bound(struct thread *t, uint64_t ts_ns);
void call_let_go(struct thread *t); /* nothing more will be known of its last call */
struct pending_call *call_of(struct perfetto_sink *p, const struct op *op); /* NULL: not seen */
void call_free(struct perfetto_sink *p, struct pending_call *c);
/* Where a call that only shows as begun is drawn as over; 0: too uncertain for a length. */
uint64_t call_end_ns(uint64_t begin_ns, uint64_t next_ns);
/* `next_ns`: of the thread's next event, 0 not known. */
void call_draw(struct perfetto_sink *p, uint64_t track, enum op_kind op, uint64_t begin_ns, uint64_t next_ns,
	       uint64_t flow, bool captured);
void captured_draw(struct perfetto_sink *p, const struct op *op, const struct model *m);
void calls_left_draw(struct perfetto_sink *p, const struct model *m); /* those whose operation never came */
void calls_free(struct perfetto_sink *p);

/* perfetto_op_draw.c: operations that belong together; `ops` is sorted and changed. */
void ops_draw(struct perfetto_sink *p, struct drawn_op *ops, int n);

/* perfetto_ops.c. 0 or -ENOMEM. */
int op_add(struct perfetto_sink *p, const struct op *op, const struct model *m);
void ops_age(struct perfetto_sink *p, uint64_t now_ns); /* draw what waited too long for its peers' */
/* Draw what still waits: operations whose peers' never came, calls whose operation never came. */
void ops_finish(struct perfetto_sink *p, const struct model *m);
void ops_free(struct perfetto_sink *p);

#endif
