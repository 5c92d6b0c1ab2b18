/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.c - processes and threads of the job: identity, life, scheduler state, waits in D state. A process is the
 * rank's own (leader) or a child that carries its rank's numbers; a pid that comes back with another start time
 * is another process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/state.h"

#define TASKS_FEW 8 /* so many are looked through, see MEMBERS_FEW */
#define FORK_KNOWN_NS \
	1000000000ull /* a process known longer is not the one that is forked now: the pid is used again \
		       */

static struct proc_own *proc_new(struct model *m, uint64_t key, uint64_t ts_ns)
{
	struct node *n = node_get(m, key >> 32);
	struct proc_own *p = n ? lines_alloc(sizeof(*p)) : NULL;

	if (!p)
		return NULL;
	p->p.key = key;
	p->p.node = n;
	p->p.tgid = (uint32_t)key;
	p->p.first_ns = ts_ns;
	p->p.rank = p->p.local_rank = p->p.world_size = -1;
	p->p.job = &job_none;
	p->p.name = p->p.container = p->p.pod = p->p.pod_name = p->p.namespace = p->p.slurm_job = p->p.slurm_step =
		p->p.cuda_error_call = p->p.cuda_error_name = "";
	p->p.steps = &p->clock.steps;
	p->p.leader = &p->p;
	HASH_ADD(hh, m->state->procs, p.key, sizeof(key), p);
	if (!p->hh.tbl) {
		free(p);
		return NULL;
	}
	p->hashed = true;
	p->nth = m->state->n_procs_ever++;
	p->p.next = m->past;
	*m->procs_tail = &p->p;
	m->procs_tail = &p->p.next;
	m->n_procs++;
	m->state->ahead_stale = true;
	n->n_procs++;
	return p;
}

void proc_unhash(struct model *m, struct proc_own *p)
{
	if (p->hashed)
		HASH_DEL(m->state->procs, p);
	p->hashed = false;
	if (m->state->found == p)
		m->state->found = NULL;
}

static struct proc_own *proc_find(const struct model *m, uint64_t key)
{
	struct proc_own *p = m->state->found;

	if (p && p->p.key == key)
		return p;
	HASH_FIND(hh, m->state->procs, &key, sizeof(key), p);
	if (p)
		m->state->found = p;
	return p;
}

struct proc_own *proc_get(struct model *m, uint64_t key, uint64_t ts_ns)
{
	struct proc_own *p = proc_find(m, key);

	return p ? p : proc_new(m, key, ts_ns);
}

const struct proc *model_proc(const struct model *m, uint64_t proc)
{
	struct proc_own *p = proc_find(m, proc);

	return p ? &p->p : NULL;
}

static struct task_own *task_new(struct proc_own *p, uint32_t tid)
{
	struct task_own *t = lines_alloc(sizeof(*t));

	if (!t)
		return NULL;
	t->t.tid = tid;
	t->t.tgid = p->p.tgid;
	t->t.name = t->t.preempted_by = t->t.kernel_stack = t->t.user_stack = t->t.wchan = t->t.syscall = t->t.file =
		t->t.mount = "";
	t->t.proc = &p->p;
	HASH_ADD(hh, p->tasks, t.tid, sizeof(tid), t);
	if (!t->hh.tbl) {
		free(t);
		return NULL;
	}
	t->t.next = p->p.tasks;
	p->p.tasks = &t->t;
	p->p.n_tasks++;
	return t;
}

static struct task_own *task_find(const struct proc_own *p, uint32_t tid)
{
	struct task_own *found;

	if (p->p.n_tasks > TASKS_FEW) {
		HASH_FIND(hh, p->tasks, &tid, sizeof(tid), found);
		return found;
	}
	for (struct task *t = p->p.tasks; t; t = t->next)
		if (t->tid == tid)
			return (struct task_own *)t;
	return NULL;
}

struct task_own *task_get(struct proc_own *p, uint32_t tid)
{
	struct task_own *t = task_find(p, tid);

