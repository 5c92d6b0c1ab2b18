/* SPDX-License-Identifier: Apache-2.0
 *
 * targets_private.h - what targets.c (which processes, and when) and targets_attach.c (their probes) share. No one else
 * includes it.
 */
#ifndef RANKTRACE_SESSION_TARGETS_PRIVATE_H
#define RANKTRACE_SESSION_TARGETS_PRIVATE_H

#include "session/targets.h"

#include "inspect/discover/discover.h"
#include "session/parts/target_threads.h"
#include "uthash.h"

struct traced {
	uint32_t tgid, uid; /* uid: its parent's until it is read */
	uint64_t start_time_ns, revision, since_ns, young_until_ns, threads_ns, exec_ns;
	uint64_t looked_ns, files_ns; /* the last look at it; before which one it has files whose probes are not all in
					 place, 0: it has none */
	bool late;                    /* they were not for long: calls before them may be missing */
	uint64_t attached_key;        /* libraries and groups when all probes were in place; 0: some were not */
	bool known;                   /* RECORD_PROC was emitted */
	bool dead;
	bool refused;           /* no room for it: it is not traced */
	bool has_comm;          /* has or had communicators */
	bool waits;             /* its probes do: until then it is watched from outside */
	int attach_error;       /* last error, logged once */
	uint64_t late_since_ns; /* what reads it gives no answer; 0: it does */
	enum tier tier;         /* the session's tier, or above it while escalated */
	uint32_t shed;          /* groups of probes that the budget took, one bit each */
	uint32_t held;          /* groups that wait for their admission (budget_rules.h) */
	bool by_ranges;         /* PyTorch's ranges show its steps: what stands in for them is removed */
	struct target_threads *threads;
	size_t threads_from; /* whom a call reads next */
	UT_hash_handle hh;
};

struct session_targets {
	const struct session_cfg *cfg;
	struct target_set *set;
	struct loader *loader;
	struct shares *shares;
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
	struct traced *traced;
	uint32_t n_seen;
	uint64_t attach_until_ns; /* of this poll */
	bool unattached;          /* some processes are left for the next poll */
	bool waiting;             /* a library waits because a process that maps it is in the way */
	bool failed;              /* an attach did */
	bool deferred;            /* processes of a user wait whose share is used up */
	size_t turn;              /* where the next walk over all begins: no process is always the last */
	uint64_t revision;        /* of the set when its list was last processed */
	uint64_t new_until_ns;    /* of the newest exec */
	uint64_t new_due_ns;
	uint64_t start_boot_ns; /* of the session, on the clock of process start times */
	uint64_t n_refused;
	bool refused_said;
	bool partial;         /* RECORD_PARTIAL was emitted */
	uint32_t shed_shared; /* out of all processes, where the kernel cannot distinguish them */
};

/* Of these groups the sets that they take out of a process: what stands in for ranges goes with calls, too. */
static inline uint32_t sets_out(const struct traced *p, uint32_t groups)
{
	bool stand_ins = p->by_ranges || groups >> PROBES_CALLS & 1;

	return groups | (uint32_t)stand_ins << PROBES_STAND_INS;
}

/* Attaches what is missing of its probes, as long as this poll's time lasts. */
void probes_place(struct session_targets *t, struct traced *traced, const struct target_proc *p, uint64_t now_ns);

#endif
