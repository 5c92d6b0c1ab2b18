/* SPDX-License-Identifier: Apache-2.0
 *
 * children.c - see children.h. A child's begin is its first scan, with totals of 0, and its end the last one.
 */
#include "detect/rank/children.h"

#define ENDED_NS 2000000000ull    /* what ended counts for that long, spread over it */
#define UNSEEN_NS 2000000000ull   /* by then a child that began was scanned, or never will be */
#define SCANNED_NS 2000000000ull  /* a first scan counts for that long: the second one comes, else it was stopped */
#define LOADED_BYTES (1ull << 20) /* a program's own start reads so much */

/* What a task of a child that began since then did until its first scan, which was a moment ago. */
static void first_scan_add(struct children *all, const struct model *m, const struct proc *c, const struct task *t)
{
	if (t->prev_seen_ns || t->seen_ns <= c->first_ns || m->now_ns >= t->seen_ns + SCANNED_NS)
		return;
	all->cpu_share += (double)t->run_ns / (double)(t->seen_ns - c->first_ns);
}

static void born_add(struct children *all, const struct model *m, const struct proc *c)
{
	bool seen = false;

	for (const struct task *t = c->tasks; t; t = t->next) {
		first_scan_add(all, m, c, t);
		seen |= t->seen_ns != 0;
	}
	all->unknown |= !seen && m->now_ns < c->first_ns + UNSEEN_NS;
	if (!c->prev_io_seen_ns && c->io_seen_ns > c->first_ns && m->now_ns < c->io_seen_ns + SCANNED_NS &&
	    c->io_bytes > LOADED_BYTES)
		all->io_bytes_s += (double)c->io_bytes * 1e9 / (double)(c->io_seen_ns - c->first_ns);
}

/* Recordings of before know of no CPU time at the end: then the whole of its last moments may have been work. */
static void ended_add(struct children *all, const struct proc *c, uint64_t since_ns)
{
	uint64_t begin_ns = c->first_ns > since_ns ? c->first_ns : since_ns;
	uint64_t most_ns = c->exit_ns - begin_ns < ENDED_NS ? c->exit_ns - begin_ns : ENDED_NS;

	all->cpu_share += (double)(c->end_run_known ? c->end_run_ns : most_ns) / ENDED_NS;
}

struct children children_read(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	struct children all = { 0 };

	for (const struct proc *c = m->procs; c; c = c->next) {
		if (c == p || c->leader != p)
			continue;
		if (c->dead && c->exit_ns > since_ns && m->now_ns < c->exit_ns + ENDED_NS)
			ended_add(&all, c, since_ns);
		else if (!c->dead && c->first_ns > since_ns)
			born_add(&all, m, c);
	}
	return all;
}
