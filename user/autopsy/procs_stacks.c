/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_stacks.c - see procs_stacks.h. Decides the order, reads several processes at a time, emits in that order.
 */
#include "autopsy/procs_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracers/process/stack_record.h"
#include "tracers/process/wait_record.h"
#include "autopsy/procs_pool.h"
#include "inspect/stack/stack.h"
#include "inspect/wait/wait.h"

#define WAITS_APART_NS 200000000ull /* between the two samples of what a process waits for */
#define LEAST_NS 20000000ull        /* with less time left it does not start */

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

static uint64_t left_ns(const struct autopsy_procs *s)
{
	uint64_t now_ns = clock_monotonic_ns();

	return s->stacks_until_ns > now_ns ? s->stacks_until_ns - now_ns : 0;
}

static int wait_read(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of, int k)
{
	if (left_ns(s) < LEAST_NS)
		return -ETIME;
	return target_wait_read(r, of->proc->tgid, of->proc->tgid, WAIT_DEADLINE_MS, &of->waits[k]);
}

static int stacks_read(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of)
{
	unsigned ms;

	of->stacks = calloc(1, sizeof(*of->stacks));
	of->waits = calloc(2, sizeof(*of->waits));
	if (!of->stacks || !of->waits)
		return -ENOMEM;
	of->wait_err = wait_read(s, r, of, 0);
	ms = left_ns(s) / 1000000 < STACK_DEADLINE_MS ? left_ns(s) / 1000000 : STACK_DEADLINE_MS;
	of->stacks_err = left_ns(s) < LEAST_NS ? -ETIME : target_stacks_read(r, of->proc->tgid, ms, of->stacks);
	of->stacks_ns = clock_monotonic_ns();
	return 0;
}

/* Of the two samples the first one stays, where there is no time for another. */
static int waits_read_again(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of)
{
	if (of->wait_err || of->waits[0].w.kind == WAITS_UNKNOWN || wait_read(s, r, of, 1))
		return 0;
	target_wait_compare(&of->waits[0], &of->waits[1]);
	return 0;
}

static void pause_until(uint64_t ns)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (ns > now_ns)
		usleep((ns - now_ns) / 1000);
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
		return stack_record_unread(s->proc->tgid, s->stacks_ns, s->stacks_err, emit, to);
	}
	for (size_t i = 0; !err && i < s->stacks->n; i++)
		err = stack_record_emit(s->proc->tgid, s->stacks_ns, &s->stacks->threads[i], emit, to);
	return err || s->wait_err ? err
				  : wait_record_emit(s->proc->tgid, s->proc->tgid, s->stacks_ns,
						     &s->waits[s->waits[1].w.ns != 0].w, emit, to);
}

int procs_read_stacks(struct autopsy_procs *s, const struct model *m, uint64_t until_ns, procs_emit_fn *emit, void *to,
		      int *ret_unread)
{
	size_t *order = order_make(s, m);
	uint64_t begin_ns = clock_monotonic_ns();
	int err = order ? 0 : -ENOMEM;

	*ret_unread = 0;
	s->stacks_until_ns = until_ns;
	if (!err)
		err = procs_each(s, order, s->n, stacks_read);
	if (!err)
		pause_until(begin_ns + WAITS_APART_NS < until_ns ? begin_ns + WAITS_APART_NS : until_ns);
	if (!err)
		err = procs_each(s, order, s->n, waits_read_again);
	for (size_t i = 0; i < s->n && order; i++) {
		struct autopsy_proc *of = &s->all[order[i]];

		if (!err)
			err = stacks_emit(of, emit, to, ret_unread);
		if (of->stacks)
			target_stacks_free(of->stacks);
		free(of->stacks);
		free(of->waits);
		of->stacks = NULL;
		of->waits = NULL;
	}
	free(order);
	return err;
}
