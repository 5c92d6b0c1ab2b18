/* SPDX-License-Identifier: Apache-2.0
 *
 * activity.c - judges a late rank by the scheduler's totals of all its threads and children. Totals come once a
 * second: a scan counts as evidence of work only when it lies wholly after the rank became late; a thread that is
 * asleep since long is at rest whatever its totals say of the time before.
 *
 * Whatever moves in the rank since its peers began to wait says that it is alive: work of its threads and children
 * (0.2 of a core: the watchdogs, pollers and interpreters of a rank that hangs stay far below), bytes, calls, counters
 * of any of its communicators, work of its GPU. Movement before says nothing: a rank that hangs did move until then.
 * What moved once is believed for a while only, two or three periods of what is sampled.
 */
#include "detect/rank/activity.h"

#include "detect/rank/children.h"
#include "detect/rank/gpu_work.h"
#include "detect/rank/places.h"

#define AT_REST_NS \
	400000000ull    /* asleep without a break for that long at the scan: no polling loop of ours to count \
			 */
#define IDLE_SHARE 0.2  /* cores; the watchdog's and helpers' polling stays below */
#define WANTS_SHARE 0.5 /* of the time */
#define MOVING_BYTES_S 100e3
#define CALLING_NS 1000000000ull    /* a call of any kind that recently: it is getting on */
#define DISK_HELD_NS 10000000000ull /* a look at threads at work on a disk that recently */
#define MOVED_NS 2500000000ull      /* counters that recently: two periods of the sampler and a tick */

struct sums {
	double settled, all, io_settled, io_all;
	bool seen, fresh, woken;
	bool unknown; /* a child is too young to say */
};

static bool at_rest(const struct task *t)
{
	return (t->state == TASK_SLEEP || t->state == TASK_STOPPED || t->state == TASK_DISK) &&
	       t->seen_ns > t->since_ns && t->seen_ns - t->since_ns > AT_REST_NS;
}

static void task_sum(struct sums *s, const struct task *t, uint64_t since_ns)
{
	double share = task_cpu_share(t);

	s->seen |= t->seen_ns != 0;
	s->fresh |= t->seen_ns > since_ns + AT_REST_NS;
	s->woken |= t->state == TASK_UNKNOWN && t->since_ns > since_ns; /* a D wait ended after the last scan */
	if (at_rest(t) || share < 0)
		return;
	s->all += share;
	if (t->prev_seen_ns >= since_ns)
		s->settled += share;
}

static void proc_sum(struct sums *s, const struct proc *p, uint64_t since_ns)
{
	double rate = 0;

	for (const struct task *t = p->tasks; t; t = t->next)
		task_sum(s, t, since_ns);
	if (p->prev_io_seen_ns && p->io_seen_ns > p->prev_io_seen_ns && p->io_bytes > p->prev_io_bytes)
		rate = (p->io_bytes - p->prev_io_bytes) * 1e9 / (p->io_seen_ns - p->prev_io_seen_ns);
	s->io_all += rate;
	if (p->prev_io_seen_ns >= since_ns)
		s->io_settled += rate;
}

/* --- signs of life besides CPU and bytes --- */

/* Both samples, the one before and the one that showed it, are of the time after. */
static bool counters_move(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		const struct samples *s = &mb->samples;

		if (!mb->gone && s->moved && s->after_ns >= since_ns && m->now_ns - s->since_ns < MOVED_NS)
			return true;
	}
	return false;
}

static bool is_of_rank(const struct model *m, const struct tcp_connection *c, const struct proc *p)
{
	const struct proc *owner = model_proc(m, c->proc);

	return owner && (owner == p || owner->leader == p);
}

/* Bytes a second on connections that lead to no rank that is known: an upload, a download, by the rank or a child. What
 * peers still send into the sockets of a rank that hangs is no life of its own. */
static bool sockets_move(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	double rate = 0;

	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = tcp_connection_at(m, i);
		const struct tcp_sample *now = c && !c->peer ? tcp_sample_at(c, 0) : NULL,
					*before = now ? tcp_sample_at(c, 1) : NULL;

		if (!before || before->now.taken_ns < since_ns || m->now_ns - now->now.taken_ns > MOVED_NS ||
		    now->now.taken_ns <= before->now.taken_ns || !is_of_rank(m, c, p))
			continue;
		rate += (tcp_grown(now, before, TCP_BYTES_ACKED) + tcp_grown(now, before, TCP_BYTES_RECEIVED)) * 1e9 /
			(now->now.taken_ns - before->now.taken_ns);
	}
	return rate >= MOVING_BYTES_S;
}

