/* SPDX-License-Identifier: Apache-2.0
 *
 * forget.c - see forget.h.
 */
#include "detect/rank/forget.h"

#define READ_EVERY_NS 60000000000ull

struct forgotten {
	const struct model *m;
	void (*release)(void *entry);
};

static bool is_due(struct forgetting *f, const struct model *m)
{
	if (m->now_ns < f->read_ns + READ_EVERY_NS)
		return false;
	f->read_ns = m->now_ns;
	return true;
}

static bool job_lives(void *entry, const void *arg)
{
	const struct forgotten *g = arg;

	for (const struct proc *p = g->m->procs; p; p = proc_next(p))
		if ((uintptr_t)p->job == ((struct keyed *)entry)->a)
			return true;
	if (g->release)
		g->release(entry);
	return false;
}

void jobs_forget(struct forgetting *f, struct keyed_table *jobs, const struct model *m, void (*release)(void *entry))
{
	struct forgotten g = { m, release };

	if (is_due(f, m))
		keyed_keep(jobs, job_lives, &g);
}

static bool proc_lives(void *entry, const void *arg)
{
	const struct forgotten *g = arg;

	return model_proc(g->m, ((struct keyed *)entry)->a);
}

void procs_forget(struct forgetting *f, struct keyed_table *a, struct keyed_table *b, const struct model *m)
{
	struct forgotten g = { m, NULL };

	if (!is_due(f, m))
		return;
	keyed_keep(a, proc_lives, &g);
	keyed_keep(b, proc_lives, &g);
}
