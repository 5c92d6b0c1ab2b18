/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_reload.h - new settings for a `watch` that runs: which of them it takes, and what it says.
 */
#ifndef RANKTRACE_WATCH_RELOAD_H
#define RANKTRACE_WATCH_RELOAD_H

#include "session/args.h"

/* `next` was read as `now` was; `source` says for whom ("SIGHUP: /etc/..."). Sets what may change: in `now`, in *cfg
 * (whose owner gives it to its parts), in the pipeline. Says, by name, what changed and what takes a restart. `next`
 * may be freed after it. False: something of it is not possible, which was said, and nothing changed. */
bool settings_change(struct session_args *now, const struct session_args *next, struct pipeline *p,
		     struct session_cfg *cfg, const char *source);

#endif
