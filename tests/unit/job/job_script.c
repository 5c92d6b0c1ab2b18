/* SPDX-License-Identifier: Apache-2.0
 *
 * job_script.c - the event-only training job: programs of the ranks, an engine that runs hosts against streams, and
 * the events a tracer would have seen of it.
 */
#include "tests/unit/job/job_state.h"

static double draw(struct job_state *s) /* 0..1 */
{
	return (double)random_next(&s->rng) / (double)(1ull << 31);
}

/* --- calls --- */

static void comm_show(struct job *j, int r, int ci)
{
	struct comm_def *c = &j->state->comms[ci];
	struct host *h = &j->state->hosts[r];
	struct event *e;
	int me = 0;

	if (h->shown[ci])
		return;
	h->shown[ci] = true;
	while (c->ranks[me] != r)
		me++;
	e = emit(j, r, h->now_ns, EV_COMM_SEEN);
	e->comm_seen.addr = c->hash * 16 + r;
	e->comm_seen.hash = c->hash;
	e->comm_seen.rank = me;
	e->comm_seen.nranks = c->n;
	e->comm_seen.counters_sum = c->seq[me];
	e->comm_seen.counters_valid = true;
}

static void comms_init(struct job *j, int r)
{
	struct job_state *s = j->state;

	for (int i = 0; i < s->n_comms; i++)
		for (int k = 0; k < s->comms[i].n; k++) {
			struct event *e;

			s->hosts[r].shown[i] = false;
			if (s->comms[i].ranks[k] != r || j->o.attach_step)
				continue;
			e = emit(j, r, s->hosts[r].now_ns, EV_COMM_READY);
			e->comm_init.addr = s->comms[i].hash * 16 + r;
			e->comm_init.rank = k;
			e->comm_init.nranks = s->comms[i].n;
			if (i == s->world) /* the others as Split children: their hash comes with the first hit */
				e->comm_init.id_hash = s->comms[i].hash;
			s->hosts[r].now_ns += HOST_CALL_NS;
		}
}

static size_t match_get(struct job_state *s, int ci, enum op_kind kind, uint64_t seq, int a, int b, int need)
{
	struct match *m;

	for (size_t i = s->n_matches; i-- > 0 && i + 4096 > s->n_matches;) {
		m = &s->matches[i];
		if (m->comm == (s->generation << 8) + ci && m->kind == kind && m->seq == seq && m->a == a && m->b == b)
			return i;
	}
	m = PUSH(s->matches, s->n_matches, s->cap_matches);
	*m = (struct match){
		.comm = (s->generation << 8) + ci, .kind = kind, .seq = seq, .a = a, .b = b, .need = need
	};
	return s->n_matches - 1;
}

static struct item *enqueue(struct host *h, bool is_op, uint64_t dur_ns, size_t match)
{
	struct item *it = PUSH(h->items, h->n_items, h->cap_items);

	*it = (struct item){ .is_op = is_op, .dur_ns = dur_ns, .match = match, .enq_ns = h->now_ns };
	return it;
}

static void cuda_events_after(struct job *j, int r, size_t from)
{
	struct host *h = &j->state->hosts[r];
	struct event *e;

	h->now_ns += HOST_CALL_NS;
	e = emit(j, r, h->now_ns, EV_CUDA_EVENT);
	e->cuda_event.handle = 0xe000000 + (uint64_t)r * 1000000 + h->n_items;
	e->cuda_event.stream = 0x5000 + r;
	for (size_t i = from; i < h->n_items; i++) {
		h->items[i].handle = e->cuda_event.handle;
		h->items[i].cuda_event_ns = h->now_ns;
	}
}

