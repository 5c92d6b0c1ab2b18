/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - infers when operations are over. Work on a stream ends in order, so one observation ("this wait
 * returned", "this CUDA event is done") completes everything queued up to its position, and through
 * cuStreamWaitEvent what that depended on. What is seen is always late: the error says by how much at most.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/larger.h"
#include "model/state.h"

#define CROSS_THREAD_NS \
	1000000 /* a call's record is its entry: another thread's wait that close behind may be too early for it */
#define TIGHT_NS 1000000    /* an event that close behind an operation, on the same thread: no kernel in between */
#define CLOCK_STEP_NS 1000  /* cuEventElapsedTime's resolution is half of that */
#define STREAM_LEGACY 1     /* CU_STREAM_LEGACY of cuda.h: the same as 0 */
#define STREAM_PER_THREAD 2 /* CU_STREAM_PER_THREAD: each thread has its own */
#define LANES_MAX 4096      /* branches of graphs, per process */

uint64_t stream_name(uint64_t handle, uint32_t tid)
{
	if (handle == STREAM_LEGACY)
		return 0;
	if (handle == STREAM_PER_THREAD)
		handle |= (uint64_t)tid << 32 | 1ull << 63; /* no address of the target */
	return handle;
}

/* NULL: too many, or no memory: what is queued there is not followed. */
struct stream *stream_get(struct proc_own *p, uint64_t handle, uint32_t tid)
{
	struct stream *s;

	handle = stream_name(handle, tid);
	HASH_FIND(hh, p->streams, &handle, sizeof(handle), s);
	if (s)
		return s;
	if (HASH_COUNT(p->streams) >= STREAMS_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->handle = handle;
	HASH_ADD(hh, p->streams, handle, sizeof(handle), s);
	if (!s->hh.tbl) {
		free(s);
		return NULL;
	}
	s->next = p->p.streams;
	p->p.streams = s;
	return s;
}

struct stream *stream_lane(struct proc_own *p, struct stream *s, int lane)
{
	struct stream **grown, *l;

	if (!lane)
		return s;
	if (lane < s->n_lanes)
		return s->lanes[lane];
	grown = p->n_lanes < LANES_MAX ? realloc(s->lanes, (lane + 1) * sizeof(*grown)) : NULL;
	if (!grown)
		return NULL;
	s->lanes = grown;
	for (; s->n_lanes <= lane; s->n_lanes++) {
		l = s->n_lanes ? calloc(1, sizeof(*l)) : s;
		if (!l)
			return NULL;
		grown[s->n_lanes] = l;
		if (l == s)
			continue;
		l->handle = s->handle;
		l->next = p->p.streams;
		p->p.streams = l;
		p->n_lanes++;
	}
	return grown[lane];
}

static void item_pop(struct stream *s)
{
	struct item *it = s->head;

	s->head = it->next;
	if (!s->head)
		s->tail = NULL;
	s->n_items--;
	if (it->op)
		op_own(it->op)->item = NULL;
	free(it);
}

struct item *item_push(struct stream *s, uint32_t tid, uint64_t ns)
{
	struct item *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	if (s->n_items >= STREAM_ITEMS_MAX)
		item_pop(s);
	it->pos = ++s->pos;
	it->tid = tid;
	it->ns = ns;
	*(s->tail ? &s->tail->next : &s->head) = it;
	s->tail = it;
	s->n_items++;
	return it;
}

int stream_queue(struct stream *s, struct op *op)
{
	struct item *it = item_push(s, op->tid, op->enqueue_ns);

	if (!it)
		return -ENOMEM;
	it->op = op;
	op->stream_pos = it->pos;
	op_own(op)->item = it;
	op_own(op)->stream = s;
	return 0;
}

void stream_take_out(struct op *op)
{
	struct op_own *o = op_own(op);
	struct stream *s = o->stream;
	struct item *before = NULL, *it = o->item ? s->head : NULL;

	for (; it && it != o->item; it = it->next)
		before = it;
	if (!it)
		return;
	*(before ? &before->next : &s->head) = it->next;
	if (s->tail == it)
		s->tail = before;
	s->n_items--;
	o->item = NULL;
	free(it);
}

/* --- completion --- */

static struct stream *passing_add(struct stream *work, struct stream *s, uint64_t pos)
{
	if (pos <= s->done_pos || pos <= s->target)
		return work;
	s->target = pos;
	if (s->in_work)
		return work;
	s->in_work = true;
	s->next_work = work;
	return s;
}

static struct stream *stream_pass(struct model *m, struct stream *s, struct stream *work, uint64_t ns)
{
	struct item *it;

	while ((it = s->head) && it->pos <= s->target) {
		if (it->dep)
			work = passing_add(work, it->dep, it->dep_pos);
		if (it->op) {
			op_ended(m, it->op, ns, s->lower_ns);
			s->lower_ns = it->op->end_ns - it->op->end_error_ns;
		}
		item_pop(s);
	}
	s->done_pos = s->target;
	return work;
}

/* Everything on `s` up to `pos`, and what it waited for, is over at `ns`. A list, not recursion: chains are long. */
static void stream_done(struct model *m, struct stream *s, uint64_t pos, uint64_t ns)
{
	struct stream *work = passing_add(NULL, s, pos);

	while ((s = work)) {
		work = s->next_work;
		s->in_work = false;
		work = stream_pass(m, s, work, ns);
	}
}

/* Position of what had been queued when a wait of thread `tid` began. */
static uint64_t pos_at(const struct stream *s, uint32_t tid, uint64_t begin_ns)
{
	uint64_t pos = s->done_pos;

	for (const struct item *it = s->head; it; it = it->next) {
		if (it->ns + (it->tid == tid ? 0 : CROSS_THREAD_NS) > begin_ns)
			break;
		pos = it->pos;
	}
	return pos;
}

/* --- CUDA events --- */

static struct cuda_event *cuda_event_find(const struct proc_own *p, uint64_t handle)
{
	struct cuda_event *k;

	HASH_FIND(hh, p->cuda_events, &handle, sizeof(handle), k);
	return k;
}

/* The newest last, so that the oldest is the first to go. */
struct cuda_event *cuda_event_renew(struct proc_own *p, uint64_t handle)
{
	struct cuda_event *k = cuda_event_find(p, handle);

	if (!k && HASH_COUNT(p->cuda_events) >= CUDA_EVENTS_MAX)
		k = p->cuda_events;
	if (k)
		HASH_DEL(p->cuda_events, k);
	else
		k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->handle = handle;
	HASH_ADD(hh, p->cuda_events, handle, sizeof(handle), k);
	if (!k->hh.tbl) {
		free(k);
		return NULL;
	}
	return k;
}

/* Only kernels of its own NCCL call lie in front of what follows it at once; in a graph there may be any. */
static bool item_tight(const struct item *it, uint32_t tid)
{
	return it && it->op && !it->op->graph_exec && it->tid == tid;
}

static int cuda_event_recorded(struct proc_own *p, const struct event *e)
{
	struct stream *s = stream_get(p, e->cuda_event.stream, e->tid);
	struct cuda_event *k = s ? cuda_event_renew(p, e->cuda_event.handle) : NULL;
	const struct item *last = s ? s->tail : NULL;

	if (!k)
		return s ? -ENOMEM : 0;
	k->stream = s;
	k->ns = e->ts_ns;
	k->n_ops = p->p.n_ops;
	k->op_id = last && last->op && last->pos == s->pos ? last->op->id : 0;
	capture_cuda_event(s, k);
	k->pos = s->capture ? 0 : s->pos; /* captured: an edge of the graph, it never comes to pass by itself */
	k->tight_pos = !s->capture && item_tight(last, e->tid) && e->ts_ns - last->ns < TIGHT_NS ? last->pos : 0;
	return 0;
}

static int cuda_event_waited(struct proc_own *p, const struct event *e)
{
	struct cuda_event *k = cuda_event_find(p, e->cuda_event.handle);
	struct stream *s = stream_get(p, e->cuda_event.stream, e->tid);
	struct item *it;

	if (k && s && k->capture_id)
		capture_wait(p, s, k);
	if (!k || !s || s->capture || k->capture_id || k->stream == s || k->pos <= k->stream->done_pos)
		return 0;
	it = item_push(s, e->tid, e->ts_ns);
	if (!it)
		return -ENOMEM;
	it->dep = k->stream;
	it->dep_pos = k->pos;
	return 0;
}

static void cuda_event_queried(struct model *m, struct proc_own *p, const struct event *e)
{
	struct cuda_event *k = cuda_event_find(p, e->cuda_event.handle);

	if (!k)
		return;
	if (!e->cuda_event.result) {
		stream_done(m, k->stream, k->pos, e->ts_ns);
		return;
	}
	if (e->cuda_event.result != CUDA_NOT_READY || !k->tight_pos)
		return;
	for (struct item *it = k->stream->head; it && it->pos <= k->tight_pos; it = it->next)
		if (it->pos == k->tight_pos && it->op)
			it->op->not_done_ns = e->ts_ns;
}

static struct op *op_by_id(const struct proc_own *p, uint64_t id)
{
	struct op *op = p->p.last_op;

	while (op && op->id > id)
		op = op->prev_in_proc;
	return op && op->id == id ? op : NULL;
}

/* The first event comes to pass after it was recorded, and after what is in front of it; the second, right behind the
 * operation, that much later. cuEventElapsedTime gives a float of ms: 24 bits. */
static void elapsed_bound(struct op *op, const struct cuda_event *start, uint64_t gpu_ns)
{
	uint64_t begin = op->arrive_bound_ns > op->enqueue_ns ? op->arrive_bound_ns : start->ns, lower;

	lower = begin + gpu_ns - gpu_ns / (1 << 23);
	lower -= smaller(lower, CLOCK_STEP_NS);
	if (lower <= op->end_ns)
		op->end_error_ns = smaller(op->end_error_ns, op->end_ns - lower);
}

/* Both events are done, and lie around exactly one thing. */
static void elapsed_note(struct model *m, struct proc_own *p, const struct event *e)
{
	struct cuda_event *start = cuda_event_find(p, e->elapsed.start), *end = cuda_event_find(p, e->elapsed.end);
	struct op *op;

	if (!start || !end || start->stream != end->stream || start->capture_id || end->capture_id)
		return;
	stream_done(m, end->stream, end->pos, e->ts_ns);
	if (end->pos == start->pos && end->n_ops == start->n_ops) /* nor does an NCCL kernel take its processors */
		p->p.gpu_spans[p->p.n_gpu_spans++ % GPU_SPANS_KEPT] = (struct gpu_span){ e->ts_ns, e->elapsed.gpu_ns };
	op = end->op_id && end->pos == start->pos + 1 ? op_by_id(p, end->op_id) : NULL;
	if (!op || !op->end_ns)
		return;
	op->gpu_ns = e->elapsed.gpu_ns;
	if (end->tight_pos == end->pos)
		elapsed_bound(op, start, e->elapsed.gpu_ns);
}

/* --- host waits --- */

static const char *sync_name(enum sync_kind kind)
{
	static const char *const names[] = {
		[SYNC_STREAM] = "cuStreamSynchronize",
		[SYNC_EVENT] = "cuEventSynchronize",
		[SYNC_CONTEXT] = "cuCtxSynchronize",
		[SYNC_COPY] = "cuMemcpy",
	};

	return (unsigned int)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "";
}

static int sync_begin(struct proc_own *p, const struct event *e)
{
	struct call_own *c = calloc(1, sizeof(*c));
	struct cuda_event *k = e->sync.kind == SYNC_EVENT ? cuda_event_find(p, e->sync.handle) : NULL;

	if (!c)
		return -ENOMEM;
	c->c = (struct call){ .tid = e->tid,
			      .is_sync = true,
			      .name = sync_name(e->sync.kind),
			      .kind = e->sync.kind,
			      .handle = e->sync.handle,
			      .begin_ns = e->ts_ns,
			      .next = p->p.calls };
	if (k) { /* it may be recorded again while we wait */
		c->stream = k->stream;
		c->pos = k->pos;
	}
	p->p.calls = &c->c; /* lint: kept by the address of its first member */
	return 0;
}

static void event_wait_over(struct model *m, struct proc_own *p, const struct event *e)
{
	struct call_own *c = *call_find(p, e->tid);
	struct cuda_event *k;

	if (c && c->c.kind == SYNC_EVENT) {
		if (c->stream)
			stream_done(m, c->stream, c->pos, e->ts_ns);
		return;
	}
	k = cuda_event_find(p, e->sync.handle);
	if (k && pos_at(k->stream, e->tid, e->sync.begin_ns) >= k->pos)
		stream_done(m, k->stream, k->pos, e->ts_ns);
}

/* What is being captured cannot be waited for. */
static void stream_synced(struct model *m, struct proc_own *p, struct stream *s, uint32_t tid, uint64_t begin_ns,
			  uint64_t ns)
{
	capture_over(p, s);
	stream_done(m, s, pos_at(s, tid, begin_ns), ns);
}

/* The tight rule of CUDA events: nothing unseen fits between an operation and a thread's polls that follow each other
 * at once. */
static void stream_queried(struct model *m, struct proc_own *p, const struct event *e)
{
	struct stream *s = stream_get(p, e->cuda_event.stream, e->tid);
	struct item *last = s ? s->tail : NULL;

	if (!s || (e->cuda_event.result && e->cuda_event.result != CUDA_NOT_READY))
		return;
	if (!e->cuda_event.result) {
		stream_synced(m, p, s, e->tid, e->ts_ns, e->ts_ns);
		return;
	}
	if (!item_tight(last, e->tid))
		return;
	if (s->polled_pos != last->pos)
		s->polled_ns = last->ns;
	s->polled_pos = last->pos;
	if (e->ts_ns - s->polled_ns >= TIGHT_NS)
		return;
	s->polled_ns = last->op->not_done_ns = e->ts_ns;
}

/* A result below 0: the return was seen only by the thread's next call; errors there are sticky and kill the job. */
static void sync_end(struct model *m, struct proc_own *p, const struct event *e)
{
	struct stream *s;

	p->p.last_sync_ns = e->ts_ns;
	if (e->sync.result > 0)
		return;
	switch (e->sync.kind) {
	case SYNC_STREAM:
	case SYNC_COPY: /* a copy has its turn on its stream, behind all that was queued before */
		s = stream_get(p, e->sync.handle, e->tid);
		if (s)
			stream_synced(m, p, s, e->tid, e->sync.begin_ns, e->ts_ns);
		break;
	case SYNC_EVENT: event_wait_over(m, p, e); break;
	case SYNC_CONTEXT:
		for (s = p->p.streams; s; s = s->next)
			stream_done(m, s, pos_at(s, e->tid, e->sync.begin_ns), e->ts_ns);
		break;
	}
}

int stream_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	if (e->kind != EV_CUDA_EVENT_QUERY && e->kind != EV_STREAM_QUERY &&
	    e->kind != EV_ELAPSED) /* the watchdog's polls are no progress */
		p->p.last_call_ns = e->ts_ns;
	if (e->kind == EV_SYNC_END)
		sync_end(m, p, e);
	call_forget(p, e->tid); /* whatever it was in, it is out of it now */
	switch (e->kind) {
	case EV_SYNC_BEGIN: return sync_begin(p, e);
	case EV_CUDA_EVENT: return cuda_event_recorded(p, e);
	case EV_CUDA_EVENT_WAIT: return cuda_event_waited(p, e);
	case EV_CUDA_EVENT_QUERY: cuda_event_queried(m, p, e); return 0;
	case EV_STREAM_QUERY: stream_queried(m, p, e); return 0;
	case EV_ELAPSED: elapsed_note(m, p, e); return 0;
	default: return 0;
	}
}

void cuda_events_forget(struct proc_own *p)
{
	struct cuda_event *k, *next;

	HASH_ITER (hh, p->cuda_events, k, next) {
		HASH_DEL(p->cuda_events, k);
		free(k);
	}
}

void streams_free(struct proc_own *p)
{
	struct stream *s, *s_next;

	cuda_events_forget(p);
	captures_free(p);
	HASH_CLEAR(hh, p->streams);
	for (s = p->p.streams; s; s = s_next) {
		s_next = s->next;
		while (s->head)
			item_pop(s);
		free(s->lanes);
		free(s);
	}
	p->p.streams = NULL;
	p->n_lanes = 0;
	while (p->p.calls)
		call_forget(p, p->p.calls->tid);
}
