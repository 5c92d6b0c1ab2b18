/* SPDX-License-Identifier: Apache-2.0
 *
 * parser_turn.c - see parser_turn.h.
 */
#include "inspect/reader/parser_turn.h"

#include "inspect/reader/hurried.h"

#define SECOND_CPU_NS 250000000ull
#define FILE_CPU_NS 60000000ull /* with its start: libnccl takes 41 ms at most */

void parser_turn_begin(struct parser_turn *t, struct worker *w)
{
	parser_turn_end(t, w);
	if (!w->pid || allowance_left(&t->left, SECOND_CPU_NS) < FILE_CPU_NS || hurried_set(w->pid, true))
		return;
	w->is_hurried = true;
	t->pid = w->pid;
	t->cpu_ns = worker_cpu_ns(w);
}

void parser_turn_look(struct parser_turn *t, struct worker *w)
{
	if (t->pid && t->pid == w->pid && worker_cpu_ns(w) - t->cpu_ns >= FILE_CPU_NS)
		parser_turn_end(t, w);
}

/* One that was ended meanwhile may have used all that it had. */
void parser_turn_end(struct parser_turn *t, struct worker *w)
{
	uint64_t cpu_ns = t->pid && t->pid == w->pid ? worker_cpu_ns(w) : 0;

	if (!t->pid)
		return;
	allowance_spend(&t->left, cpu_ns ? cpu_ns - t->cpu_ns : FILE_CPU_NS);
	if (t->pid == w->pid && !hurried_set(w->pid, false))
		w->is_hurried = false;
	t->pid = 0;
}
