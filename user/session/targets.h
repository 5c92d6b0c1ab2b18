/* SPDX-License-Identifier: Apache-2.0
 *
 * targets.h - the processes that a session traces.
 *
 * Picks them out of the target set, registers them with the BPF programs, attaches probes to their libraries and emits
 * the collector records about them.
 */
#ifndef RANKTRACE_SESSION_TARGETS_H
#define RANKTRACE_SESSION_TARGETS_H

#include <stdint.h>

#include "attach/loader.h"
#include "session/session.h"

struct model;
struct session_targets;
struct shares;

/* Borrows all arguments. NULL: out of memory. */
struct session_targets *session_targets_new(const struct session_cfg *cfg, struct target_set *set, struct loader *l,
					    struct shares *shares, int (*emit)(void *to, const struct wire_hdr *rec),
					    void *to);
void session_targets_free(struct session_targets *t);
/* Scans all processes of the host; about once a second. Returns 0 or -errno. */
int session_targets_scan(struct session_targets *t, uint64_t now_ns);
/* Rescans only young processes, and those that were just forked or exec'd; every 50 ms. */
int session_targets_rescan(struct session_targets *t, uint64_t now_ns);
/* Is a process so new that it is polled between two rescans? Every 5 ms, if there is time. */
bool session_targets_has_new(const struct session_targets *t, uint64_t now_ns);
int session_targets_poll_new(struct session_targets *t, uint64_t now_ns);
/* Attaching to a process takes milliseconds, so one poll attaches for 50 ms at most. True: more is left;
 * session_targets_attach() goes on after the rings were polled. */
bool session_targets_unattached(const struct session_targets *t);
int session_targets_attach(struct session_targets *t, uint64_t now_ns);
/* Sets the tier of a process, at or above the session's. Returns 0; -ESRCH: gone, or not traced; or -errno. */
int session_targets_tier(struct session_targets *t, uint32_t tgid, enum tier tier, uint64_t now_ns);
/* Removes these groups of probes (one bit each) from a process, all others that it had stay. `back`: groups that were
 * removed or held back, and come now: session_targets_attach() attaches them. 0, or -ESRCH: gone, or not traced. Where
 * the kernel cannot take probes from one process, all lose them: call it for each. */
int session_targets_shed(struct session_targets *t, uint32_t tgid, uint32_t groups, uint32_t back);
/* Removes PROBES_STAND_INS from processes whose steps PyTorch's ranges alone show; it comes back as soon as the budget
 * takes the ranges. Nothing changes where the kernel cannot take probes from one process. Call it at every tick. */
void session_targets_stand_ins(struct session_targets *t, const struct model *m);
/* Processes that are alive and whose records were emitted. */
struct session_target {
	uint32_t tgid;
	uint64_t start_ns;
	bool probed;      /* by its tier */
	uint32_t missing; /* groups of its tier that it does not have: removed, or held back; one bit each */
};
void session_targets_each(const struct session_targets *t, void (*each)(void *to, const struct session_target *p),
			  void *to);
/* Handles a record that passes by: forks, execs and exits change the set of targets. */
void session_targets_note(struct session_targets *t, const struct wire_hdr *rec);
/* The session's, or what it is raised to; TIER_WATCH: not traced. */
enum tier session_targets_tier_of(const struct session_targets *t, uint32_t tgid);
/* Did the budget take all its probes, or do they wait? */
bool session_targets_unprobed(const struct session_targets *t, uint32_t tgid);
/* That, or probes that came so late that calls before them may be missing. */
bool session_targets_unseen(const struct session_targets *t, uint32_t tgid);
bool session_targets_traces(const struct session_targets *t,
			    uint32_t tgid);                      /* its records were emitted, and it is alive */
uint32_t session_targets_alive(const struct session_targets *t); /* processes traced now */
uint32_t session_targets_seen(const struct session_targets *t);

/* The filters of all tracers' probe rows for a target set; static storage. */
struct target_filter;
const struct target_filter *session_target_filters(size_t *ret_n);
/* What is not visible of a file for want of functions that its tracer knows: "ends of ranges"; "" nothing. */
struct target_file;
void target_unseen_text(const struct target_set *set, const struct target_file *file, char *to, size_t size);

#endif