	return t ? t : task_new(p, tid);
}

const struct task *model_task(const struct model *m, uint64_t proc, uint32_t tid)
{
	struct proc_own *p = proc_find(m, proc);
	struct task_own *t = p ? task_find(p, tid) : NULL;

	return t ? &t->t : NULL;
}

static void task_free(struct proc_own *p, struct task_own *t)
{
	struct task **link = &p->p.tasks;

	while (*link && *link != &t->t)
		link = &(*link)->next;
	if (*link)
		*link = t->t.next;
	p->p.n_tasks--;
	HASH_DEL(p->tasks, t); /* lint: t is in the table */
	free(t->pending);
	free(t->said);
	free(t);
}

/* CUDA and NCCL state: gone with an exec. Finished and unfinished operations stay in the lists. */
static void proc_reset(struct model *m, struct proc_own *p)
{
	p->p.shared = p->p.by_threads = p->warm = false;
	rank_clocks_free(&p->p);
	comm_inits_forget_proc(m, &p->p);
	qps_gone_proc(m, &p->p);
	for (struct member *mb = p->p.members; mb; mb = member_next_in_proc(mb)) {
		member_forget(mb);
		mb->n_pending = 0;
	}
	streams_free(p);
	phases_free(p);
	process_groups_forget(p);
	for (struct task *t = p->p.tasks; t; t = t->next) {
		((struct task_own *)t)->n_pending = 0;
		((struct task_own *)t)->group_begin_ns = 0;
		t->stack.ns = t->wait.ns = 0; /* another program */
	}
}

bool proc_is_unprobed(const struct model *m, uint64_t key)
{
	const struct proc_own *p = m->state->any_unprobed ? proc_find(m, key) : NULL;

	return p && p->unprobed;
}

/* What was seen of its calls ends here, and would never end by itself. A communicator in which none was seen goes on as
 * it is: of a job that hangs nothing changes. */
static void proc_unprobe(struct model *m, struct proc_own *p)
{
	bool called = false;

	for (struct member *mb = p->p.members; mb; mb = member_next_in_proc(mb)) {
		called |= !mb->gone && mb->last_call_ns;
		if (mb->last_call_ns)
			member_forget(mb);
		mb->n_pending = 0;
	}
	while (p->p.calls)
		call_forget(p, p->p.calls->tid);
	for (struct task *t = p->p.tasks; t; t = t->next) {
		((struct task_own *)t)->n_pending = 0;
		((struct task_own *)t)->group_begin_ns = 0;
	}
	comm_inits_forget_proc(m, &p->p);
	phases_reset(p);
	process_groups_forget(p);
	if (called)
		streams_free(p);
}

static int tier_note(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_find(m, event_proc(e));

	if (!p || p->p.dead)
		return 0;
	if (!e->tier.tier && e->tier.before)
		proc_unprobe(m, p);
	p->unprobed = !e->tier.tier;
	m->state->any_unprobed |= p->unprobed;
	return 0;
}

/* A call whose probes are gone may be over: nothing is reported of it any more. */
static void calls_shed(struct proc_own *p, uint64_t ts_ns)
{
	p->p.calls_shed_ns = ts_ns;
	for (struct call *c = p->p.calls, *next; c; c = next) {
		next = c->next;
		if (!c->is_sync)
			call_forget(p, c->tid);
	}
}

/* What polls showed stays as it was and grows old. A CUDA event that is recorded again, unseen, would stand for work
 * that is long over. */
