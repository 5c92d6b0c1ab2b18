/* SPDX-License-Identifier: Apache-2.0
 *
 * hurried.h - the lowest real-time priority, for a thread whose work is small and must not wait.
 */
#ifndef RANKTRACE_READER_HURRIED_H
#define RANKTRACE_READER_HURRIED_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#define HURRIED_PRIORITY 1

/* tid 0: the caller. Its children do not have it. 0 or -errno: without CAP_SYS_NICE. */
static inline int hurried_set(pid_t tid, bool hurried)
{
	struct sched_param param = { .sched_priority = hurried ? HURRIED_PRIORITY : 0 };

	return sched_setscheduler(tid, (hurried ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param) ? -errno : 0;
}

/* The caller, which gives others that priority: one above, so that it can take it back. The same errors. */
static inline int hurried_above(void)
{
	struct sched_param param = { .sched_priority = HURRIED_PRIORITY + 1 };

	return sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) ? -errno : 0;
}

#endif