static void call_op(struct job *j, int r, const struct ins *in)
{
	struct job_state *s = j->state;
	struct host *h = &s->hosts[r];
	struct comm_def *c = &s->comms[in->comm];
	const struct fault *lose = fault_at(j, r, h->step, FAULT_LOSE_OPS);
	struct truth *tr;
	struct event *e;
	int me = 0, op = in->kind == INS_COLL ? OP_ALLREDUCE : in->kind == INS_SEND ? OP_SEND : OP_RECV;
	uint64_t seq, launched;
	size_t m;

	while (c->ranks[me] != r)
		me++;
	comm_show(j, r, in->comm);
	launched = c->seq[me] - (h->in_group ? h->coll_count : 0);
	if (op == OP_ALLREDUCE) {
		seq = c->seq[me]++;
		m = match_get(s, in->comm, op, seq, 0, 0, c->n);
	} else {
		seq = c->p2p[me][in->peer][op == OP_RECV]++;
		m = match_get(s, in->comm, OP_SEND, seq, op == OP_SEND ? me : in->peer, op == OP_SEND ? in->peer : me,
			      2);
	}
	if (!lose || draw(s) * 100 >= lose->percent) {
		e = emit(j, r, h->now_ns, EV_OP);
		e->op.addr = c->hash * 16 + r;
		e->op.stream = 0x5000 + r;
		e->op.count = in->count;
		e->op.op = op;
		e->op.dtype = 9;
		e->op.redop = op == OP_ALLREDUCE ? 0 : -1;
		e->op.root = -1;
		e->op.peer = op == OP_ALLREDUCE ? -1 : in->peer;
		e->op.group_depth = h->in_group;
		e->op.counters_valid = true;
		e->op.counters_sum = launched;
		if (fault_at(j, r, h->step, FAULT_MISMATCH) && in->comm == s->world)
			e->op.count--;
	} else {
		emit(j, -1, h->now_ns, EV_LOSS)->loss.lost = 1;
	}
	if (h->in_group && op == OP_ALLREDUCE)
		h->coll_count++;
	tr = PUSH(j->truths, j->n_truths, j->cap_truths);
	*tr = (struct truth){ r, c->hash, op == OP_ALLREDUCE ? SEQ_COLL : -1, op, in->peer, seq, h->now_ns, 0 };
	enqueue(h, true, 0, m)->end_ns = j->n_truths - 1; /* until known: its truth */
	if (!h->in_group)
		cuda_events_after(j, r, h->n_items - 1);
}

/* --- streams --- */

static bool stream_step(struct job *j, struct host *h)
{
	struct item *it = h->head < h->n_items ? &h->items[h->head] : NULL;
	uint64_t ready, truth;
	struct match *m;

	if (!it || (h->in_group && h->head >= h->group_from))
		return false;
	ready = it->enq_ns > h->head_end_ns ? it->enq_ns : h->head_end_ns;
	if (!it->is_op) {
		it->end_ns = ready + it->dur_ns;
	} else {
		m = &j->state->matches[it->match];
		if (!it->ready) {
			it->ready = true;
			m->n++;
			m->ready_ns = ready > m->ready_ns ? ready : m->ready_ns;
			if (m->n == m->need)
				m->end_ns = m->ready_ns + XFER_NS;
			return true;
		}
		if (!m->end_ns)
			return false;
		truth = it->end_ns;
		it->end_ns = m->end_ns;
		j->truths[truth].end_ns = m->end_ns;
		j->truths[truth].enqueue_ns = it->enq_ns;
	}
	it->known = true;
	h->head_end_ns = it->end_ns;
	h->head++;
	return true;
}

/* --- faults --- */

static void blocked(struct job *j, int r, bool child, double seconds)
{
	struct host *h = &j->state->hosts[r];
	struct event *e;

	for (int i = 1; child && i < 4 * (seconds < 20 ? seconds : 20); i++) { /* the scans of who is delayed */
		e = emit(j, r, h->now_ns + i * 250 * MSEC, EV_TASK);
		e->tgid = e->tid = job_pid(r) + 50;
		e->task.state = TASK_DISK;
		e->task.since_ns = h->now_ns;
	}
	if (seconds <= 5)
		return;
	e = emit(j, r, h->now_ns + 5 * SEC + 120 * MSEC, EV_BLOCKED);
	e->tgid = e->tid = job_pid(r) + (child ? 50 : 0);
	e->blocked.begin_ns = h->now_ns;
	e->blocked.kernel_stack = "percpu_rwsem_wait\nmnt_want_write\nopen_last_lookups\ndo_sys_openat2";
	e->blocked.user_stack = "";
	e->blocked.wchan = "percpu_rwsem_wait";
	e->blocked.syscall = "openat";
	e->blocked.file = "/ckpt";
	if (seconds >= JOB_FOREVER)
		return;
	e = emit(j, r, h->now_ns + (uint64_t)(seconds * SEC), EV_BLOCKED_END);
	e->tgid = e->tid = job_pid(r) + (child ? 50 : 0);
	e->blocked.begin_ns = h->now_ns;
}

/* Holds the host for the fault's time; false: for ever. */
static bool hold(struct job *j, int r, const struct fault *f, enum task_state state)
{
	struct host *h = &j->state->hosts[r];

	segment(h, h->now_ns, state, f->kind == FAULT_IO);
	if (f->seconds >= JOB_FOREVER) {
		h->stuck = true;
		return false;
	}
	h->now_ns += (uint64_t)(f->seconds * SEC);
	segment(h, h->now_ns, TASK_ON_CPU, false);
	return true;
}

static void restart(struct job *j, int r)
{
	struct job_state *s = j->state;
	struct host *h = &s->hosts[r];

	for (int i = 0; i < s->n_comms; i++)
		for (int k = 0; k < s->comms[i].n; k++)
			if (s->comms[i].ranks[k] == r)
				emit(j, r, h->now_ns, EV_COMM_GONE)->comm_gone.addr = s->comms[i].hash * 16 + r;
	h->now_ns += (uint64_t)((3 + 4 * draw(s)) * SEC);
}

