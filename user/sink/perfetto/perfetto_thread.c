/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_thread.c - what one thread of the job does, on its own track: calls, groups and waits for the GPU; on tracks
 * beside it, what would not nest with those: the scheduler's view, and D state with its evidence.
 */
#include "sink/perfetto/perfetto.h"
#include "model/storage/storage.h"

#include <errno.h>
#include <stdlib.h>

static const char SYNC[] = "sync", SCHED[] = "sched", GRAPH[] = "graph", CUDA[] = "cuda";

static struct thread *thread_get(struct perfetto_sink *p, const struct event *e)
{
	struct thread_key key = { e->node, e->tid };
	struct thread *t;

	HASH_FIND(hh, p->threads, &key, sizeof(key), t);
	if (t && t->proc != event_proc(e)) { /* its exit was not seen, the number is another's now */
		t->proc = event_proc(e);
		t->track = t->state = NULL;
	}
	if (t || !e->tid)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = key;
	t->tid = e->tid;
	t->proc = event_proc(e);
	HASH_ADD(hh, p->threads, key, sizeof(t->key), t);
	return t;
}

static const char *sync_name(enum sync_kind kind)
{
	static const char *const names[] = {
		[SYNC_STREAM] = "StreamSynchronize",
		[SYNC_EVENT] = "EventSynchronize",
		[SYNC_CONTEXT] = "CtxSynchronize",
		[SYNC_COPY] = "Memcpy",
	};

	return (unsigned int)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "wait";
}

static void slice_left_open(struct perfetto_sink *p, uint64_t track, uint64_t begin_ns, uint64_t end_ns,
			    const char *category, const char *name)
{
	event_open(&p->file, TYPE_SLICE_BEGIN, track, begin_ns, category, name);
	event_interned(&p->file, "end", "unknown");
	event_close(&p->file);
	slice_end(&p->file, track, end_ns > begin_ns ? end_ns : begin_ns);
}

/* GroupEnd, which launches what the group holds, is a call as any other. `next_ns`: of the thread's next event; 0 not
 * known. */
static void group_over(struct perfetto_sink *p, struct thread *t, uint64_t next_ns, const struct model *m)
{
	uint64_t end_ns = call_end_ns(t->group_end_ns, next_ns), track;

	if (!t->group_end_ns)
		return;
	track = thread_track_uuid(p, m, thread_track(p, t));
	event_open(&p->file, TYPE_SLICE_BEGIN, track, t->group_begin_ns, NCCL_CATEGORY, "ncclGroup");
	event_interned(&p->file, "end", end_ns ? CALL_END_BOUND : "ncclGroupEnd was called");
	event_close(&p->file);
	slice_end(&p->file, track, end_ns ? end_ns : t->group_end_ns);
	t->group_begin_ns = t->group_end_ns = 0;
}

/* The thread makes some call, or is back from one: the call before is over. */
static void call_over(struct perfetto_sink *p, struct thread *t, uint64_t ts_ns, const struct model *m)
{
	call_bound(t, ts_ns);
	group_over(p, t, ts_ns, m);
}

/* The thread does something else: what it was in is over, even if the record that says so was lost. */
static void thread_moved_on(struct perfetto_sink *p, struct thread *t, uint64_t ts_ns, const struct model *m)
{
	call_over(p, t, ts_ns, m);
	if (t->sync_begin_ns && t->sync_begin_ns < ts_ns)
		slice_left_open(p, thread_track_uuid(p, m, thread_track(p, t)), t->sync_begin_ns, ts_ns - 1, SYNC,
				sync_name(t->sync_kind));
	if (t->call_begin_ns && t->call_begin_ns < ts_ns)
		slice_left_open(p, thread_track_uuid(p, m, thread_track(p, t)), t->call_begin_ns, ts_ns - 1, CUDA,
				t->call_name);
	t->sync_begin_ns = t->call_begin_ns = 0;
}

static void sync_ended(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	uint64_t begin_ns = e->sync.begin_ns ? e->sync.begin_ns : t->sync_begin_ns;
	uint64_t track = thread_track_uuid(p, m, thread_track(p, t));

	t->sync_begin_ns = 0;
	if (!begin_ns || begin_ns > e->ts_ns)
		return;
	call_over(p, t, begin_ns, m);
	event_open(&p->file, TYPE_SLICE_BEGIN, track, begin_ns, SYNC, sync_name(e->sync.kind));
	if (e->sync.handle)
		event_pointer(&p->file, e->sync.kind == SYNC_EVENT ? "event" : "stream", e->sync.handle);
	if (e->sync.bytes)
		event_u64(&p->file, "bytes", e->sync.bytes);
	if (e->sync.result)
		event_i64(&p->file, "result", e->sync.result);
	event_close(&p->file);
	slice_end(&p->file, track, e->ts_ns);
}

