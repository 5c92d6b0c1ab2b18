/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_stacks.c - see procs_stacks.h. Decides the order, reads several processes at a time, emits in that order.
 */
#include "autopsy/procs_stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tracers/process/stack_fact.h"
#include "autopsy/procs_pool.h"
#include "inspect/stack/stack.h"

#define LEAST_NS 20000000ull /* with less time left it does not start */

/* --- order --- */

static bool is_behind(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (mb->entered_seq[SEQ_COLL] < mb->comm->highest_seq[SEQ_COLL])
			return true;
	return false;
}

static bool main_cannot_run(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t && (t->state == TASK_STOPPED || t->state == TASK_DISK);
}

/* First the ranks that are behind or cannot go on; then ranks without a communicator while others have one; the other
 * ranks; their children. */
static int turn_of(const struct autopsy_proc *s, const struct model *m)
{
	const struct proc *p = model_proc(m, s->proc->tgid);

	if (s->proc->is_child)
		return 3;
	if (!p)
		return 2;
	if (is_behind(p) || main_cannot_run(p))
		return 0;
	return p->members ? 2 : 1;
}

static size_t *order_make(const struct autopsy_procs *s, const struct model *m)
{
	size_t *order = calloc(s->n + 1, sizeof(*order)), n = 0;

	for (int turn = 0; order && turn <= 3; turn++)
		for (size_t i = 0; i < s->n; i++)
			if (turn_of(&s->all[i], m) == turn)
				order[n++] = i;
	return order;
}

/* --- reading, in parallel --- */

static int stacks_read(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of)
{
	uint64_t now_ns = clock_monotonic_ns(), left_ns = s->stacks_until_ns > now_ns ? s->stacks_until_ns - now_ns : 0;
	unsigned ms = left_ns / 1000000 < STACK_DEADLINE_MS ? left_ns / 1000000 : STACK_DEADLINE_MS;

	of->stacks = calloc(1, sizeof(*of->stacks));
	if (!of->stacks)
		return -ENOMEM;
	of->stacks_err = left_ns < LEAST_NS ? -ETIME : target_stacks_read(r, of->proc->tgid, ms, of->stacks);
	of->stacks_ns = clock_monotonic_ns();
	return 0;
}

/* --- records --- */

/* The exit of a process is no failed read. */
static int stacks_emit(struct autopsy_proc *s, procs_emit_fn *emit, void *to, int *unread)
{
	int err = 0;

	if (s->stacks_err == -ESRCH || !s->stacks)
		return 0;
	if (s->stacks_err) {
		++*unread;
		return stack_fact_unread(s->proc->tgid, s->stacks_ns, s->stacks_err, emit, to);
	}
	for (size_t i = 0; !err && i < s->stacks->n; i++)
		err = stack_fact_emit(s->proc->tgid, s->stacks_ns, &s->stacks->threads[i], emit, to);
	return err;
}

int procs_read_stacks(struct autopsy_procs *s, const struct model *m, uint64_t until_ns, procs_emit_fn *emit, void *to,
		      int *ret_unread)
{
	size_t *order = order_make(s, m);
	int err = order ? 0 : -ENOMEM;

	*ret_unread = 0;
	s->stacks_until_ns = until_ns;
	if (!err)
		err = procs_each(s, order, s->n, stacks_read);
	for (size_t i = 0; i < s->n && order; i++) {
		struct autopsy_proc *of = &s->all[order[i]];

		if (!err)
			err = stacks_emit(of, emit, to, ret_unread);
		if (of->stacks)
			target_stacks_free(of->stacks);
		free(of->stacks);
		of->stacks = NULL;
	}
	free(order);
	return err;
}
