/* SPDX-License-Identifier: Apache-2.0
 *
 * passed.c - did a rank leave out a Send or a Recv? Its calls are laid against its own past: the newest ones must
 * repeat an earlier stretch once the missing operation is taken out of that, at a place which the rank has gone past.
 */
#include <string.h>

#include "detect/hang/wait_roots.h"

#define PAST_SCANNED 4096 /* operations back */
#define ALIKE_MIN 8       /* before the place, to know it again */

static bool alike(const struct op *a, const struct op *b)
{
	return a->signature == b->signature && a->member == b->member && a->peer == b->peer;
}

static bool is_pending(const struct op *op, const struct pending *l)
{
	return op->member == l->member && op->kind == l->kind && op->peer == l->peer;
}

/* `past` is what the newest operation is laid against. */
static bool skip_fits(const struct op *now, const struct op *past, const struct pending *l)
{
	int n_after = 0, n_before = 0;

	for (; now && past && alike(now, past); now = now->prev_in_proc, past = past->prev_in_proc)
		n_after++;
	if (!n_after || !now || !past || !is_pending(past, l))
		return false;
	past = past->prev_in_proc;
	for (; now && past && n_before < ALIKE_MIN && alike(now, past);
	     now = now->prev_in_proc, past = past->prev_in_proc)
		n_before++;
	return n_before >= ALIKE_MIN;
}

bool rank_passed(const struct proc *p, const struct pending *l)
{
	const struct op *past = p->last_op ? p->last_op->prev_in_proc : NULL;

	for (int i = 0; past && i < PAST_SCANNED; i++, past = past->prev_in_proc)
		if (alike(past, p->last_op) && skip_fits(p->last_op, past, l))
			return true;
	return false;
}
