/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_worker.c - the job in the helper process: descriptors or children in, the one that the thread most likely waits
 * for out. Of many descriptors a peer that may answer says more than a wake-up of the program's own.
 */
#include "inspect/wait/wait_private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* The order of enum end_kind, below it what is the process' own business. */
static int evidence(const struct wait_end *e)
{
	if (e->is_own && !e->pid)
		return 0;
	if (e->is_child)
		return 2 * END_TCP;
	return 1 + e->kind;
}

/* Of two alike the one that was heard of last: where a request went out, or an answer comes. */
static bool is_better(const struct wait_end *a, const struct wait_end *b)
{
	int d = evidence(a) - evidence(b);

	return d ? d > 0 : a->quiet_ns < b->quiet_ns;
}

static const struct wait_end *end_choose(const struct wait_ends *s, uint32_t *ret_n)
{
	const struct wait_end *best = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (!best || is_better(&s->ends[i], best))
			best = &s->ends[i];
	*ret_n = 0;
	for (size_t i = 0; best && i < s->n; i++)
		*ret_n += evidence(&s->ends[i]) == evidence(best);
	return best;
}

static enum waits_kind kind_of(const struct wait_end *e)
{
	switch (e->kind) {
	case END_TCP:
	case END_SOCKET:
	case END_UDP:
	case END_LISTEN: return WAITS_SOCKET;
	case END_UNIX: return e->is_child ? WAITS_CHILD : WAITS_SOCKET;
	case END_PIPE:
	case END_FIFO: return e->is_child && e->fd.act == WAITS_TO_READ ? WAITS_CHILD : WAITS_PIPE;
	case END_FILE: return WAITS_FILE;
	case END_TIMER: return WAITS_TIMER;
	case END_EVENT: return WAITS_EVENT;
	case END_PROCESS: return WAITS_CHILD;
	default: return WAITS_UNKNOWN;
	}
}

static enum waits_act act_of(const struct wait_end *e)
{
	if (e->kind == END_LISTEN)
		return WAITS_TO_ACCEPT;
	if (e->kind == END_PROCESS)
		return WAITS_TO_END;
	return e->is_opening ? WAITS_TO_CONNECT : e->fd.act;
}

static uint32_t flags_of(const struct wait_end *e)
{
	uint32_t flags = e->is_own && !e->pid ? WAITS_OWN : 0;

	if (e->kind == END_UNIX)
		flags |= WAITS_UNIX;
	if (e->kind == END_UDP)
		flags |= WAITS_UDP;
	if ((e->kind == END_PIPE || e->kind == END_FIFO) && !e->pid && !e->is_own)
		flags |= WAITS_UNOPENED;
	return flags;
}

static void end_answer(const struct wait_end *e, uint32_t n, struct wait_answer *a)
{
	bool is_shared = e->kind == END_PIPE || e->kind == END_FIFO;

	a->kind = kind_of(e);
	a->act = act_of(e);
	a->flags = flags_of(e);
	a->pid = e->pid;
	a->n = is_shared || a->kind == WAITS_CHILD ? (uint32_t)e->n_pids : n;
	a->quiet_ns = e->quiet_ns;
	a->until_ns = e->until_ns;
	a->bytes = e->bytes;
	if (e->kind != END_PIPE && a->kind != WAITS_CHILD)
		memcpy(a->what, e->what, sizeof(a->what));
}

static void fds_answer(const struct wait_question *q, struct wait_answer *a)
{
	static struct wait_ends s;
	const struct wait_end *best;
	uint32_t n;

	s.tgid = q->tgid;
	s.n = 0;
	wait_fds_sample(&s, q->fds, q->n < WAIT_FDS_MAX ? q->n : WAIT_FDS_MAX);
	wait_sockets_sample(&s);
	wait_owners_sample(&s, clock_monotonic_ns() + q->budget_ms * 1000000ull);
	best = end_choose(&s, &n);
	if (best)
		end_answer(best, n, a);
}

static void child_answer(const struct wait_question *q, struct wait_answer *a)
{
	struct wait_child c = wait_child_find(q->tgid, q->ns_pid);

	a->kind = WAITS_CHILD;
	a->act = WAITS_TO_END;
	a->pid = c.pid;
	a->n = c.n;
}

int wait_op(struct reader_job *job)
{
	const struct wait_question *q = job->arg;
	struct wait_answer *a = (struct wait_answer *)job->out;

	memset(a, 0, sizeof(*a));
	a->quiet_ns = UINT64_MAX;
	if (q->is_child)
		child_answer(q, a);
	else
		fds_answer(q, a);
	job->out_len = sizeof(*a);
	return 0;
}
