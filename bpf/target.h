/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * target.h - what the BPF programs keep of a target process: the value of map `targets`, by tgid.
 */
#ifndef RANKTRACE_TARGET_H
#define RANKTRACE_TARGET_H

#define TARGET_GROUPS 8 /* probe groups: enum probe_group of user/probe_group.h, with room for more */
#define TARGETS_MAX 16384
#define TARGETS_OF_USER 1024         /* of one user that is not root: the others find room whatever it does */
#define TARGET_USERS 4096            /* counters of map `target_users`, by uid modulo this; behind them: */
#define TARGETS_REFUSED TARGET_USERS /* forks for which there was no room */
#define TARGET_PRICE_NS 16           /* unit of the cost of traps: 4 bytes hold a minute of CPU time */
#define OWN_TIME_EVERY 32            /* a power of two: one run of a program in so many is timed */

struct target {
	__u64 generation; /* time when it became a target or last called exec: distinguishes a reused tgid or address
			     space apart */
	__u32 hits[TARGET_GROUPS];     /* traps that it paid, by group, as counted by the probes' cookies */
	__u32 paid[TARGET_GROUPS];     /* their cost in TARGET_PRICE_NS. Both wrap */
	__u32 own_runs[TARGET_GROUPS]; /* runs of our programs that were timed, about one in OWN_TIME_EVERY */
	__u32 own_ns[TARGET_GROUPS];   /* what these took. Both wrap */
	__u32 uid;                     /* whose count it is in; 0: not counted */
	__u32 reserved;
};

#endif
