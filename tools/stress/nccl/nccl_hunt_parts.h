/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt_parts.h - what the two ways of a bisection share, and what each of them does.
 */
#ifndef STRESS_NCCL_HUNT_PARTS_H
#define STRESS_NCCL_HUNT_PARTS_H

#include "tools/stress/bisect/bisect.h"
#include "tools/stress/nccl/nccl_run.h"

#define HUNT_OTHERS_MIN 2 /* with fewer to compare with, a rate says nothing */

struct hunt {
	struct nccl_run *run;
	struct nccl_case of;
	char (*why)[FAULT_TEXT]; /* of each host: what its last failed test came to */
	enum fault_kind *kinds;
};

/* A test, or a control, in which data were wrong, that hung or in which a rank was lost. */
struct hunt_failure {
	int n, n_suspects, *members; /* suspects first; of a control there are none */
	bool wrong, checked;         /* its good members ran alone */
	bool recalled;               /* they are in doubt: the one that it named is tried again */
	char text[FAULT_TEXT];
};

struct hunt_failures {
	struct hunt_failure *all;
	int n;
};

const char *hunt_host(const struct nccl_run *run, int node);
/* All ranks of the hosts of a test; the caller frees g->ranks. */
void hunt_group_fill(const struct hunt *h, struct trial_group *g, const struct bisect_test *t, int test);
/* As many GPUs each: with half of them a host has half the ports, too. */
bool hunt_hosts_alike(const struct hunt *h);
/* All side by side, twice; `rates`, 0 before: bus bandwidths, the better of two. Something else on a host for a moment
 * slows one of them, a bad one both. */
void hunt_measure(struct hunt *h, struct trial_group *groups, double *rates, int n);
/* Of a group that is bad. */
enum fault_kind hunt_kind(const struct trial_group *g);
void hunt_wrong_say(struct trial_group *g);
/* Of a group that is not bad. No room for the buffers and the like is no pass. */
bool hunt_is_measured(struct hunt *h, const struct trial_group *g);
/* A fault of each host that is bad, and one of those that are open. */
void hunt_verdicts_take(struct hunt *h, const enum bisect_verdict *verdicts);
/* Where nothing was measured the last note says why. */
void hunt_summary(struct hunt *h, int tests, int rounds);

/* nccl_hunt_groups.c: many hosts, by bisect/bisect.h. */
void hunt_groups(struct hunt *h);
/* nccl_hunt_checks.c: hosts known to be good may fail later, as fillers of a test or as controls: who was named by such
 * a test did not fail by itself. */
void hunt_failure_keep(struct hunt_failures *f, const struct bisect_test *t, const struct trial_group *g);
/* Of what was named or cannot be explained: whether the good ones fail by themselves. True: the bisection goes on. */
bool hunt_checks(struct hunt *h, struct hunt_failures *f, struct bisect *b);
/* What no host that is named or open explains. Frees them. */
void hunt_failures_end(struct hunt *h, struct hunt_failures *f, const enum bisect_verdict *verdicts);
/* nccl_hunt_pairs.c: few, by bisect/pairs.h. */
void hunt_pairs(struct hunt *h);
/* nccl_hunt_confirm.c: hosts that would be named, or could not be separated, for a rate: each with a good one, beside
 * pairs of good ones, again and again. A rate depends on how many groups run at once, on which hosts share a switch,
 * and on what else runs; what is slow in each of these tries is slow by itself. Changes their verdicts. */
void hunt_confirm(struct hunt *h, enum bisect_verdict *verdicts);

#endif
