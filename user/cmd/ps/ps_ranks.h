/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_ranks.h - what each training process does now: its GPUs, its state, how fast it goes, from two seconds of NCCL's
 * own counters.
 */
#ifndef RANKTRACE_PS_RANKS_H
#define RANKTRACE_PS_RANKS_H

#include "inspect/discover/discover.h"

struct ps_rank {
	const struct target_proc *proc; /* of the set */
	char gpus[32];                  /* "0,1"; "" not known */
	int *ranks;                     /* of a process that is several: in its largest communicator, ascending */
	size_t n_ranks;                 /* 0: it is one */
	const char *state;
	bool counted;                          /* its communicators count their collectives: the rates mean something */
	double collectives_per_s, steps_per_s; /* steps: 0 not known */
};

/* Reads all listed processes of the set, which was scanned before; ps_ranks_free(*ret, *ret_n). Takes two seconds if
 * there are communicators, and up to two more to find them. 0 or -errno. */
int ps_ranks_read(struct reader *r, struct target_set *set, struct ps_rank **ret, size_t *ret_n);
void ps_ranks_free(struct ps_rank *rows, size_t n);

#endif
