/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_proc.c - processes and threads of a snapshot. Who a process is goes as EV_PROC, a thread's name as
 * EV_THREAD, its stack as EV_STACK and its wait as EV_WAIT, as sinks know them; the rest follows.
 */
#include <errno.h>
#include <string.h>

#include "base/larger.h"
#include "model/snapshot/snapshot_private.h"

_Static_assert((int)SNAPSHOT_SPANS == GPU_SPANS_KEPT && (int)SNAPSHOT_CALL_CLASSES >= (int)CALL_CLASS_MAX,
	       "snapshot_proc");

static uint64_t bits_of(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* Of a foreign file it may be anything: no NaN and nothing negative gets in. */
static double double_of(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v >= 0 && v < 1e18 ? v : 0;
}

static void identity_emit(struct snapshot_writer *r, const struct proc_own *own)
{
	char placeless[PLACE_TEXT_MAX];
	const struct proc *p = &own->p;
	struct event e = { .kind = EV_PROC, .tgid = p->tgid, .tid = p->tgid, .ts_ns = r->m->now_ns };

	e.proc.start_ns = p->start_ns;
	e.proc.parent_tgid = p->parent_tgid;
	e.proc.ns_pid = p->ns_pid;
	e.proc.rank = p->rank;
	e.proc.local_rank = p->local_rank;
	e.proc.world_size = p->world_size;
	e.proc.is_child = e.proc.rank_inherited = p->is_child;
	e.proc.job = p->job->name;
	e.proc.name = p->name;
	e.proc.container = p->container;
	e.proc.pod = p->pod;
	e.proc.pod_name = p->pod_name;
	e.proc.namespace = p->namespace;
	e.proc.slurm_job = p->slurm_job;
	e.proc.slurm_step = p->slurm_step;
	e.proc.boot_id = p->node->boot_id;
	if (own->scope) {
		e.proc.netns = own->scope->place.netns;
		e.proc.user = own->scope->place.user;
		e.proc.cgroup = own->scope->place.cgroup;
		if (own->scope->place.placeless)
			e.proc.cgroup = placeless_text(own->scope->place.placeless, placeless);
	}
	emit_event(r, &e);
}

static struct snapshot_steps steps_body(const struct iteration_clock *c)
{
	const struct steps *s = &c->steps;

	return (struct snapshot_steps){
		.period_ops = s->period_ops,
		.n = s->n,
		.phase = s->phase,
		.role = s->role,
		.checked_n = c->checked_n,
		.found_n = c->found_n,
		.from_n = c->from_n,
		.searched_n = c->searched_n,
		.base = c->base,
		.median_bits = bits_of(s->median_s),
	};
}

static void proc_emit(struct snapshot_writer *r, const struct proc_own *own)
{
	const struct proc *p = &own->p;
	const char *texts[] = { p->cuda_error_call, p->cuda_error_name };
	struct snapshot_proc b = {
		.first_ns = own->p.first_ns,
		.exit_ns = p->exit_ns,
		.last_call_ns = p->last_call_ns,
		.attached_ns = p->attached_ns,
		.last_sync_ns = p->last_sync_ns,
		.n_ops = p->n_ops,
		.io_bytes = p->io_bytes,
		.prev_io_bytes = p->prev_io_bytes,
		.io_seen_ns = p->io_seen_ns,
		.prev_io_seen_ns = p->prev_io_seen_ns,
		.cuda_error_ns = p->cuda_error_ns,
		.throttled_ns = p->throttled_ns,
		.throttle_seen_ns = p->throttle_seen_ns,
		.prev_throttled_ns = p->prev_throttled_ns,
		.prev_throttle_seen_ns = p->prev_throttle_seen_ns,
		.quota_bits = bits_of(p->quota_cores),
		.steps = steps_body(&own->clock),
		.n_gpu_spans = p->n_gpu_spans,
		.exit_code = p->exit_code,
		.exit_signal = p->exit_signal,
		.cuda_error = p->cuda_error,
		.dead = p->dead,
		.shed = p->shed,
		.warm = own->warm,
		.disk = { .seen_ns = p->outside.disk.seen_ns, .seen_tid = p->outside.disk.seen_tid },
	};

	memcpy(b.disk.at_ns, p->outside.disk.at_ns, sizeof(b.disk.at_ns));
	memcpy(b.call_ns, p->call_ns, sizeof(p->call_ns));
	for (int i = 0; i < GPU_SPANS_KEPT; i++)
		b.gpu_spans[i] = (struct snapshot_span){ p->gpu_spans[i].ts_ns, p->gpu_spans[i].gpu_ns };
	emit_body(r, p, p->tgid, SNAPSHOT_PROC, &b, sizeof(b), texts, 2);
}

static void stack_emit(struct snapshot_writer *r, const struct task *t)
{
	const struct task_stack *s = &t->stack;
	struct event e = { .kind = EV_STACK, .tgid = t->tgid, .tid = t->tid, .ts_ns = s->ns };

	e.stack.sampled = s->sampled;
	e.stack.wait = s->wait;
	e.stack.file = s->file;
	e.stack.kernel = s->kernel;
	e.stack.frames = s->frames;
	e.stack.python = s->python;
	e.stack.native = s->native;
	e.stack.end = s->end;
	if (s->ns)
		emit_event(r, &e);
}

static void wait_emit(struct snapshot_writer *r, const struct task *t)
{
	struct event e = { .kind = EV_WAIT, .tgid = t->tgid, .tid = t->tid, .ts_ns = t->wait.ns, .wait = t->wait };

	if (t->wait.ns)
		emit_event(r, &e);
}

static void task_emit(struct snapshot_writer *r, const struct task *t)
{
	struct event name = { .kind = EV_THREAD, .tgid = t->tgid, .tid = t->tid, .ts_ns = r->m->now_ns };
	const char *texts[] = { t->name,  t->preempted_by, t->kernel_stack, t->user_stack,
				t->wchan, t->syscall,      t->file,         t->mount };
	struct snapshot_task b = {
		.since_ns = t->since_ns,
		.seen_ns = t->seen_ns,
		.run_ns = t->run_ns,
		.wait_ns = t->wait_ns,
		.sleep_ns = t->sleep_ns,
		.disk_ns = t->disk_ns,
		.stopped_ns = t->stopped_ns,
		.prev_run_ns = t->prev_run_ns,
		.prev_seen_ns = t->prev_seen_ns,
		.prev_wait_ns = t->prev_wait_ns,
		.preempted = t->preempted,
		.prev_preempted = t->prev_preempted,
		.blocked_since_ns = t->blocked_since_ns,
		.at_ns = t->at_ns,
		.group_begin_ns = ((const struct task_own *)t)->group_begin_ns,
		.state = t->state,
		.blocked = t->blocked,
		.stalled = t->stalled,
		.frozen = t->frozen,
		.mmap_lock_held = t->mmap_lock_held,
	};

	name.thread.name = t->name;
	if (*t->name)
		emit_event(r, &name);
	emit_body(r, t->proc, t->tid, SNAPSHOT_TASK, &b, sizeof(b), texts, 8);
	stack_emit(r, t);
	wait_emit(r, t);
}

/* From the back, as the list grows at its head: it comes out in the order it has. */
static void tasks_emit(struct snapshot_writer *r, const struct task *first)
{
	const struct task *at;

	for (const struct task *upto = NULL; upto != first; upto = at) {
		for (at = first; at->next != upto; at = at->next)
			;
		task_emit(r, at);
	}
}

void emit_procs(struct snapshot_writer *r)
{
	for (const struct proc *p = r->m->procs; p; p = proc_next(p)) {
		if (!proc_own((struct proc *)p)->hashed) /* dead, and its pid is another's */
			continue;
		identity_emit(r, proc_own((struct proc *)p));
		proc_emit(r, proc_own((struct proc *)p));
		tasks_emit(r, p->tasks);
	}
}

static void steps_take(struct iteration_clock *c, uint64_t n_ops, const struct snapshot_steps *b)
{
	if (b->period_ops > MODEL_OPS_KEPT || b->base > b->period_ops || (b->period_ops && !b->base) ||
	    b->checked_n > n_ops || b->found_n > b->checked_n || b->from_n > n_ops || b->searched_n > n_ops)
		return; /* no clock of ours */
	*c = (struct iteration_clock){
		.steps = { .period_ops = b->period_ops,
			   .n = b->n,
			   .phase = b->phase,
			   .role = b->role,
			   .median_s = double_of(b->median_bits) },
		.checked_n = b->checked_n,
		.found_n = b->found_n,
		.from_n = b->from_n,
		.searched_n = b->searched_n,
		.base = b->base,
	};
}

void emit_rank_clocks(struct snapshot_writer *r, const struct proc *p)
{
	for (const struct rank_clock *c = p->rank_clocks; c; c = c->next) {
		struct snapshot_rank_clock b = { .n_ops = c->n_ops,
						 .device = c->device,
						 .steps = steps_body(&c->clock) };

		emit_body(r, p, p->tgid, SNAPSHOT_RANK_CLOCK, &b, sizeof(b), NULL, 0);
	}
}

static bool has_device(const struct proc *p, int device)
{
	const struct member *mb = p->members;

	while (mb && mb->device != device)
		mb = mb->next_in_proc;
	return mb;
}

/* The operations that are kept are the newest: their numbers follow from how many there were. */
int take_rank_clock(struct model *m, const struct event *e)
{
	const struct snapshot_rank_clock *b = e->snapshot.body;
	struct proc_own *own = proc_get(m, event_proc(e), e->ts_ns);
	struct rank_clock *c;
	uint64_t n = b->n_ops;

	if (own && (!own->p.shared || !has_device(&own->p, b->device) || n > 1ull << 62))
		return -EINVAL;
	c = own ? rank_clock_get(&own->p, b->device) : NULL;
	if (!c)
		return -ENOMEM;
	own->p.by_threads = true;
	c->n_ops = b->n_ops;
	steps_take(&c->clock, b->n_ops, &b->steps);
	for (struct op *op = own->p.last_op; op && n; op = op->prev_in_proc)
		if (op->member->device == b->device)
			op->rank_nth = --n;
	return 0;
}

/* What events said of it, and what hangs on it; all else is the snapshot's. */
static struct proc proc_who(const struct proc *p)
{
	return (struct proc){
		.key = p->key,
		.node = p->node,
		.tgid = p->tgid,
		.ns_pid = p->ns_pid,
		.parent_tgid = p->parent_tgid,
		.start_ns = p->start_ns,
		.rank = p->rank,
		.local_rank = p->local_rank,
		.world_size = p->world_size,
		.is_child = p->is_child,
		.shared = p->shared,
		.by_threads = p->by_threads,
		.job = p->job,
		.name = p->name,
		.container = p->container,
		.pod = p->pod,
		.pod_name = p->pod_name,
		.namespace = p->namespace,
		.slurm_job = p->slurm_job,
		.slurm_step = p->slurm_step,
		.leader = p->leader,
		.tasks = p->tasks,
		.members = p->members,
		.n_tasks = p->n_tasks,
		.n_members = p->n_members,
		.streams = p->streams,
		.cuda_events = p->cuda_events,
		.calls = p->calls,
		.steps = p->steps,
		.rank_clocks = p->rank_clocks,
		.storage = p->storage,
		.storage_of_rank = p->storage_of_rank,
		.next = p->next,
		.last_op = p->last_op,
		.dead = p->dead,
		.n_ops = p->n_ops,
	};
}

static void proc_state_take(struct proc *p, const struct snapshot_proc *b, const char *const *text)
{
	p->first_ns = b->first_ns;
	p->dead = p->dead || b->dead;
	p->exit_code = b->exit_code;
	p->exit_signal = b->exit_signal;
	p->exit_ns = b->exit_ns;
	p->io_bytes = b->io_bytes;
	p->prev_io_bytes = b->prev_io_bytes;
	p->n_ops = larger(b->n_ops, p->n_ops);
	p->last_call_ns = b->last_call_ns;
	p->attached_ns = b->attached_ns;
	p->last_sync_ns = b->last_sync_ns;
	p->io_seen_ns = b->io_seen_ns;
	p->prev_io_seen_ns = b->prev_io_seen_ns;
	p->cuda_error = b->cuda_error;
	p->cuda_error_call = text[0];
	p->cuda_error_name = text[1];
	p->cuda_error_ns = b->cuda_error_ns;
	p->throttled_ns = b->throttled_ns;
	p->throttle_seen_ns = b->throttle_seen_ns;
	p->prev_throttled_ns = b->prev_throttled_ns;
	p->prev_throttle_seen_ns = b->prev_throttle_seen_ns;
	p->quota_cores = double_of(b->quota_bits);
	p->n_gpu_spans = b->n_gpu_spans;
	p->shed = b->shed & ((1u << PROBE_GROUPS) - 1);
	memcpy(p->call_ns, b->call_ns, sizeof(p->call_ns));
	for (int i = 0; i < GPU_SPANS_KEPT; i++)
		p->gpu_spans[i] = (struct gpu_span){ b->gpu_spans[i].ts_ns, b->gpu_spans[i].gpu_ns };
}

static void disk_take(struct disk_looks *l, const struct snapshot_disk_looks *b)
{
	l->seen_ns = b->seen_ns;
	l->seen_tid = b->seen_tid;
	memcpy(l->at_ns, b->at_ns, sizeof(l->at_ns));
}

int take_proc(struct model *m, const struct event *e)
{
	const struct snapshot_proc *b = e->snapshot.body;
	struct proc_own *own = proc_get(m, event_proc(e), e->ts_ns);
	struct proc *p = own ? &own->p : NULL;

	if (!p)
		return -ENOMEM;
	*p = proc_who(p);
	proc_state_take(p, b, e->snapshot.text);
	if (e->snapshot.bytes >= sizeof(*b))
		disk_take(&p->outside.disk, &b->disk);
	own->warm = b->warm;
	own->unprobed = p->shed >> PROBES_NEEDED & 1;
	m->state->any_unprobed |= own->unprobed;
	steps_take(&own->clock, p->n_ops, &b->steps);
	return 0;
}

int take_task(struct model *m, const struct event *e)
{
	const struct snapshot_task *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct task_own *own = p && !p->p.dead ? task_get(p, e->tid) : NULL;
	struct task *t = own ? &own->t : NULL;
	const char *const *text = e->snapshot.text;

	if (!t)
		return p && p->p.dead ? 0 : -ENOMEM;
	if (b->state > TASK_DEAD)
		return -EINVAL;
	own->group_begin_ns = b->group_begin_ns;
	*t = (struct task){
		.tid = t->tid,
		.tgid = t->tgid,
		.proc = t->proc,
		.next = t->next,
		.name = text[0],
		.preempted_by = text[1],
		.kernel_stack = text[2],
		.user_stack = text[3],
		.wchan = text[4],
		.syscall = text[5],
		.file = text[6],
		.mount = text[7],
		.state = b->state,
		.since_ns = b->since_ns,
		.seen_ns = b->seen_ns,
		.run_ns = b->run_ns,
		.wait_ns = b->wait_ns,
		.sleep_ns = b->sleep_ns,
		.disk_ns = b->disk_ns,
		.stopped_ns = b->stopped_ns,
		.prev_run_ns = b->prev_run_ns,
		.prev_seen_ns = b->prev_seen_ns,
		.prev_wait_ns = b->prev_wait_ns,
		.preempted = b->preempted,
		.prev_preempted = b->prev_preempted,
		.blocked = b->blocked,
		.stalled = b->stalled,
		.frozen = b->frozen,
		.blocked_since_ns = b->blocked_since_ns,
		.mmap_lock_held = b->mmap_lock_held,
		.at_ns = b->at_ns,
	};
	return 0;
}
