/* SPDX-License-Identifier: Apache-2.0
 *
 * standing.h - of a job in which nothing moves: since when a rank does not, and whether a host is at work meanwhile.
 */
#ifndef RANKTRACE_STANDING_H
#define RANKTRACE_STANDING_H

#include "detect/rank/activity.h"
#include "detect/rank/counters.h"

/* A living process with communicators, not a child. */
bool standing_is_rank(const struct proc *p);
/* Its calls are seen: those of a member that waits are no sign of progress, since it makes none. */
bool standing_by_calls(const struct proc *p);
/* By what it does since then it is at work, or may be: not where its stack, read since, is in NCCL or the driver, which
 * poll. */
bool standing_host_works(const struct proc *p, enum activity what, uint64_t since_ns);
/* That of some rank of the job; or it sleeps there, for an object store or a data worker. */
bool standing_some_work(const struct model *m, const struct job_id *job, uint64_t since_ns);
/* The member of the job whose collectives' counters moved last; NULL: none has entered one. */
const struct member *standing_last_moved(const struct model *m, const struct job_id *job);
/* All ranks of the job's communicators are on hosts that are seen; else the reason may be on another: the hub knows. */
bool standing_all_seen(const struct model *m, const struct job_id *job);

#endif