/* A driver call that returned. */
static void call_ended(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	uint64_t begin_ns = e->call.begin_ns, track = thread_track_uuid(p, m, thread_track(p, t));

	if (t->call_begin_ns == begin_ns)
		t->call_begin_ns = 0; /* the one that was reported while it was open */
	if (begin_ns > e->ts_ns)
		return;
	thread_moved_on(p, t, begin_ns, m);
	event_open(&p->file, TYPE_SLICE_BEGIN, track, begin_ns, CUDA, e->call.name);
	if (e->call.bytes)
		event_u64(&p->file, "bytes", e->call.bytes);
	if (e->call.result)
		event_i64(&p->file, "result", e->call.result);
	event_close(&p->file);
	slice_end(&p->file, track, e->ts_ns);
}

/* It is drawn when it ends, or when the trace does. */
static void call_still_open(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	if (t->call_begin_ns == e->call.begin_ns)
		return;
	thread_moved_on(p, t, e->call.begin_ns, m);
	t->call_begin_ns = e->call.begin_ns;
	t->call_name = trace_text(&p->file, e->call.name);
}

static void error_drawn(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	event_open(&p->file, TYPE_INSTANT, thread_uuid(p, m, event_proc(e), e->tid), e->ts_ns, CUDA,
		   e->cuda_error.error);
	event_interned(&p->file, "call", e->cuda_error.call);
	event_i64(&p->file, "result", e->cuda_error.result);
	event_close(&p->file);
}

static void group_changed(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	thread_moved_on(p, t, e->ts_ns, m);
	if (e->kind == EV_GROUP_START) {
		t->group_begin_ns = t->group_depth++ ? t->group_begin_ns : e->ts_ns;
		return;
	}
	if (t->group_depth && --t->group_depth)
		return;
	if (t->group_begin_ns)
		t->group_end_ns = e->ts_ns;
}

static int op_called(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	thread_moved_on(p, t, e->ts_ns, m);
	if (!e->op.group_depth) { /* the kernel's own count: a GroupEnd was lost */
		t->group_depth = 0;
		t->group_begin_ns = 0;
	}
	return call_add(p, t, e);
}

static void comm_ready(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	uint64_t track = thread_track_uuid(p, m, thread_track(p, t));

	process_rename(p, m, event_proc(e));
	if (!t->init_begin_ns)
		return;
	event_open(&p->file, TYPE_SLICE_BEGIN, track, t->init_begin_ns, NCCL_CATEGORY,
		   comm_init_kind_name(t->init_kind));
	if (e->comm_init.rank >= 0)
		event_i64(&p->file, "rank", e->comm_init.rank);
	if (e->comm_init.nranks >= 0)
		event_i64(&p->file, "nranks", e->comm_init.nranks);
	if (e->comm_init.result)
		event_i64(&p->file, "result", e->comm_init.result);
	if (!e->comm_init.returned)
		event_interned(&p->file, "end", CALL_END_BOUND);
	event_close(&p->file);
	slice_end(&p->file, track, e->ts_ns > t->init_begin_ns ? e->ts_ns : t->init_begin_ns);
	t->init_begin_ns = 0;
}

static void comm_gone(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	static const char *const names[] = { "ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort", "ncclCommRevoke" };
	unsigned int kind = e->comm_gone.kind;

	thread_moved_on(p, t, e->ts_ns, m);
	event_open(&p->file, TYPE_INSTANT, thread_track_uuid(p, m, thread_track(p, t)), e->ts_ns, NCCL_CATEGORY,
		   kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "ncclCommGone");
	event_close(&p->file);
}

/* The mount is known from the first sum on, a tick later at most. */
static void storage_annotate(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	const struct proc *proc = model_proc(m, event_proc(e));
	const char *mount = proc ? storage_mount(proc, e->off.storage_at) : "";

	event_text(&p->file, "state", task_state_name(e->off.state));
	if (*e->off.file)
		event_text(&p->file, "file", e->off.file);
	if (*mount)
		event_text(&p->file, "mount", mount);
}

