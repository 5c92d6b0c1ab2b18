/* SPDX-License-Identifier: Apache-2.0
 *
 * freezer.h - is a process held by a cgroup's freezer (a paused container, a scheduler that suspends)? Its threads
 * then look asleep, or in D state, by kernel and version of cgroups, and are neither.
 */
#ifndef RANKTRACE_TARGET_FREEZER_H
#define RANKTRACE_TARGET_FREEZER_H

#include <stdint.h>

#include "tracers/sched/cgroup_dir.h"

/* `text`: of /proc/PID/cgroup. All of the cgroup is frozen, by itself or from above; not while that is still on its
 * way. False, too, where it cannot be seen from here. */
bool freezer_holds(const struct cgroup_mounts *m, const char *text);
/* The same for who asks once: reads the mounts, too. */
bool freezer_holds_process(uint32_t tgid);

#endif
