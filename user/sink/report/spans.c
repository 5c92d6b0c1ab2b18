/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.c - see spans.h.
 */
#include "sink/report/spans.h"

#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

void text_spans(struct text *t, int *ranks, size_t n, int most)
{
	int spans = 0;

	if (n)
		qsort(ranks, n, sizeof(*ranks), by_number);
	text_add(t, n == 1 ? "rank " : "ranks ");
	for (size_t i = 0, from = 0; i < n; i++) {
		if (i + 1 < n && (ranks[i + 1] == ranks[i] || ranks[i + 1] == ranks[i] + 1))
			continue;
		if (spans++ < most)
			text_add(t, ranks[from] == ranks[i] ? "%s%d" : "%s%d-%d", spans > 1 ? ", " : "", ranks[from],
				 ranks[i]);
		from = i + 1;
	}
	if (spans > most)
		text_add(t, ", and more");
}

const struct task *main_thread(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t;
}

static const char *end_of(const struct proc *p)
{
	return p->exit_signal ? "killed by a signal" : p->exit_code ? "ended with an error" : "ended";
}

const char *main_place(const struct proc *p)
{
	const struct task *t = main_thread(p);

	if (p->dead)
		return end_of(p);
	if (!t)
		return "";
	if (t->stack.ns && *t->stack.python)
		return t->stack.python;
	if (t->stack.ns && *t->stack.native)
		return t->stack.native;
	if (t->state == TASK_STOPPED)
		return "stopped";
	if (t->state == TASK_RUNNABLE || t->state == TASK_ON_CPU)
		return "running";
	if (t->syscall && *t->syscall && strcmp(t->syscall, "running"))
		return t->syscall;
	return t->wchan ? t->wchan : "";
}
