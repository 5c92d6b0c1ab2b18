/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_thread.c - see proxy_thread.h. On a busy machine every proxy waits for a CPU: starved is who waits most of the
 * time while each peer either waits half as much or gets several times as much.
 */
#include "detect/transfer/proxy_thread.h"

#include <string.h>

#include "detect/rank/activity.h"

#define AT_REST_NS 400000000ull /* asleep without a break: no poll with a timeout */
#define WINDOW_MIN_NS 200000000ull
#define STARVED_WAIT 0.5    /* of the time between two scans */
#define POLLS_WAIT 0.3      /* below it the thread had the CPU when it wanted it */
#define POLLS_RUN_NS 200000 /* it went round more than once: that takes some microseconds */
#define PEER_WAIT 0.5       /* of the starved one's wait: no more than that ... */
#define PEER_RUN 4          /* ... or so many times its CPU time */

static const char NAME[] = "NCCL Progress";

static bool is_proxy(const struct task *t)
{
	return t->name && !strncmp(t->name, NAME, sizeof(NAME) - 1);
}

const struct task *proxy_task(const struct member *mb)
{
	const struct task *only = NULL;

	for (const struct task *t = mb->proc->tasks; t; t = t->next) {
		if (mb->proxies.thread && t->tid == mb->proxies.thread)
			return t;
		if (mb->proxies.thread || !is_proxy(t))
			continue;
		if (only)
			return NULL;
		only = t;
	}
	return only;
}

static bool measured(const struct task *t)
{
	return t && t->prev_seen_ns && t->seen_ns >= t->prev_seen_ns + WINDOW_MIN_NS && t->run_ns >= t->prev_run_ns &&
	       t->wait_ns >= t->prev_wait_ns;
}

/* The kernel adds a wait to the total when it is over. */
static bool waited_all_along(const struct task *t)
{
	return t->state == TASK_RUNNABLE && t->run_ns == t->prev_run_ns && t->wait_ns == t->prev_wait_ns &&
	       t->since_ns <= t->prev_seen_ns;
}

static double wait_share(const struct task *t)
{
	double share = (double)(t->wait_ns - t->prev_wait_ns) / (t->seen_ns - t->prev_seen_ns);

	return waited_all_along(t) || share > 1 ? 1 : share;
}

/* CPU time a second: scans of different ranks are not of one length. */
static double run_share(const struct task *t)
{
	return (double)(t->run_ns - t->prev_run_ns) / (t->seen_ns - t->prev_seen_ns);
}

static bool better_off(const struct task *peer, const struct task *t)
{
	double run = run_share(t);

	return wait_share(peer) <= PEER_WAIT * wait_share(t) ||
	       (run_share(peer) > 0 && run_share(peer) >= PEER_RUN * run);
}

double proxy_peers_wait(const struct member *mb)
{
	double sum = 0;
	int n = 0;

	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o)) {
		const struct task *peer = o == mb || o->gone || o->proc->dead ? NULL : proxy_task(o);

		sum += measured(peer) ? wait_share(peer) : 0;
		n += measured(peer);
	}
	return n ? sum / n : -1;
}

/* One peer at least is known to be better off, and none is as badly off. */
static bool starved(const struct member *mb, const struct task *t)
{
	int n = 0;

	if (wait_share(t) < STARVED_WAIT)
		return false;
	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o)) {
		const struct task *peer = o == mb || o->gone || o->proc->dead ? NULL : proxy_task(o);

		if (!measured(peer))
			continue;
		if (!better_off(peer, t))
			return false;
		n++;
	}
	return n > 0;
}

bool proxy_at_rest(const struct task *t)
{
	return t->state == TASK_SLEEP && t->seen_ns > t->since_ns + AT_REST_NS;
}

enum proxy_thread proxy_thread_judge(const struct member *mb)
{
	const struct task *t = proxy_task(mb);

	if (mb->proc->dead)
		return PROXY_DEAD;
	if (proc_gone_or_stopped(mb->proc) || (t && t->state == TASK_STOPPED))
		return PROXY_STOPPED;
	if (!t || !t->seen_ns)
		return PROXY_UNSEEN;
	if (t->blocked || (t->state == TASK_DISK && t->seen_ns > t->since_ns + AT_REST_NS))
		return PROXY_BLOCKED;
	if (proxy_at_rest(t)) /* with nothing active it may: there is nothing to look at */
		return mb->proxies.n ? PROXY_ASLEEP : PROXY_POLLS;
	if (!measured(t))
		return PROXY_UNSEEN;
	if (starved(mb, t))
		return PROXY_STARVED;
	if (t->run_ns < t->prev_run_ns + POLLS_RUN_NS)
		return PROXY_UNSETTLED;
	return wait_share(t) < POLLS_WAIT ? PROXY_POLLS : PROXY_POLLS_LATE;
}

void proxy_thread_note(struct finding *f, const struct member *mb)
{
	const struct task *t = proxy_task(mb);

	if (!t)
		return;
	finding_note_text(f, EVIDENCE_THREAD, t->name);
	finding_note(f, EVIDENCE_TID, t->tid);
	finding_note_text(f, EVIDENCE_STATE, task_state_name(t->state));
	if (!measured(t))
		return;
	finding_note(f, EVIDENCE_CPU_SHARE, run_share(t));
	finding_note(f, EVIDENCE_RUNQUEUE_WAIT_SHARE, wait_share(t));
}
