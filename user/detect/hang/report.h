/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - the finding about one rank: takes a culprit (classify.h); gives what it has pending and who waits, and all
 * that is known of what its host, threads and GPU calls do instead.
 */
#ifndef RANKTRACE_REPORT_H
#define RANKTRACE_REPORT_H

#include "detect/detect.h"
#include "detect/hang/classify.h"

int culprit_report(const struct model *m, const struct culprit *c, struct finding_list *found); /* 0 or -ENOMEM */
/* From the finding number `first` on: several ranks of a job that each may be the one are one finding, that of the rank
 * whose peers have waited longest. */
void guesses_report(const struct model *m, struct finding_list *found, size_t first);
/* Subject and key of what a rank has pending: the same for every class, so that what began as a sleeper and then died
 * is one finding. The kind comes first. `what`: SEQ_*, or a number past these for one side of one pair's transfers. */
void pending_identify(struct finding *f, const struct proc *p, const struct comm *c, uint64_t what, uint64_t seq);
/* What keeps a rank from going on: the D state of process `blocked` (0: none is blocked), as far as that is a finding,
 * else storage that it and others wait for, else what its GPU reports. The key of that finding; 0 none. A stop is
 * named by detect/host/stopped.c. */
uint64_t standing_key(const struct finding_list *found, uint64_t blocked, uint64_t proc);
/* Evidence of who waits, where that is known by counters: all members that are seen. */
void comm_waiting_note(struct finding *f, struct finding_list *found, const struct comm *c);

/* shared_process.c: names the ranks of shared processes (rank/seats.h) that lack an operation past its limit and wait
 * for no rank, and adds their jobs to what `roots` explain. 0 or -ENOMEM. */
int shared_report(struct suspects *all, const struct model *m, struct wait_roots *roots, struct finding_list *found);

/* Evidence known_phase, pauses_before, longest_pause_s: what ended there before, if anything did. */
void habit_note(struct finding *f, struct finding_list *found, const struct habit *h);

/* Of this job, or of none that is known: the later stages are silent then. */
bool hang_is_reported(const struct finding_list *found, const struct model *m, const struct job_id *job);

#endif