static int budget_note(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_find(m, event_proc(e));
	uint32_t changed, gone;

	if (!p || p->p.dead || e->budget.what == BUDGET_COST)
		return 0;
	changed = p->p.shed ^ e->budget.shed;
	gone = changed & e->budget.shed;
	p->p.shed = e->budget.shed;
	p->p.probes_changed_ns = e->ts_ns;
	if (gone >> PROBES_NEEDED & 1)
		proc_unprobe(m, p);
	if (gone >> PROBES_EVENTS & 1)
		cuda_events_forget(p);
	if (changed & (1u << PROBES_CALLS | 1u << PROBES_RANGES))
		phases_begin(p);
	if (gone >> PROBES_RANGES & 1)
		process_groups_forget(p);
	if (changed >> PROBES_CALLS & 1)
		calls_shed(p, e->ts_ns);
	if (changed >> PROBES_NEEDED & 1)
		p->unprobed = gone >> PROBES_NEEDED & 1;
	m->state->any_unprobed |= p->unprobed;
	return 0;
}

void proc_free(struct proc_own *p)
{
	struct member_own *mb, *next_mb;
	struct task_own *t, *next;

	proc_leave(p);
	streams_free(p);
	phases_free(p);
	counters_free(&p->p);
	storage_free(&p->p);
	rank_clocks_free(&p->p);
	HASH_ITER (hh, p->tasks, t, next) {
		task_free(p, t);
	}
	HASH_ITER (hh, p->members, mb, next_mb) {
		member_unhash(p, mb);
	}
	for (struct member *m = p->p.members, *m_next; m; m = m_next) {
		m_next = m->next_in_proc;
		member_free((struct member_own *)m);
	}
	free(p);
}

static void proc_die(struct model *m, struct proc_own *p, uint64_t ts_ns)
{
	m->state->jobs_stale |= !p->p.is_child;
	p->p.dead = true;
	p->p.exit_ns = ts_ns;
	for (struct member *mb = p->p.members; mb; mb = member_next_in_proc(mb))
		mb->n_pending = 0; /* what their threads held back never comes */
	while (p->p.tasks)
		task_free(p, (struct task_own *)p->p.tasks);
	streams_free(p);
}

/* Its pid is another process' now; it stays in the list, dead. */
static void proc_replaced(struct model *m, struct proc_own *p, uint64_t ts_ns)
{
	if (!p->p.dead) /* its end was missed */
		proc_die(m, p, ts_ns);
	proc_unhash(m, p);
	reap_died(m); /* may free it */
}

static const char *text_or_none(const char *s)
{
	return s ? s : "";
}

static void texts_note(struct proc *p, const struct event_proc *e)
{
	p->name = text_or_none(e->name);
	p->container = text_or_none(e->container);
	p->pod = text_or_none(e->pod);
	p->pod_name = text_or_none(e->pod_name);
	p->namespace = text_or_none(e->namespace);
	p->slurm_job = text_or_none(e->slurm_job);
	p->slurm_step = text_or_none(e->slurm_step);
	if (e->boot_id && *e->boot_id)
		p->node->boot_id = e->boot_id;
}

static int proc_note(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_find(m, event_proc(e));
	int err;

	if (p && (p->p.dead || (p->p.start_ns && e->proc.start_ns && p->p.start_ns != e->proc.start_ns))) {
		proc_replaced(m, p, e->ts_ns);
		p = NULL;
	}
	if (!p && !(p = proc_new(m, event_proc(e), e->ts_ns)))
		return -ENOMEM;
	p->p.start_ns = e->proc.start_ns;
	p->p.parent_tgid = e->proc.parent_tgid;
	p->p.ns_pid = e->proc.ns_pid;
	p->p.local_rank = e->proc.local_rank;
	p->p.world_size = e->proc.world_size;
	p->p.is_child = e->proc.is_child;
	if (p->p.is_child) /* copies of its rank's: a busy host took it for a rank itself at first */
		members_forget_sampled(&p->p);
	texts_note(&p->p, &e->proc);
	err = rank_set(m, p, e->proc.rank);
	err = err ? err : proc_place(m, p, &e->proc);
	leaders_link(m, &p->p);
	return err;
}

/* A child of a rank belongs to it before anybody says so: a dataloader that blocks at once has a rank. Ranks that no
 * launcher numbered are known by their communicators. */
