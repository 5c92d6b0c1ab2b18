/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_budget.h - keeps the CPU cost of probes within the session's budget.
 *
 * Four times a second it reads the kernel's hit counters, asks the rules (budget_rules.h) what to change, removes or
 * returns probe groups of the session's targets, and emits each change as a RECORD_BUDGET record.
 */
#ifndef RANKTRACE_PROBE_BUDGET_H
#define RANKTRACE_PROBE_BUDGET_H

#include "session/targets.h"

struct probe_budget;

/* Borrows all arguments. NULL: out of memory. */
struct probe_budget *probe_budget_new(const struct session_cfg *cfg, struct loader *l, struct session_targets *t,
				      int (*emit)(void *to, const struct wire_hdr *rec), void *to);
/* Other limits from now on; what was removed comes back by the rules. */
void probe_budget_set(struct probe_budget *b, uint32_t budget_ppm, uint32_t node_ppm);
void probe_budget_free(struct probe_budget *b);
/* Call it at every tick: it works from the first probe on. Returns 0 or -errno. */
int probe_budget_tick(struct probe_budget *b, uint64_t now_ns);
void probe_budget_sums(const struct probe_budget *b, struct session_budget *ret);

#endif
