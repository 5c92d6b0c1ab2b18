/* SPDX-License-Identifier: Apache-2.0
 *
 * report_thread.c - the threads of a rank that a verdict is about: the one that calls NCCL, the main one, and those
 * that are blocked or stopped.
 */
#include "cluster/report_part.h"
#include "detect/rank/activity.h"

#define THREADS_MAX 8 /* of a rank; further ones are counted */

static void wait_put(struct report_block *b, Cluster__Thread *to, const struct waits_for *w, uint64_t now_ns)
{
	static const Cluster__WaitsFor none = CLUSTER__WAITS_FOR__INIT;
	Cluster__WaitsFor *one = w->ns ? report_alloc(b, sizeof(*one)) : NULL;

	if (!one)
		return;
	*one = none;
	one->has_read_age_ns = one->has_kind = one->has_act = one->has_flags = 1;
	one->read_age_ns = report_age(now_ns, w->ns);
	one->kind = w->kind;
	one->act = w->act;
	one->flags = w->flags;
	one->has_pid = w->pid != 0;
	one->pid = w->pid;
	one->has_thread = w->thread != 0;
	one->thread = w->thread;
	one->has_n = w->n > 1;
	one->n = w->n;
	one->has_since_age_ns = w->since_ns != 0;
	one->since_age_ns = report_age(now_ns, w->since_ns);
	one->has_length_ns = w->length_ns != 0;
	one->length_ns = w->length_ns;
	one->has_left_ns = w->until_ns > now_ns;
	one->left_ns = w->until_ns - now_ns;
	one->what = report_text(w->what);
	one->who = report_text(w->who);
	one->activity = report_text(w->activity);
	to->waits_for = one;
}

static void texts_put(Cluster__Thread *to, const struct task *t, uint64_t now_ns)
{
	uint64_t at_ns = t->blocked ? t->seen_ns : t->at_ns;

	to->has_at_age_ns = at_ns != 0;
	to->at_age_ns = report_age(now_ns, at_ns);
	to->wchan = at_ns ? report_text(t->wchan) : NULL;
	to->syscall = at_ns ? report_text(t->syscall) : NULL;
	to->file = at_ns ? report_text(t->file) : NULL;
	if (!t->stack.ns)
		return;
	to->has_stack_age_ns = 1;
	to->stack_age_ns = report_age(now_ns, t->stack.ns);
	to->python = report_text(t->stack.python);
	to->native = report_text(t->stack.native);
	to->stack_end = report_text(t->stack.end);
}

static Cluster__Thread *thread_of(struct report_block *b, const struct task *t, uint64_t now_ns)
{
	static const Cluster__Thread none = CLUSTER__THREAD__INIT;
	Cluster__Thread *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	to->has_tid = to->has_state = to->has_state_age_ns = to->has_seen_age_ns = to->has_run_ns = to->has_wait_ns =
		to->has_sleep_ns = to->has_disk_ns = 1;
	to->tid = t->tid;
	to->name = report_text(t->name);
	to->state = t->state;
	to->state_age_ns = report_age(now_ns, t->since_ns);
	to->seen_age_ns = report_age(now_ns, t->seen_ns);
	to->run_ns = t->run_ns;
	to->wait_ns = t->wait_ns;
	to->sleep_ns = t->sleep_ns;
	to->disk_ns = t->disk_ns;
	to->has_stopped_ns = t->stopped_ns != 0;
	to->stopped_ns = t->stopped_ns;
	to->has_frozen = to->frozen = t->frozen;
	texts_put(to, t, now_ns);
	wait_put(b, to, &t->wait, now_ns);
	return to;
}

static bool matters(const struct task *t, uint32_t calling_tid)
{
	return t->tid == t->tgid || t->tid == calling_tid || t->blocked || t->state == TASK_STOPPED;
}

void report_threads(struct report_block *b, const struct proc *p, Cluster__Process *to, uint64_t now_ns)
{
	uint32_t calling = rank_calling_tid(p);

	to->threads = report_list(b, THREADS_MAX);
	for (const struct task *t = p->tasks; t; t = t->next) {
		Cluster__Thread *one;

		if (!t->seen_ns || !matters(t, calling))
			continue;
		one = to->threads && to->n_threads < THREADS_MAX ? thread_of(b, t, now_ns) : NULL;
		if (one)
			to->threads[to->n_threads++] = one;
		else
			b->left_out++;
	}
}
