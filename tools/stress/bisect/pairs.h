/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs.h - which of a few members (hosts, ranks) are bad, by tests of all their pairs: too few for groups that could
 * be compared with each other (bisect.h). No I/O, no clock: who calls it runs the tests.
 */
#ifndef STRESS_PAIRS_H
#define STRESS_PAIRS_H

#include <stdbool.h>

#include "tools/stress/bisect/bisect.h"

#define PAIRS_MEMBERS_MAX 16

struct pairs {
	int n;
	/* by both orders of a pair */
	bool failed[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX];  /* wrong, hung or lost */
	bool wrong[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX];   /* that first: no later pass takes it back */
	bool untried[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX]; /* left out, or what it came to is in doubt */
	double rates[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX]; /* any unit, more is better; 0: not measured */
	bool slow[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX];    /* set by pairs_compare() */
	double usual;                                       /* that too: what the rates were compared with */
	int n_rates;                                        /* and how many there were */
};

/* The pairs of round 0 to pairs_rounds() - 1, no member in two of them; how many. `pairs` has room for n / 2. */
int pairs_round(int n, int round, int (*pairs)[2]);
int pairs_rounds(int n);
/* Slow is a rate below `share` of the upper quartile of all: of three members one bad one has two thirds of the pairs,
 * and their median. False: fewer than three rates, which say nothing of each other. */
bool pairs_compare(struct pairs *p, double share);
/* A test of this pair failed: `wrong`, by wrong data. Or it did not; the best of its rates counts. */
void pairs_fail(struct pairs *p, int i, int j, bool wrong);
void pairs_pass(struct pairs *p, int i, int j, double rate);
/* By bits: members that hung, or were lost, with two good ones at least, and were well with none. Good is who is well
 * with others, and no pair without one of these hung: what is between two groups of members is no fault of one. Then
 * further pairs of them with good ones say nothing new. */
unsigned int pairs_hung(const struct pairs *p);
void pairs_leave(struct pairs *p, int i, int j);
/* A pair of these was well, and is not now: what they came to with others has to be tried again. */
void pairs_doubt(struct pairs *p, int i, int j);
/* The same for members that were well with some and failed with more than one who is well with others. */
void pairs_doubt_mixed(struct pairs *p);
/* What could not be tried again is as it was, but with those that hang by now. */
void pairs_doubt_end(struct pairs *p);
/* Something else may have hit it for a while: it hung or was lost, or is slow and one of it would not be good by that.
 * No member is bad by such a pair before it was tried again. */
bool pairs_is_open(const struct pairs *p, int i, int j);
/* Bad: each of its pairs that were tried failed or is slow, and a pair without it does well. Open: the same, and none
 * does well. */
enum bisect_verdict pairs_member(const struct pairs *p, int member);

#endif