static bool is_alive(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	return sockets_move(m, p, since_ns) ||
	       (p->last_call_ns > since_ns && m->now_ns - p->last_call_ns < CALLING_NS) ||
	       counters_move(m, p, since_ns);
}

/* In D for an instant is what each thread is that reads or writes. */
static bool waits_for_disk(const struct proc *p, const struct task *t)
{
	return t->state == TASK_DISK && (t->tid == p->tgid || t->tid == rank_calling_tid(p) || at_rest(t));
}

/* The main thread waits for others, which are in D again and again, each for a moment: they read a shard's index, many
 * small files, pages from a network file system. A look or two do not say it yet. */
static enum activity disk_work(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	const struct disk_looks *l = &p->outside.disk;

	if (l->at_ns[0] <= since_ns || m->now_ns >= l->at_ns[0] + DISK_HELD_NS)
		return ACTIVITY_ASLEEP;
	return l->at_ns[DISK_LOOKS - 1] > since_ns ? ACTIVITY_BUSY : ACTIVITY_UNSETTLED;
}

static const struct task *special_task(const struct proc *p, enum activity *what)
{
	for (const struct task *t = p->tasks; t; t = t->next)
		if (t->blocked) {
			*what = ACTIVITY_BLOCKED;
			return t;
		}
	for (const struct task *t = p->tasks; t; t = t->next)
		if (t->state == TASK_STOPPED || waits_for_disk(p, t)) {
			*what = t->state == TASK_STOPPED ? ACTIVITY_STOPPED : ACTIVITY_DISK;
			return t;
		}
	return NULL;
}

bool rank_counts(const struct proc *p)
{
	return !proc_unobserved(p) && (p->members || (!p->is_child && p->rank >= 0));
}

bool proc_gone_or_stopped(const struct proc *p)
{
	const struct task *t = places_main_task(p);

	return p->dead || (t && t->state == TASK_STOPPED);
}

enum finding_cause proc_stop_cause(const struct proc *p)
{
	const struct task *t = places_main_task(p);

	return t && t->frozen ? CAUSE_FROZEN : CAUSE_STOPPED;
}

const struct op *rank_next_op(const struct proc *p)
{
	const struct op *op = p->last_op;

	if (!p->steps || !p->steps->period_ops)
		return NULL;
	for (size_t i = 1; op && i < p->steps->period_ops; i++)
		op = op->prev_in_proc;
	return op;
}

/* A backward thread and the main one take turns in PyTorch. */
uint32_t rank_calling_tid(const struct proc *p)
{
	const struct op *next = rank_next_op(p);

	return next ? next->tid : p->last_op ? p->last_op->tid : p->tgid;
}

static const struct task *calling_task(const struct proc *p)
{
	uint32_t tid = rank_calling_tid(p);

	for (const struct task *t = p->tasks; t; t = t->next)
		if (t->tid == tid)
			return t;
	return NULL;
}

bool rank_at_rest(const struct proc *p)
{
	const struct task *t = calling_task(p);

	return t && t->state == TASK_SLEEP && at_rest(t);
}

/* The thread that would have to call is asleep, and was since the rank is late as far as scans show. */
static bool sleeps(const struct task *t, uint64_t since_ns)
{
	return !t || (t->state == TASK_SLEEP && (at_rest(t) || t->prev_seen_ns >= since_ns));
}

/* Half of the time it ran or stood in a run queue: at work, however little of a CPU a crowded machine gives it. Only of
 * this thread: a watchdog that polls stands there too. */
static bool wants_cpu(const struct task *t, uint64_t since_ns)
{
	double share;

	if (!t || at_rest(t) || t->prev_seen_ns < since_ns || t->wait_ns < t->prev_wait_ns)
		return false;
	share = task_cpu_share(t);
	return share >= 0 &&
	       share + (double)(t->wait_ns - t->prev_wait_ns) / (t->seen_ns - t->prev_seen_ns) >= WANTS_SHARE;
}

