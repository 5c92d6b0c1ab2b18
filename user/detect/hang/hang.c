/* SPDX-License-Identifier: Apache-2.0
 *
 * hang.c - an operation that some rank does not enter, or that does not end, while ranks wait: names the cause, once.
 * A tick is a chain of stages, each a module; the order matters, as each takes what the one before it left:
 *
 *   1. pending.h       what each rank has not entered while peers wait in it. comm_init.h and p2p.h answer that for
 *                      the init of communicators and for transfers, rank/counters.h where calls are not seen.
 *   2. wait_graph.h    who waits for whom; wait_roots.h reads it: roots (ranks that wait for none) and cycles. Before
 *                      a root is judged, those go that only look like one: they sit in an operation that all entered
 *                      (stalled_op.h), or where the waiting ranks sit (wait_roots_filter()), or wait for a rank that
 *                      no source can see (unobserved.h).
 *   3. deadlock.h      cycles that stand; classify.h: why a root does not come.
 *      shared_process.c: ranks that share a process, which are in no graph.
 *   4. comm_init.h     ranks that no init has been entered by: they are in no communicator, so in no graph.
 *   5. unobserved.h, stalled_op.h, uncounted.h, gpu_stall.h  only of jobs in which none of these explains the wait: a
 *                      rank whose memory cannot be read; an operation that all entered and that does not end; where no
 *                      call is seen, by where the hosts are, and by what the GPUs do meanwhile.
 *
 * report.h makes the finding of a culprit. The ranks that wait are evidence, never findings; a finding that follows
 * from one of another detector of this tick names it as its cause.
 */
#include "detect/hang/classify.h"
#include "detect/hang/comm_init.h"
#include "detect/hang/deadlock.h"
#include "detect/hang/gpu_stall.h"
#include "detect/hang/unobserved.h"
#include "detect/hang/report.h"
#include "detect/hang/stalled_op.h"
#include "detect/hang/uncounted.h"
#include "detect/hang/wait_graph.h"
#include "detect/hang/wait_roots.h"

#define ROOTS_REPORTED 64 /* a finding each; of more the number is said */

struct hang {
	struct suspects suspects;   /* roots of earlier ticks: what is pending, what was reported of them */
	struct deadlocks deadlocks; /* cycles of earlier ticks: since when they stand */
	struct stalled_ops stalled_ops;
	struct gpu_stalls gpu_stalls; /* pauses of each job, where only counters are known */
	struct uncounted uncounted;   /* the same of hosts, where counters do not say who waits */
	struct wait_roots roots;      /* of this tick alone; kept here for its memory */
	struct wait_roots soon;       /* private to roots_filter() */
};

static int roots_find(const struct model *m, struct wait_roots *roots, struct wait_roots *soon)
{
	int err = 0;

	roots->n_roots = roots->n_cycles = roots->n_named = 0;
	roots->missing = NULL;
	if (wait_graph_needed(m))
		err = wait_roots_find(m, roots);
	roots_filter_inside(m, roots);
	return err ? err : roots_filter(m, roots, soon);
}

static int culprit_report_of(const struct model *m, const struct culprit *c, int n_roots, struct finding_list *found)
{
	int err = culprit_report(m, c, found);

	if (!err && n_roots > ROOTS_REPORTED)
		finding_note(&found->items[found->n - 1], EVIDENCE_N_ROOTS, n_roots);
	return err;
}

static int roots_report(struct hang *h, const struct model *m, struct finding_list *found)
{
	size_t first = found->n;
	struct culprit c;
	int err = 0;

	for (int i = 0; i < h->roots.n_roots && i < ROOTS_REPORTED && !err; i++) {
		const struct wait_root *r = &h->roots.roots[i];
		struct suspect *s = suspects_get(&h->suspects, m, r->proc);

		if (s && s->pending.space == SPACE_INIT)
			err = comm_init_report_rank(m, &(struct rank_ref){ r->proc, NULL }, &s->pending,
						    suspects_busy_limit_ns(&h->suspects, m, r->proc->job), found);
		else if (s && suspect_classify(&h->suspects, s, m, r, found, &c))
			err = culprit_report_of(m, &c, h->roots.n_roots, found);
	}
	guesses_report(m, found, first);
	return err;
}

static int hang_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct hang *h = state;
	int err;

	suspects_refresh(&h->suspects, m);
	err = stalled_ops_refresh(&h->stalled_ops, m);
	if (!err)
		err = gpu_stalls_refresh(&h->gpu_stalls, m, &h->suspects);
	if (!err)
		err = uncounted_refresh(&h->uncounted, m, &h->suspects);
	if (!err)
		err = roots_find(m, &h->roots, &h->soon);
	if (!err)
		err = absent_report(m, &h->roots, found);
	if (!err)
		err = deadlocks_report(&h->deadlocks, m, &h->roots, found);
	if (!err)
		err = roots_report(h, m, found);
	if (!err)
		err = shared_report(&h->suspects, m, &h->roots, found);
	if (!err)
		err = comm_init_report_rest(m, &h->suspects, found);
	if (!err)
		err = unread_report(m, &h->roots, found);
	if (!err)
		err = stalled_op_report(&h->stalled_ops, m, &h->roots, found);
	if (!err)
		err = uncounted_report(&h->uncounted, m, &h->suspects, &h->roots, found);
	return err ? err : gpu_stalls_report(&h->gpu_stalls, m, &h->suspects, &h->roots, found);
}

static const struct pauses *hang_pauses(const void *state)
{
	const struct hang *h = state;

	return &h->suspects.pauses;
}

static void hang_release(void *state)
{
	struct hang *h = state;

	suspects_free(&h->suspects);
	stalled_ops_free(&h->stalled_ops);
	gpu_stalls_free(&h->gpu_stalls);
	uncounted_free(&h->uncounted);
	wait_roots_free(&h->roots);
	wait_roots_free(&h->soon);
}

const struct detector detector_hang = {
	.name = "hang",
	.help = "an operation that some rank does not enter while its peers wait: the root of the wait-for graph, or "
		"its cycle",
	.state_bytes = sizeof(struct hang),
	.release = hang_release,
	.tick = hang_tick,
	.pauses = hang_pauses,
};