static void task_was_off(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	uint64_t begin_ns = e->off.begin_ns, end_ns = e->ts_ns > begin_ns ? e->ts_ns : begin_ns, lane;
	bool cut;

	if (!t->state)
		t->state = thread_child_track(p, m, TRACK_KIND_STATE, event_proc(e), e->tid, "state");
	lane = track_lane(p, t->state, 1, &begin_ns, &end_ns, &cut);
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, begin_ns, SCHED,
		   e->off.storage_at ? storage_act_name(e->off.storage_at) : task_state_name(e->off.state));
	if (e->off.storage_at)
		storage_annotate(p, e, m);
	if (e->off.runq_ns >= 1000)
		event_u64(&p->file, "run_queue_us", e->off.runq_ns / 1000);
	event_close(&p->file);
	slice_end(&p->file, lane, end_ns);
}

static void blocked_ended(struct perfetto_sink *p, struct thread *t, uint64_t ts_ns)
{
	if (!t->blocked_begin_ns)
		return;
	slice_end(&p->file, t->blocked_uuid, ts_ns > t->blocked_begin_ns ? ts_ns : t->blocked_begin_ns);
	t->blocked_begin_ns = 0;
}

/* Begun in the file at once: a trace cut short while the task is still blocked shows it. */
static void blocked_began(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	const char *const names[] = { "wchan", "syscall", "file", "kernel_stack", "user_stack" };
	const char *const texts[] = { e->blocked.wchan, e->blocked.syscall, e->blocked.file, e->blocked.kernel_stack,
				      e->blocked.user_stack };
	const char *what = e->blocked.syscall && *e->blocked.syscall ? e->blocked.syscall : "blocked";

	if (e->blocked.asleep || t->blocked_begin_ns == e->blocked.begin_ns)
		return;
	blocked_ended(p, t, e->blocked.begin_ns);
	t->blocked_begin_ns = e->blocked.begin_ns;
	t->blocked_uuid = track_uuid(p, thread_child_track(p, m, TRACK_KIND_BLOCKED, t->proc, t->tid, "D state"));
	event_open(&p->file, TYPE_SLICE_BEGIN, t->blocked_uuid, e->blocked.begin_ns, SCHED, what);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (texts[i] && *texts[i])
			event_text(&p->file, names[i], texts[i]);
	if (e->blocked.mmap_lock_held)
		event_bool(&p->file, "mmap_lock_held", true);
	event_close(&p->file);
}

/* What the thread is still in is drawn up to `ns`. */
static void calls_finish(struct perfetto_sink *p, struct thread *t, uint64_t ns, const struct model *m)
{
	uint64_t track;

	group_over(p, t, 0, m);
	track = t->init_begin_ns || t->group_begin_ns || t->sync_begin_ns || t->call_begin_ns
			? thread_track_uuid(p, m, thread_track(p, t))
			: 0;
	if (t->init_begin_ns)
		slice_left_open(p, track, t->init_begin_ns, ns, NCCL_CATEGORY, comm_init_kind_name(t->init_kind));
	if (t->group_begin_ns)
		slice_left_open(p, track, t->group_begin_ns, ns, NCCL_CATEGORY, "ncclGroup");
	if (t->sync_begin_ns)
		slice_left_open(p, track, t->sync_begin_ns, ns, SYNC, sync_name(t->sync_kind));
	if (t->call_begin_ns)
		slice_left_open(p, track, t->call_begin_ns, ns, CUDA, t->call_name);
	t->init_begin_ns = t->group_begin_ns = t->sync_begin_ns = t->call_begin_ns = 0;
	t->group_depth = 0;
	call_let_go(t);
}

static void thread_finish(struct perfetto_sink *p, struct thread *t, uint64_t ns, const struct model *m)
{
	calls_finish(p, t, ns, m);
	blocked_ended(p, t, ns);
}

/* Between its last probe and its next, nothing is known of the process' calls. What probes that were slow to go emitted
 * after that ended nowhere: it is drawn as a point, once there are probes again. */
static void probes_changed(struct perfetto_sink *p, const struct event *e, bool gone, const struct model *m)
{
	struct thread *t, *next;

	HASH_ITER (hh, p->threads, t, next)
		if (t->proc == event_proc(e))
			calls_finish(p, t, gone ? e->ts_ns : 0, m);
}

void thread_probes_changed(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	if (!e->tier.tier || !e->tier.before)
		probes_changed(p, e, e->tier.before, m);
}

/* A call that was open when the probes of its kind went: its end is not seen. */
void thread_probes_shed(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	struct thread *t, *next;

	if (e->budget.what == BUDGET_WATCH || (e->budget.what == BUDGET_BACK && e->budget.group == PROBES_NEEDED))
		probes_changed(p, e, e->budget.what == BUDGET_WATCH, m);
	if (e->budget.what != BUDGET_SHED || e->budget.group != PROBES_CALLS)
		return;
	HASH_ITER (hh, p->threads, t, next) {
		if (t->proc != event_proc(e) || !t->call_begin_ns)
			continue;
		slice_left_open(p, thread_track_uuid(p, m, thread_track(p, t)), t->call_begin_ns, e->ts_ns, CUDA,
				t->call_name);
		t->call_begin_ns = 0;
	}
}

