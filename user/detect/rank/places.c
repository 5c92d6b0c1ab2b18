/* SPDX-License-Identifier: Apache-2.0
 *
 * places.c - see places.h. A stack that was not read is no other place: then the system calls decide. So two that
 * differ may both be where a third one is, and only threads of which equally much is known are taken for one.
 */
#include "detect/rank/places.h"

#include <string.h>

#include "detect/rank/call_site.h"

const struct task *places_main_task(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t;
}

bool places_runs(const struct task *t)
{
	return t->state == TASK_RUNNABLE || t->state == TASK_ON_CPU;
}

static bool same_place(const struct task *a, const struct task *b)
{
	if (!a || !b || a->blocked || b->blocked || !a->at_ns || !b->at_ns)
		return false;
	if (call_site_same(a, b) == 0)
		return false;
	if (places_runs(a) || places_runs(b))
		return places_runs(a) && places_runs(b);
	return a->state == TASK_SLEEP && b->state == TASK_SLEEP && !strcmp(a->syscall, b->syscall) &&
	       !strcmp(a->wchan, b->wchan);
}

static bool stack_known(const struct task *t)
{
	return call_site_same(t, t) > 0;
}

void places_add(struct places *s, const struct task *t)
{
	if (!same_place(t, t))
		return;
	for (int i = 0; i < s->n; i++)
		if (stack_known(s->at[i].one) == stack_known(t) && same_place(s->at[i].one, t)) {
			s->at[i].n++;
			return;
		}
	if (s->n == PLACES_MAX)
		return;
	s->at[s->n].one = t;
	s->at[s->n++].n = 1;
}

int places_alike(const struct places *s, const struct task *t, bool counts_self)
{
	int n = 0;

	for (int i = 0; i < s->n; i++)
		n += same_place(s->at[i].one, t) ? s->at[i].n : 0;
	return n && !counts_self ? n - 1 : n;
}