static int proc_forked(struct model *m, const struct event *e)
{
	struct proc_own *parent = proc_find(m, event_proc(e)), *p;

	if (e->fork.child_tgid == e->tgid) {
		p = proc_get(m, event_proc(e), e->ts_ns);
		return p && task_get(p, e->fork.child_tid) ? 0 : -ENOMEM;
	}
	p = proc_find(m, proc_key(e->node, e->fork.child_tgid));
	if (p && (p->p.dead || e->ts_ns > p->p.first_ns + FORK_KNOWN_NS)) {
		proc_replaced(m, p, e->ts_ns);
		p = NULL;
	}
	if (p) /* reported of already */
		return 0;
	p = proc_new(m, proc_key(e->node, e->fork.child_tgid), e->ts_ns);
	if (!p)
		return -ENOMEM;
	p->p.parent_tgid = e->tgid;
	if (parent && (parent->p.rank >= 0 || parent->p.members)) {
		if (rank_set(m, p, parent->p.rank))
			return -ENOMEM;
		p->p.local_rank = parent->p.local_rank;
		p->p.world_size = parent->p.world_size;
		p->p.is_child = true;
		proc_follow(m, &p->p, &parent->p);
		p->p.leader = parent->p.leader;
	}
	return 0;
}

/* What a thread did after its last scan: no more than the time from there. */
static void end_run_add(struct proc *p, const struct task_own *t, const struct event *e)
{
	uint64_t scanned_ns = t ? t->t.run_ns : 0, from_ns = t && t->t.seen_ns ? t->t.seen_ns : p->first_ns;
	uint64_t run_ns = e->exit.run_ns - smaller(scanned_ns, e->exit.run_ns);
	uint64_t most_ns = e->ts_ns - smaller(from_ns, e->ts_ns);

	p->end_run_known |= e->exit.run_ns != 0;
	p->end_run_ns += smaller(run_ns, most_ns);
}

static int proc_exited(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct task_own *t;

	if (!p)
		return -ENOMEM;
	t = task_find(p, e->tid);
	if (!p->p.dead)
		end_run_add(&p->p, t, e);
	if (!e->exit.last) {
		if (t) {
			group_flush(m, p, t, e->ts_ns);
			task_free(p, t);
		}
		return 0;
	}
	p->p.exit_code = e->exit.code;
	p->p.exit_signal = e->exit.signal;
	if (p->p.dead)
		return 0;
	proc_die(m, p, e->ts_ns);
	reap_died(m);
	return 0;
}

static int throttle_note(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	if (p->p.dead || e->ts_ns <= p->p.throttle_seen_ns)
		return 0;
	p->p.prev_throttled_ns = p->p.throttled_ns;
	p->p.prev_throttle_seen_ns = p->p.throttle_seen_ns;
	p->p.throttled_ns = e->throttle.throttled_ns;
	p->p.throttle_seen_ns = e->ts_ns;
	p->p.quota_cores = e->throttle.quota_millicores * 1e-3;
	return 0;
}

static void task_blocked(struct task *t, const struct event *e)
{
	t->blocked = !e->blocked.asleep;
	t->stalled = e->blocked.asleep;
	t->at_ns = t->stalled ? e->ts_ns : 0;
	t->state = t->stalled ? TASK_SLEEP : TASK_DISK;
	t->since_ns = t->blocked_since_ns = e->blocked.begin_ns;
	t->kernel_stack = e->blocked.kernel_stack ? e->blocked.kernel_stack : "";
	t->user_stack = e->blocked.user_stack ? e->blocked.user_stack : "";
	t->wchan = e->blocked.wchan ? e->blocked.wchan : "";
	t->syscall = e->blocked.syscall ? e->blocked.syscall : "";
	t->file = e->blocked.file ? e->blocked.file : "";
	t->mount = e->blocked.mount ? e->blocked.mount : "";
	t->mmap_lock_held = e->blocked.mmap_lock_held;
}

