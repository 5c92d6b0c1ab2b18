/* SPDX-License-Identifier: Apache-2.0
 *
 * greeting.h - says whom a session watches: at its start, and when a job has more ranks than before.
 */
#ifndef RANKTRACE_SESSION_GREETING_H
#define RANKTRACE_SESSION_GREETING_H

#include "inspect/discover/discover.h"
#include "session/targets.h"

struct greeting;

/* Borrows all arguments. NULL: out of memory. */
struct greeting *greeting_new(const struct session_cfg *cfg, const struct session_targets *targets);
void greeting_free(struct greeting *g);
/* The session has just attached to what was there, which took so long: says to whom, or warns that there is none.
 * `list`: all processes of the host, as target_set_list() gives them. */
void greeting_start(struct greeting *g, const struct target_proc *const *list, size_t n, uint64_t took_ns);
/* About once a second: says which jobs have more ranks than before, once their number does not move. */
void greeting_scan(struct greeting *g, const struct target_proc *const *list, size_t n);

#endif
