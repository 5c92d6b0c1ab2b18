/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.h - members of which no call was seen, only NCCL's counters at two looks or more: what they wait for, and
 * what the others' counters say that they lack.
 */
#ifndef RANKTRACE_COUNTERS_H
#define RANKTRACE_COUNTERS_H

#include "detect/hang/wait_roots.h"
#include "model/model.h"

/* Since when the member stays in what it entered: the first look that showed these counters, with a later one that did
 * so too; 0: its counters moved, or its calls are seen. */
uint64_t counters_still_ns(const struct member *mb);
/* The collective the member lacks: the one after those counted. Of one that died, or cannot be read, since before its
 * peers stood still: the one that the last of these waits in, as it may have entered all before that. */
uint64_t counters_pending_seq(const struct member *mb);
/* The kinds, as bits, that the peer nearest ahead of it has entered and this member has not; 0 not known. */
unsigned int counters_pending_kinds(const struct member *mb);
/* Of these kinds the one that is lacked most often. */
enum op_kind counters_kind(const struct member *mb, unsigned int kinds);
/* Since when somebody stays in collective `seq` of the communicator; 0: nobody is known to. */
uint64_t counters_since_ns(const struct comm *c, uint64_t seq);
/* What collective `seq` is, as far as the counters of who lacks it say. False: there is a choice, or nobody lacks it.
 */
bool counters_op(const struct comm *c, uint64_t seq, enum op_kind *ret);

enum cycle_verdict {
	CYCLE_BY_CALLS,    /* calls of some rank are seen */
	CYCLE_ALL_WAIT,    /* each is ahead somewhere, stays there, and all sleep in one place: nobody goes on first */
	CYCLE_ONE_DIFFERS, /* *ret_rank sits elsewhere than all others: it holds them up */
	CYCLE_UNDECIDED,   /* any of them may be at fault */
};
/* Ranks that wait for each other by their counters, n of them. */
enum cycle_verdict counters_cycle_judge(const struct proc *const *ranks, int n, int *ret_rank);

/* Send and Recv are in no counter: a rank that waits in one looks like a root. Of several roots those go whose main
 * thread sits where that of a rank known to wait sits, if others remain; else nobody can tell them apart. One alone
 * that sits so and shares a communicator with ranks that are not seen may wait for those. */
void counters_filter_roots(const struct model *m, struct wait_roots *found);

#endif
