/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * own_time.bpf.h - what our programs take beside the trap. UPROBE_PROGRAM(name) opens a program of a probe and times
 * one run in OWN_TIME_EVERY, drawn by lot: whatever a job does in turns, no call of it is always met or never.
 *
 * A run that takes longer than the collector's clip was most likely interrupted: it counts as that, so that what others
 * run meanwhile is not the target's bill. Runs in processes that are no targets return at once. The shortest of them is
 * what the price of a trap holds already, and what the clock takes.
 */
#ifndef RANKTRACE_OWN_TIME_BPF_H
#define RANKTRACE_OWN_TIME_BPF_H

#include "bpf/cookie.bpf.h"
#include "bpf/record.bpf.h"

/* 0: this run is not timed. */
static __always_inline __u64 own_time_begin(void)
{
	if (!session_has_prices() || (bpf_get_prandom_u32() & (OWN_TIME_EVERY - 1)))
		return 0;
	return bpf_ktime_get_ns();
}

static __always_inline void own_time_add(__u64 took_ns, __u64 cookie)
{
	struct target *t = target_of(bpf_get_current_pid_tgid() >> 32);
	struct heartbeat *h;
	__u32 first = 0;

	h = bpf_map_lookup_elem(&heartbeat, &first);
	if (!h)
		return;
	if (took_ns > h->clip_ns)
		took_ns = h->clip_ns;
	if (!t) {
		if (took_ns < h->idle_ns)
			h->idle_ns = took_ns;
		return;
	}
	__sync_fetch_and_add(&t->own_ns[COOKIE_GROUP(cookie)], took_ns);
	__sync_fetch_and_add(&t->own_runs[COOKIE_GROUP(cookie)], 1);
}

/* Where a probe carries no cookie a return does not know its group: there the entries' time stands for both. */
#define UPROBE_PROGRAM(name, at_return) \
	static __always_inline int name##_run(struct pt_regs *ctx); \
	SEC("uprobe.multi") \
	int name(struct pt_regs *ctx) \
	{ \
		__u64 begin_ns = own_time_begin(), end_ns; \
\
		name##_run(ctx); \
		if (!begin_ns) \
			return 0; \
		end_ns = bpf_ktime_get_ns(); \
		if (kernel_has(COOKIE)) \
			own_time_add(end_ns - begin_ns, bpf_get_attach_cookie(ctx)); \
		else if (!(at_return)) \
			own_time_add(end_ns - begin_ns, probe_cookie(ctx)); \
		return 0; \
	} \
	static __always_inline int name##_run(struct pt_regs *ctx)
#define UPROBE_ENTRY(name) UPROBE_PROGRAM(name, false)
#define UPROBE_RETURN(name) UPROBE_PROGRAM(name, true)

#endif
