/* SPDX-License-Identifier: Apache-2.0
 *
 * live.h - a session of tier watch as a child of `top`, whose data is a recording that goes on.
 */
#ifndef RANKTRACE_TOP_LIVE_H
#define RANKTRACE_TOP_LIVE_H

#include "session/args.h"
#include "top/child.h"

/* 0 or -errno. */
int top_live_start(struct session_args *a, struct top_child *ret);
/* 0, or -errno: it has ended, or takes no more. */
int top_live_ask(const struct top_child *c, enum session_wish wish, uint32_t pid);

#endif
