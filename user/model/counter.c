/* SPDX-License-Identifier: Apache-2.0
 *
 * counter.c - values that a source reports of a process and that have no place of their own in the model: kept by name,
 * the newest of each, so that a detector can read what a source samples without a new kind of event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/state.h"

#define COUNTERS_MAX 64 /* names of one process; further ones are not kept */

/* *ret_n: how many there are where none has the name. */
static struct counter *counter_find(const struct proc *p, const char *name, int *ret_n)
{
	*ret_n = 0;
	for (struct counter *c = p->counters; c; c = c->next, ++*ret_n)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

const struct counter *proc_counter(const struct proc *p, const char *name)
{
	int n;

	return counter_find(p, name, &n);
}

/* A process that was never announced, or that is gone, has none. */
int counter_apply(struct model *m, const struct event *e)
{
	struct proc *p = e->generic.kept ? (struct proc *)model_proc(m, event_proc(e)) : NULL;
	struct counter *c;
	int n;

	if (!p || p->dead)
		return 0;
	c = counter_find(p, e->generic.name, &n);
	if (!c && n >= COUNTERS_MAX)
		return 0;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return -ENOMEM;
		c->name = e->generic.name;
		c->next = p->counters;
		p->counters = c;
	}
	c->value = e->generic.value;
	c->ts_ns = e->ts_ns;
	return 0;
}

void counters_free(struct proc *p)
{
	struct counter *c;

	while ((c = p->counters)) {
		p->counters = c->next;
		free(c);
	}
}
