/* SPDX-License-Identifier: Apache-2.0
 *
 * seats.h - the ranks of a process that is several (struct proc.shared): JAX, ncclCommInitAll, a thread for each rank.
 * A rank is there what the process has of one GPU, a seat: its members in all communicators, and the thread that calls
 * for them, which may be the same for several. A seat is known by any of its members.
 */
#ifndef RANKTRACE_SEATS_H
#define RANKTRACE_SEATS_H

#include "detect/detect.h"
#include "model/ahead.h"

#define SEATS_MAX 64 /* GPUs of a host, and more */

struct seats { /* of one process */
	const struct member *all[SEATS_MAX];
	int n;
};

struct rank_ref { /* a rank of any process */
	const struct proc *proc;
	const struct member *seat; /* NULL: the process is one rank */
};

struct rank_node { /* what waits as one */
	const struct proc *proc;
	uint32_t tid; /* of a process that is several ranks: the thread; else 0 */
};

/* The members of a seat, one after the other; `last` NULL: the first. NULL: there is no more. */
const struct member *seat_next(const struct member *seat, const struct member *last);
/* The thread that called last for it; 0: no call was seen. */
uint32_t seat_tid(const struct member *seat);
/* The thread that alone called for it recently; 0: none, or threads take turns, so that any may call next. */
uint32_t seat_own_tid(const struct member *seat);
/* The same of the process' rank with that number. */
uint32_t rank_own_tid(const struct proc *p, int rank);
/* The same of a rank; 0 also where the process is one rank. */
uint32_t rank_ref_tid(const struct rank_ref *r);
/* Its thread, or any of the process where that is one rank, sits in a wait for the GPU. */
bool rank_node_waits(const struct rank_node *r);
/* NULL: it was not scanned, or is not known. */
const struct task *seat_task(const struct proc *p, uint32_t tid);
/* Its member in that communicator; NULL none. */
const struct member *seat_in(const struct member *seat, const struct comm *c);
/* All seats, each by its member in the largest communicator, in the order of their ranks there. */
void seats_of(const struct proc *p, struct seats *ret);
/* Those of them that this thread called for last. */
void seats_of_thread(const struct proc *p, uint32_t tid, struct seats *ret);
/* Adds the ranks of these seats, and as evidence how they are known: "pid 812, GPU 1, rank 1 of 2 in 0x...". `c`: the
 * communicator that is named, NULL: the largest. */
void seats_note(struct finding *f, struct finding_list *found, const struct seats *s, const struct comm *c);
/* The rank of a process, or all that it is; `tid`: of those only the ones that this thread called for last, if there
 * are any, 0: all. */
void proc_ranks_note(struct finding *f, struct finding_list *found, const struct proc *p, uint32_t tid);

#endif
