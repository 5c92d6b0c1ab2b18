/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h - the measures of two recordings against each other: what became slower by more than both vary. Pure.
 *
 * Compared are medians. A median's standard error is taken of the spread of the values (MAD), and of the medians of ten
 * pieces of the recording, which has what lasts longer than a step; the larger counts. A change counts beyond 4 of
 * them, and beyond what two runs of one job differ by anyhow: a share of the thing itself, and a third of that share of
 * the job's step. docs/decisions/compare.md.
 */
#ifndef RANKTRACE_COMPARE_COMPARE_H
#define RANKTRACE_COMPARE_COMPARE_H

#include "compare/measures.h"

#define COMPARE_VALUES_MIN 8       /* fewer values say nothing, nor that they are in one recording alone */
#define COMPARE_SHARE_DEFAULT 0.03 /* of the thing itself */

enum verdict { COMPARE_SAME, COMPARE_SLOWER, COMPARE_FASTER, COMPARE_TOO_FEW, COMPARE_ONLY_A, COMPARE_ONLY_B };

struct difference {
	const struct measure *a, *b; /* borrowed; NULL: not in that recording */
	double a_s, b_s;             /* medians; 0 without a value */
	double noise_s;              /* a change up to that is none; 0 where nothing is compared */
	double step_s;               /* by how much a step becomes longer, if nothing hides it; of the change alone */
	enum verdict verdict;
};

struct comparison {
	struct difference *v; /* in the order of A's measures, then what only B has */
	size_t n;
	size_t n_compared, n_slower, n_faster, n_too_few;
	double a_step_s, b_step_s; /* median over the ranks of both; 0 not known */
};

/* `share`: of each thing itself that a change has to exceed. 0 or -ENOMEM. Borrows `a` and `b`. */
int comparison_make(const struct measures *a, const struct measures *b, double share, struct comparison *ret);
void comparison_free(struct comparison *c);

const char *verdict_name(enum verdict v);

#endif
