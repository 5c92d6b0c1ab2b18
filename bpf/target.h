/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * target.h - what the kernel side keeps of a target process: the value of map `targets`, by tgid.
 */
#ifndef RANKTRACE_TARGET_H
#define RANKTRACE_TARGET_H

#define TARGET_GROUPS 8    /* of probes: enum probe_group of user/probe_group.h, with room */
#define TARGET_PRICE_NS 16 /* unit of what traps cost: 4 bytes hold a minute of CPU time */

struct target {
	__u64 generation; /* time it became a target or last called exec: tells a reused tgid or address space */
	__u32 hits[TARGET_GROUPS]; /* traps it paid, by group: as many as the probes' cookies say, */
	__u32 paid[TARGET_GROUPS]; /* and what they cost, in TARGET_PRICE_NS. Both wrap */
};

#endif
