/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.h - the hub's library on the messages of the simulated agents, in scripted time: the very functions that
 * `ranktrace hub` calls for each message and tick. What it found is kept as a list of verdicts.
 */
#ifndef RANKTRACE_SIMCLUSTER_JUDGE_H
#define RANKTRACE_SIMCLUSTER_JUDGE_H

#include "finding.h"
#include "tools/simcluster/agent.h"

struct verdict { /* one incident; times in seconds of the simulation, INFINITY: never */
	uint64_t number;
	enum finding_kind kind;
	enum hang_class class;
	enum finding_cause cause;
	enum severity worst;
	double open_s, warned_s, critical_s, closed_s;
	double confidence; /* when it was first a warning */
	int n_ranks, ranks[FINDING_RANKS_MAX], n_ranks_all;
	char caused_by[FINDING_ID_MAX];
};

struct judge;

struct judge *judge_new(int n_hosts); /* NULL: no memory */
void judge_free(struct judge *j);
/* Its `to` is the judge. 0, -ENOMEM, -EPROTO (a message was refused: the simulator is wrong). */
int judge_take(void *to, const struct delivery *d);
int judge_tick(struct judge *j, double now_s); /* 0 or -ENOMEM */
/* In the order of opening; *ret_n of them, until the next tick. */
const struct verdict *judge_verdicts(const struct judge *j, size_t *ret_n);
/* The last message of each host, for those who judge otherwise; NULL: none came. */
const void *judge_last(const struct judge *j, int host, size_t *ret_len, double *ret_at_s);
/* Processor time that unpacking, feeding and the ticks took, and the longest of a tick. */
void judge_cost(const struct judge *j, double *ret_messages_s, double *ret_ticks_s, double *ret_longest_s);

#endif