/* One more communicator, made from an id of the whole job's. */
static bool init_call(struct job *j, int r)
{
	struct host *h = &j->state->hosts[r];
	struct event *e = emit(j, r, h->now_ns, EV_COMM_INIT);

	e->comm_init.kind = COMM_INIT_RANK;
	e->comm_init.id_hash = 0xabcd;
	e->comm_init.rank = r;
	e->comm_init.nranks = j->o.ranks;
	segment(h, h->now_ns, TASK_SLEEP, false);
	h->stuck = true;
	return false;
}

static bool fault_strike(struct job *j, int r, int fi)
{
	const struct fault *f = &j->o.faults[fi];
	struct host *h = &j->state->hosts[r];
	struct event *e;

	if (!j->fault_ns[fi])
		j->fault_ns[fi] = h->now_ns;
	switch (f->kind) {
	case FAULT_INIT: return r == f->rank ? hold(j, r, f, TASK_SLEEP) : init_call(j, r);
	case FAULT_STOP: return hold(j, r, f, TASK_STOPPED);
	case FAULT_HANG: return hold(j, r, f, TASK_SLEEP);
	case FAULT_IO: return hold(j, r, f, TASK_SLEEP);
	case FAULT_BUSY: return hold(j, r, f, TASK_ON_CPU);
	case FAULT_EVAL: h->now_ns += (uint64_t)(f->seconds * SEC * (1 + 0.1 * draw(j->state))); return true;
	case FAULT_DSTATE: blocked(j, r, false, f->seconds); return hold(j, r, f, TASK_DISK);
	case FAULT_DSTATE_CHILD: blocked(j, r, true, f->seconds); return true;
	case FAULT_KILL:
		e = emit(j, r, h->now_ns, EV_EXIT);
		e->exit.last = true;
		e->exit.signal = 9;
		h->stuck = h->killed = true;
		return false;
	case FAULT_SLOW: h->slow = f->percent / 100; return true;
	default: return true;
	}
}

static void fault_target(struct job *j, int r, int fi)
{
	struct job_state *s = j->state;
	struct host *h = &s->hosts[r];

	for (size_t i = h->pc; i < h->n_code; i++) {
		struct ins *in = &h->code[i];
		int me = 0;

		if (in->kind != INS_COLL)
			continue;
		while (s->comms[in->comm].ranks[me] != r)
			me++;
		j->fault_comm[fi] = s->comms[in->comm].hash;
		j->fault_seq[fi] = s->comms[in->comm].seq[me];
		return;
	}
}

static bool faults(struct job *j, int r)
{
	struct host *h = &j->state->hosts[r];

	for (int i = 0; i < JOB_FAULTS; i++) {
		struct fault *f = &j->o.faults[i];

		if (f->kind == FAULT_NONE || f->step != h->step || f->at != (int)h->pc)
			continue;
		if (f->rank != r && f->kind != FAULT_EVAL && f->kind != FAULT_INIT)
			continue;
		if (f->rank == r)
			fault_target(j, r, i);
		if (!fault_strike(j, r, i))
			return false;
	}
	return true;
}

static void gc_pause(struct job *j, struct host *h)
{
	if (j->o.gc_share > 0 && draw(j->state) < j->o.gc_share)
		h->now_ns += (uint64_t)(j->o.gc_s * draw(j->state) * SEC);
}

static void compute(struct job *j, int r, const struct ins *in)
{
	struct job_state *s = j->state;
	struct host *h = &s->hosts[r];
	double t = in->s * (1 + h->slow) * (1 + j->o.jitter * (2 * draw(s) - 1));

	t *= uneven_work(j, r, h->step);
	if (h->step == 0)
		t += j->o.first_s * draw(s) / 4;
	for (int i = 0; i < JOB_FAULTS; i++)
		if (j->o.faults[i].kind == FAULT_LOG && j->o.faults[i].rank == r && h->step % 4 == 3)
			t *= 1 + j->o.faults[i].percent / 100;
	if (j->o.run_ahead)
		enqueue(h, false, (uint64_t)(t * SEC), 0);
	h->now_ns += (uint64_t)(t * SEC * (j->o.run_ahead ? 0.05 : 1));
}

