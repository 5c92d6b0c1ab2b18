/* SPDX-License-Identifier: Apache-2.0
 *
 * bisect.h - which of n members (hosts, GPUs) are bad, where a test of a group fails if one of it is: plans rounds of
 * tests that run side by side, no member in two of a round. No I/O, no clock: who calls it runs the tests.
 *
 * First about sqrt(n) groups. A group that fails is halved and halved again; each test is filled up with members known
 * to be good, so that all have one size and can be compared with each other. Of a small set only one half is tested:
 * if it passes, the bad one is in the other; if it fails, the other half is most likely good, and such rests of all
 * sets share a test. A member is named only after it has failed alone among known good ones.
 */
#ifndef STRESS_BISECT_H
#define STRESS_BISECT_H

#include <stdbool.h>

enum bisect_verdict {
	BISECT_GOOD,
	BISECT_BAD,
	BISECT_OPEN, /* in a test that failed, and not separable from others: no good partner, or it came once */
};

struct bisect_test {
	int n, n_suspects;
	int *members; /* suspects first, then known good ones */
};

struct bisect;

/* n >= 2. */
struct bisect *bisect_new(int n);
/* The tests of the next round, valid until the one after; 0: it is over. */
int bisect_round(struct bisect *b, const struct bisect_test **tests);
/* Of each test of a round, before the next. */
void bisect_result(struct bisect *b, int test, bool failed);
enum bisect_verdict bisect_member(const struct bisect *b, int member);
/* These were good, and failed beside the tests or with others: one of them is bad now. Before the next round. */
void bisect_doubt(struct bisect *b, const int *members, int n);
/* It was named by a test whose good members are in doubt: once more by itself. */
void bisect_recall(struct bisect *b, int member);
int bisect_rounds(const struct bisect *b);
int bisect_tests(const struct bisect *b);
void bisect_free(struct bisect *b);

#endif
