/* SPDX-License-Identifier: Apache-2.0
 *
 * session_targets.h - which processes a session traces: picks them out of the target set, tells the kernel side,
 * attaches their libraries and writes the facts about them into the stream.
 */
#ifndef RANKTRACE_SESSION_TARGETS_H
#define RANKTRACE_SESSION_TARGETS_H

#include <stdint.h>

#include "attach/loader.h"
#include "session/session.h"

struct session_targets;

/* Borrows everything. NULL without memory. */
struct session_targets *session_targets_new(const struct session_cfg *cfg, struct target_set *set, struct loader *l,
					    int (*emit)(void *to, const struct wire_hdr *rec), void *to);
void session_targets_free(struct session_targets *t);
/* Every process of the host: about once a second. 0 or -errno. */
int session_targets_scan(struct session_targets *t, uint64_t now_ns);
/* Only processes that are young or were just forked or exec'd: every 50 ms. */
int session_targets_rescan(struct session_targets *t, uint64_t now_ns);
/* Is any process so young that its libraries are looked for in between? Every 5 ms, where there is time. */
bool session_targets_infants(const struct session_targets *t, uint64_t now_ns);
int session_targets_infants_look(struct session_targets *t, uint64_t now_ns);
/* Attaching to a process takes milliseconds; a look attaches to as many as 50 ms allow. True: there are more, and
 * session_targets_attach() goes on with them once the rings were looked at. */
bool session_targets_unattached(const struct session_targets *t);
int session_targets_attach(struct session_targets *t, uint64_t now_ns);
/* Raises a process above the session's tier, or lowers it again. 0; -ESRCH: it is gone, or none of ours; or -errno. */
int session_targets_tier(struct session_targets *t, uint32_t tgid, enum tier tier, uint64_t now_ns);
/* Takes these groups of probes (a bit each) from a process, and gives it back what it was without before and is not in
 * `groups`. As session_targets_tier(). */
int session_targets_shed(struct session_targets *t, uint32_t tgid, uint32_t groups, uint64_t now_ns);
/* Those whose facts were told, and that live. */
struct session_target {
	uint32_t tgid;
	uint64_t start_ns;
	bool probed;
};
void session_targets_each(const struct session_targets *t, void (*each)(void *to, const struct session_target *p),
			  void *to);
/* A record passed by: forks, execs and exits move processes in and out. */
void session_targets_note(struct session_targets *t, const struct wire_hdr *rec);
bool session_targets_traces(const struct session_targets *t, uint32_t tgid); /* its facts were told, and it lives */
uint32_t session_targets_alive(const struct session_targets *t);             /* processes traced now */
uint32_t session_targets_seen(const struct session_targets *t);

/* Wants for a target set, from the tracers' rows; static storage. */
struct target_want;
const struct target_want *session_wants(size_t *ret_n);

#endif