static void thread_exited(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	thread_finish(p, t, e->ts_ns, m); /* no call points to it any more */
	HASH_DEL(p->threads, t);
	free(t);
	if (!e->exit.last)
		return;
	event_open(&p->file, TYPE_INSTANT, process_uuid(p, m, event_proc(e)), e->ts_ns, SCHED, "exit");
	event_i64(&p->file, e->exit.signal ? "signal" : "code", e->exit.signal ? e->exit.signal : e->exit.code);
	event_close(&p->file);
}

/* What the scheduler says of the thread. */
static void scheduler_event(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	if (e->kind == EV_TASK_OFF)
		task_was_off(p, t, e, m);
	else if (e->kind == EV_BLOCKED)
		blocked_began(p, t, e, m);
	else if (e->kind == EV_BLOCKED_END)
		blocked_ended(p, t, e->ts_ns);
	else if (e->kind == EV_EXIT)
		thread_exited(p, t, e, m);
}

static void graph_event(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	static const char *const names[] = {
		[CAPTURE_BEGIN] = "graph capture begins",   [CAPTURE_END] = "graph capture ends",
		[CAPTURE_INSTANTIATE] = "GraphInstantiate", [CAPTURE_CLONE] = "GraphClone",
		[CAPTURE_LAUNCH] = "GraphLaunch",           [CAPTURE_UPDATE] = "GraphExecUpdate",
		[CAPTURE_DESTROY] = "GraphDestroy",
	};
	unsigned int kind = e->capture.kind;

	thread_moved_on(p, t, e->ts_ns, m);
	event_open(&p->file, TYPE_INSTANT, thread_track_uuid(p, m, thread_track(p, t)), e->ts_ns, GRAPH,
		   kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "graph");
	if (e->capture.exec)
		event_pointer(&p->file, "exec", e->capture.exec);
	if (e->capture.graph)
		event_pointer(&p->file, "graph", e->capture.graph);
	if (e->capture.stream)
		event_pointer(&p->file, "stream", e->capture.stream);
	event_close(&p->file);
}

static void sync_began(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	uint64_t begin_ns = e->sync.begin_ns ? e->sync.begin_ns : e->ts_ns;

	thread_moved_on(p, t, begin_ns, m);
	t->sync_begin_ns = begin_ns;
	t->sync_kind = e->sync.kind;
}

static void init_began(struct perfetto_sink *p, struct thread *t, const struct event *e, const struct model *m)
{
	thread_moved_on(p, t, e->ts_ns, m);
	t->init_begin_ns = e->ts_ns;
	t->init_kind = e->comm_init.kind;
}

int thread_event(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	struct thread *t = thread_get(p, e);

	if (!t)
		return e->tid ? -ENOMEM : 0;
	switch (e->kind) {
	case EV_OP: return op_called(p, t, e, m);
	case EV_GROUP_START:
	case EV_GROUP_END: group_changed(p, t, e, m); return 0;
	case EV_SYNC_BEGIN: sync_began(p, t, e, m); return 0;
	case EV_SYNC_END: sync_ended(p, t, e, m); return 0;
	case EV_CALL: call_ended(p, t, e, m); return 0;
	case EV_CALL_OPEN: call_still_open(p, t, e, m); return 0;
	case EV_CUDA_ERROR: error_drawn(p, e, m); return 0;
	case EV_CUDA_EVENT:
	case EV_CUDA_EVENT_WAIT:
	case EV_CUDA_EVENT_QUERY:
	case EV_STREAM_QUERY:
	case EV_ELAPSED: call_over(p, t, e->ts_ns, m); return 0;
	case EV_CAPTURE: graph_event(p, t, e, m); return 0;
	case EV_COMM_INIT: init_began(p, t, e, m); return 0;
	case EV_COMM_READY: comm_ready(p, t, e, m); return 0;
	case EV_COMM_GONE: comm_gone(p, t, e, m); return 0;
	default: scheduler_event(p, t, e, m); return 0;
	}
}

void threads_finish(struct perfetto_sink *p, const struct model *m)
{
	struct thread *t, *next;

	HASH_ITER (hh, p->threads, t, next)
		thread_finish(p, t, m->now_ns, m);
}

void threads_free(struct perfetto_sink *p)
{
	struct thread *t, *next;

	HASH_ITER (hh, p->threads, t, next) {
		HASH_DEL(p->threads, t);
		free(t);
	}
}