static bool sync_host(struct job *j, int r)
{
	struct host *h = &j->state->hosts[r];
	uint64_t begin, stream = 0x5000 + r;
	struct event *e;

	if (!h->in_sync && !j->o.no_sync_probe) {
		e = emit(j, r, h->now_ns, EV_SYNC_BEGIN);
		e->sync.handle = stream;
	}
	h->in_sync = true;
	if (h->head < h->n_items)
		return false;
	begin = h->now_ns;
	if (h->head_end_ns > h->now_ns)
		h->now_ns = h->head_end_ns;
	h->now_ns += HOST_CALL_NS;
	h->in_sync = false;
	if (j->o.no_sync_probe)
		return true;
	e = emit(j, r, h->now_ns, EV_SYNC_END);
	e->sync.handle = stream;
	e->sync.begin_ns = begin;
	return true;
}

static bool host_step(struct job *j, int r)
{
	struct host *h = &j->state->hosts[r];
	const struct ins *in = ins_now(j, r);

	if (h->stuck || h->step >= j->o.steps)
		return false;
	if (!h->in_sync && !faults(j, r))
		return true;
	if (!in || in->kind != INS_SYNC)
		h->now_ns += HOST_CALL_NS;
	switch (in ? in->kind : INS_STEP) {
	case INS_COMPUTE: compute(j, r, in); break;
	case INS_COLL:
	case INS_SEND:
	case INS_RECV: call_op(j, r, in); break;
	case INS_GROUP:
		emit(j, r, h->now_ns, EV_GROUP_START);
		h->in_group = true;
		h->group_from = h->n_items;
		h->coll_count = 0;
		break;
	case INS_GROUP_END:
		emit(j, r, h->now_ns, EV_GROUP_END)->group.depth_before = 1;
		h->in_group = false;
		for (size_t i = h->group_from; i < h->n_items; i++)
			h->items[i].enq_ns = h->now_ns;
		if (h->n_items > h->group_from)
			cuda_events_after(j, r, h->group_from);
		break;
	case INS_SYNC:
		if (!sync_host(j, r))
			return false;
		break;
	case INS_STEP: gc_pause(j, h); break;
	}
	if (++h->pc == h->n_code) {
		h->pc = 0;
		h->step++;
	}
	return true;
}

static bool all_at(const struct job *j, int step)
{
	for (int r = 0; r < j->o.ranks; r++)
		if (j->state->hosts[r].step != step || j->state->hosts[r].pc)
			return false;
	return true;
}

/* Everybody leaves its communicators and makes new ones, at a step's start. */
static void restart_all(struct job *j, int step)
{
	struct job_state *s = j->state;

	for (int r = 0; r < j->o.ranks; r++)
		restart(j, r);
	s->generation = step;
	layout(j);
	for (int r = 0; r < j->o.ranks; r++)
		comms_init(j, r);
}

static int restart_step(const struct job *j)
{
	for (int i = 0; i < JOB_FAULTS; i++)
		if (j->o.faults[i].kind == FAULT_RESTART)
			return j->o.faults[i].step;
	return -1;
}

static void engine(struct job *j)
{
	struct job_state *s = j->state;
	int at = restart_step(j), steps = j->o.steps;
	bool moved = true;

	if (at > 0)
		j->o.steps = at;
	while (moved) {
		moved = false;
		for (int r = 0; r < j->o.ranks; r++) {
			while (host_step(j, r))
				moved = true;
			while (stream_step(j, &s->hosts[r]))
				moved = true;
		}
		if (!moved && at > 0 && all_at(j, at)) {
			restart_all(j, at);
			at = -1;
			j->o.steps = steps;
			moved = true;
		}
	}
}

struct job *job_new(const struct job_opts *o)
{
	struct job *j = calloc(1, sizeof(*j));
	uint64_t end_ns = 0;
	struct job_state *s;

	assert(j && o->ranks <= RANKS_MAX && o->tp * o->dp * o->pp == o->ranks);
	j->o = *o;
	s = j->state = calloc(1, sizeof(*s));
	s->rng = o->seed * 0x9e3779b97f4a7c15ull + 1;
	for (int i = 0; i < 8; i++)
		draw(s);
	announce(j);
	layout(j);
	for (int r = 0; r < o->ranks; r++) {
		s->hosts[r].now_ns = JOB_T0 + (uint64_t)(draw(s) * 5 * MSEC);
		segment(&s->hosts[r], s->hosts[r].now_ns, TASK_ON_CPU, false);
		program(j, r);
		comms_init(j, r);
	}
	engine(j);
	for (int r = 0; r < o->ranks; r++)
		end_ns = s->hosts[r].now_ns > end_ns ? s->hosts[r].now_ns : end_ns;
	end_ns += (uint64_t)(o->tail_s * SEC) + SEC;
	trace_finish(j, end_ns);
	return j;
}

void job_free(struct job *j)
{
	for (int r = 0; r < RANKS_MAX; r++) {
		free(j->state->hosts[r].code);
		free(j->state->hosts[r].items);
		free(j->state->hosts[r].segs);
	}
	free(j->state->matches);
	free(j->state);
	free(j->events);
	free(j->truths);
	free(j);
}