static void task_at(struct task *t, const struct event *e)
{
	if (t->blocked || t->stalled) /* reported with its evidence */
		return;
	t->at_ns = e->ts_ns;
	t->wchan = e->task_at.wchan;
	t->syscall = e->task_at.syscall;
	t->file = e->task_at.file;
}

static void stack_note(struct proc *p, struct task *t, const struct event *e)
{
	p->outside.stacks_unread = e->stack.unread ? e->stack.end : NULL;
	if (e->stack.unread)
		return;
	t->stack = (struct task_stack){ .ns = e->ts_ns,
					.sampled = e->stack.sampled,
					.wait = e->stack.wait,
					.file = e->stack.file,
					.kernel = e->stack.kernel,
					.frames = e->stack.frames,
					.python = e->stack.python,
					.native = e->stack.native,
					.end = e->stack.end };
}

static int task_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct task_own *t;

	if (!p)
		return -ENOMEM;
	if (p->p.dead) /* a scan that raced with the end */
		return 0;
	t = task_get(p, e->tid);
	if (!t)
		return -ENOMEM;
	if (e->kind == EV_THREAD)
		t->t.name = e->thread.name ? e->thread.name : "";
	else if (e->kind == EV_BLOCKED)
		task_blocked(&t->t, e);
	else if (e->kind == EV_TASK_AT)
		task_at(&t->t, e);
	else if (e->kind == EV_STACK)
		stack_note(&p->p, &t->t, e);
	else if (e->kind == EV_WAIT)
		t->t.wait = e->wait;
	else if (e->kind == EV_TASK) {
		task_scanned(&t->t, e);
		if (e->tid == e->tgid)
			p->p.end_run_ns = 0;
		proc_io_scanned(&p->p, e->task.io_bytes, e->ts_ns);
	}
	return 0;
}

static int scanned_note(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	p->p.comms_scanned = true;
	return 0;
}

/* tgid 0: the task died in its wait and its process is not known any more. */
static void blocked_end(struct model *m, const struct event *e)
{
	struct task_own *t;

	for (struct proc *p = m->procs; p; p = proc_next(p)) {
		if (p->node->number != e->node || (e->tgid && p->tgid != e->tgid))
			continue;
		t = task_find(proc_own(p), e->tid);
		if (t && (t->t.blocked || t->t.stalled) && e->blocked.begin_ns >= t->t.blocked_since_ns) {
			t->t.blocked = t->t.stalled = false;
			t->t.state = TASK_UNKNOWN;
			t->t.since_ns = e->ts_ns;
		}
	}
}

int proc_apply(struct model *m, const struct event *e)
{
	struct proc_own *p;

	switch (e->kind) {
	case EV_PROC: return proc_note(m, e);
	case EV_FORK: return proc_forked(m, e);
	case EV_EXIT: return proc_exited(m, e);
	case EV_EXEC:
		p = proc_get(m, event_proc(e), e->ts_ns);
		if (!p)
			return -ENOMEM;
		proc_reset(m, p);
		return 0;
	case EV_TIER: return tier_note(m, e);
	case EV_BUDGET: return budget_note(m, e);
	case EV_COMM_SCAN: return scanned_note(m, e);
	case EV_THROTTLE: return throttle_note(m, e);
	case EV_BLOCKED_END: blocked_end(m, e); return 0;
	default: return task_apply(m, e);
	}
}

double task_cpu_share(const struct task *t)
{
	if (!t->prev_seen_ns || t->seen_ns <= t->prev_seen_ns || t->run_ns < t->prev_run_ns)
		return -1;
	return (double)(t->run_ns - t->prev_run_ns) / (t->seen_ns - t->prev_seen_ns);
}

int proc_rank(const struct proc *p)
{
	const struct member *best = NULL;

	if (p->shared)
		return -1;
	if (p->rank >= 0)
		return p->rank;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (mb->rank >= 0 && (!best || mb->comm->nranks > best->comm->nranks))
			best = mb;
	return best ? best->rank : -1;
}
