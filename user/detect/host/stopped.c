/* SPDX-License-Identifier: Apache-2.0
 *
 * stopped.c - a rank stopped by a signal or a debugger, while no rank waits for it. As soon as a peer waits it is the
 * hang detector's: hang/stopped. A finding that is open already stays, and the hang then names it as its cause, so
 * that there is always one root.
 */
#include <errno.h>
#include <stdlib.h>

#include "detect/rank/call_site.h"
#include "detect/detect.h"
#include "detect/hang/pending.h"
#include "detect/rank/seats.h"

#define SETTLED_NS 100000000ull /* for all threads to stop */
#define GRACE_NS 3000000000ull  /* time for a peer to come and wait */

struct stopped {
	uint64_t *open; /* keys */
	size_t n, cap;
};

/* All threads are stopped: since when; 0: not so. A call made since then is newer than the scan that says so. */
static uint64_t stopped_since(const struct proc *p)
{
	uint64_t since = 0;

	for (const struct task *t = p->tasks; t; t = t->next) {
		if (t->state != TASK_STOPPED && t->seen_ns)
			return 0;
		if (t->tid == p->tgid && t->state == TASK_STOPPED)
			since = t->since_ns;
	}
	return p->last_call_ns > since + SETTLED_NS ? 0 : since;
}

static bool is_open(const struct stopped *s, uint64_t key)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->open[i] == key)
			return true;
	return false;
}

static int remember(struct stopped *s, uint64_t key)
{
	size_t cap = s->cap ? 2 * s->cap : 8;
	uint64_t *grown;

	if (is_open(s, key))
		return 0;
	if (s->n == s->cap) {
		grown = realloc(s->open, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->open = grown;
		s->cap = cap;
	}
	s->open[s->n++] = key;
	return 0;
}

static int report(const struct model *m, const struct proc *p, uint64_t since, uint64_t key, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_STOPPED;
	f->subject = subject_process(proc_rank(p), p->key);
	f->key = key;
	f->cause = CAUSE_STOPPED;
	f->since_ns = since;
	f->confidence = 0.99;
	proc_ranks_note(f, found, p, 0);
	finding_note(f, EVIDENCE_STOPPED_S, (m->now_ns - since) * 1e-9);
	call_site_note(f, found, p, 0);
	return 0;
}

static int stopped_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct stopped *s = state;
	struct pending pending;
	int err = 0;

	for (const struct proc *p = m->procs; p && !err; p = p->next) {
		uint64_t since = p->dead || p->is_child || (proc_rank(p) < 0 && !p->shared) ? 0 : stopped_since(p);
		struct subject subject = subject_process(proc_rank(p), p->key);
		uint64_t key = finding_key(FINDING_STOPPED, &subject, "stopped", 0, since);

		if (!since || (!is_open(s, key) && (m->now_ns < since + GRACE_NS || rank_pending(m, p, &pending))))
			continue;
		err = remember(s, key);
		if (!err)
			err = report(m, p, since, key, found);
	}
	return err;
}

static void stopped_release(void *state)
{
	free(((struct stopped *)state)->open);
}

const struct detector detector_stopped = {
	.name = "stopped",
	.help = "a rank stopped by a signal or a debugger",
	.state_bytes = sizeof(struct stopped),
	.release = stopped_release,
	.tick = stopped_tick,
};
