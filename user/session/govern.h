/* SPDX-License-Identifier: Apache-2.0
 *
 * session_govern.h - keeps what probes cost within its budget: the kernel's counts of hits on one side, the session's
 * targets on the other, governor.h in between. What it does is told as FACT_BUDGET.
 */
#ifndef RANKTRACE_SESSION_GOVERN_H
#define RANKTRACE_SESSION_GOVERN_H

#include "session/targets.h"

struct warden;

/* Borrows everything. NULL without memory. */
struct warden *warden_new(const struct session_cfg *cfg, struct loader *l, struct session_targets *t,
			  int (*emit)(void *to, const struct wire_hdr *rec), void *to);
void warden_free(struct warden *w);
/* At every tick: does its work once a second, while there are probes. 0 or -errno. */
int warden_tick(struct warden *w, uint64_t now_ns);
void warden_sums(const struct warden *w, struct session_budget *ret);

#endif
