/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - see ahead.h. A hint is never followed: one that is out of date fetches what is not used, and what is freed
 * may be fetched.
 */
#include "model/ahead.h"

#include "base/larger.h"
#include "model/state.h"

#define AHEAD 8

struct window { /* of a walk: the hints of its last AHEAD places */
	const void **hints[AHEAD];
	uint64_t n;
};

/* `at` comes now: it is what the place AHEAD before has a hint of. `hint` is of this place. */
static void window_put(struct window *w, const void *at, const void **hint)
{
	const void ***oldest = &w->hints[w->n++ % AHEAD];

	if (*oldest)
		**oldest = at;
	*oldest = hint;
	*hint = NULL;
}

static void comm_ahead(struct comm *c)
{
	struct window members = { 0 }, procs = { 0 };

	for (struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		window_put(&members, mb, &mb->ahead_in_comm);
		window_put(&procs, mb->proc, &mb->ahead_proc);
	}
}

void ahead_tick(struct model *m)
{
	struct window procs = { 0 }, members = { 0 };

	if (!m->state->ahead_stale)
		return;
	m->state->ahead_stale = false;
	for (struct proc *p = m->procs; p; p = p->next) {
		window_put(&procs, p, &p->ahead);
		for (struct member *mb = p->members; mb; mb = mb->next_in_proc)
			window_put(&members, mb, &mb->ahead_in_proc);
	}
	for (struct comm *c = m->comms; c; c = c->next)
		comm_ahead(c);
}

#define FETCHED_MAX 32 /* processes: of a host with more the others are not fetched */
#define PROC_ADDED_BYTES 512
#define TASK_ADDED_BYTES 256

static void proc_fetch(const struct proc *p)
{
	lines_fetch(p, PROC_ADDED_BYTES);
	__builtin_prefetch(&((const struct proc_own *)p)->scope);
}

static void parts_fetch(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		lines_fetch(mb, sizeof(*mb));
	for (const struct task *t = p->tasks; t; t = t->next)
		lines_fetch(t, TASK_ADDED_BYTES);
}

static void comms_fetch(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		lines_fetch(mb->comm, offsetof(struct comm_own, at));
}

static void places_fetch(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (mb->comm->by_rank && mb->rank >= 0 && mb->rank < mb->comm->nranks)
			__builtin_prefetch(&mb->comm->by_rank[mb->rank]);
}

/* Level by level: what one level has fetched says where the next one lies, and each is waited for once. */
void model_fetch(const struct model *m, const uint64_t *keys, size_t n)
{
	static void (*const levels[])(const struct proc *p) = { proc_fetch, parts_fetch, comms_fetch, places_fetch };
	const struct proc *procs[FETCHED_MAX];

	n = smaller(n, FETCHED_MAX);
	for (size_t i = 0; i < n; i++)
		procs[i] = model_proc(m, keys[i]);
	for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]); level++)
		for (size_t i = 0; i < n; i++)
			if (procs[i])
				levels[level](procs[i]);
}
