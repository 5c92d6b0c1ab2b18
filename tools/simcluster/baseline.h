/* SPDX-License-Identifier: Apache-2.0
 *
 * baseline.h - what others would say of the same messages: the rules that people use today, each reduced to the rank
 * that it names first. They read what the agents sent, as the hub does.
 */
#ifndef RANKTRACE_SIMCLUSTER_BASELINE_H
#define RANKTRACE_SIMCLUSTER_BASELINE_H

#include "tools/simcluster/judge.h"

/* id, name, seconds from the first wait to its word, what it does */
#define BASELINES(X) \
	X(TIMEOUT, "timeout 600 s", 600, "the watchdog of the rank that waits longest ends the job, and names itself") \
	X(KERNEL, "kernel timeout 300 s", 300, "the same after a shorter time, by the kernel that does not end") \
	X(OUTLIER, "RAS-style outlier", 5, \
	  "ranks whose count of operations differs from most of their communicator, where fewest do") \
	X(LAST, "last arriver", 5, "of the communicator in which somebody waited first, who is not there") \
	X(LONGEST, "longest duration", 5, "who is in an operation for the longest time")

enum baseline {
#define X(id, name, s, help) BASELINE_##id,
	BASELINES(X)
#undef X
		BASELINE_COUNT
};

#define BASELINE_RANKS 3

struct baseline_word {
	int ranks[BASELINE_RANKS]; /* in its order; -1 none */
};

const char *baseline_name(enum baseline b);
double baseline_after_s(enum baseline b);
/* By the last message of each of the hosts. 0 or -ENOMEM. */
int baselines_ask(const struct judge *j, int n_hosts, double skew_s, struct draw *d,
		  struct baseline_word ret[BASELINE_COUNT]);

#endif