static enum activity sums_judge(const struct sums *s, const struct task *calling, uint64_t since_ns)
{
	if (!s->seen)
		return ACTIVITY_UNSEEN;
	if (s->settled >= IDLE_SHARE || s->io_settled >= MOVING_BYTES_S || wants_cpu(calling, since_ns))
		return ACTIVITY_BUSY;
	if (s->fresh && !s->woken && !s->unknown && sleeps(calling, since_ns) && s->all < IDLE_SHARE &&
	    s->io_all < MOVING_BYTES_S)
		return ACTIVITY_ASLEEP;
	return ACTIVITY_UNSETTLED;
}

/* Blocked past the limit; else in D for so long by now that it is no ordinary read: `*ret_disk`. */
static const struct task *blocked_in(const struct proc *c, const struct task **ret_disk)
{
	for (const struct task *t = c->tasks; t; t = t->next) {
		if (t->blocked)
			return t;
		if (t->state == TASK_DISK && at_rest(t))
			*ret_disk = t;
	}
	return NULL;
}

/* It sleeps because its child is blocked: its dataloader's worker, or that one's. */
static struct rank_activity children_judge(const struct model *m, const struct proc *p, struct rank_activity a)
{
	const struct task *t, *disk = NULL;

	if (a.what != ACTIVITY_ASLEEP)
		return a;
	for (const struct proc *c = m->procs; c; c = c->next) {
		if (c == p || c->leader != p || c->dead)
			continue;
		t = blocked_in(c, &disk);
		if (t) {
			a.what = ACTIVITY_BLOCKED;
			a.task = t;
			return a;
		}
	}
	if (disk) {
		a.what = ACTIVITY_DISK;
		a.task = disk;
	}
	return a;
}

static struct sums sums_read(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	struct children young = children_read(m, p, since_ns);
	struct sums s = { .unknown = young.unknown };

	for (const struct proc *c = m->procs; c; c = c->next)
		if (c == p || (c->leader == p && !c->dead))
			proc_sum(&s, c, since_ns);
	s.settled += young.cpu_share;
	s.all += young.cpu_share;
	s.io_settled += young.io_bytes_s;
	s.io_all += young.io_bytes_s;
	return s;
}

/* It sleeps, and no thread, child or socket of it moves; its GPU may work. What is known not to end is no work,
 * whatever the host waits for. */
static enum activity sleeper_judge(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	enum gpu_work gpu = rank_gpu_work(m, p, since_ns);

	return gpu == GPU_WORK_DONE || (gpu == GPU_WORK_UNKNOWN && proc_waits(p)) ? ACTIVITY_GPU : ACTIVITY_ASLEEP;
}

enum activity rank_helpers_activity(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	struct children young = children_read(m, p, since_ns);
	struct sums s = { .settled = young.cpu_share, .io_settled = young.io_bytes_s };

	for (const struct proc *c = m->procs; c; c = c->next)
		if (c != p && c->leader == p && !c->dead)
			proc_sum(&s, c, since_ns);
	if (s.settled >= IDLE_SHARE || s.io_settled >= MOVING_BYTES_S || sockets_move(m, p, since_ns))
		return ACTIVITY_BUSY;
	return young.unknown ? ACTIVITY_UNSETTLED : ACTIVITY_ASLEEP;
}

struct rank_activity rank_activity(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	struct rank_activity a = { .cpu_share = -1 };
	struct sums s;

	if (p->dead) {
		a.what = ACTIVITY_DEAD;
		return a;
	}
	a.task = special_task(p, &a.what);
	if (a.task)
		return a;
	s = sums_read(m, p, since_ns);
	a.task = calling_task(p);
	a.cpu_share = s.all;
	a.io_bytes_s = s.io_all;
	a.what = sums_judge(&s, a.task, since_ns);
	if (a.what == ACTIVITY_ASLEEP && is_alive(m, p, since_ns))
		a.what = ACTIVITY_BUSY;
	if (a.what == ACTIVITY_ASLEEP)
		a.what = disk_work(m, p, since_ns);
	if (a.what == ACTIVITY_ASLEEP)
		a.what = sleeper_judge(m, p, since_ns);
	return children_judge(m, p, a);
}
