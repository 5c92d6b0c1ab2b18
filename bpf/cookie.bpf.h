/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * cookie.bpf.h - the cookie of the probe that was hit; works on kernels without attach cookies (before 5.15) too.
 */
#ifndef RANKTRACE_COOKIE_BPF_H
#define RANKTRACE_COOKIE_BPF_H

#include "bpf/cookie.h"
#include "bpf/kernel.bpf.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, COOKIES_MAX);
	__type(key, struct cookie_key);
	__type(value, __u64);
} probe_cookies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} never_called SEC(".maps");

/* Kernels from 6.13 (a76ab5731e32) give a uprobe program with 64 bytes of stack or more one stack per CPU, though
 * uprobes can be preempted (88bf18581375, 6.0): two hits then write over each other. A program that holds a tail call
 * gets none, even where the verifier sees that it is never reached. Every uprobe program begins with this or with
 * probe_cookie(). */
static __always_inline void private_stack_refuse(struct pt_regs *ctx)
{
	if (kernel_lacks & KERNEL_NEVER)
		bpf_tail_call(ctx, &never_called, 0);
}

/* Only for a program at a function's entry: at the return the address is the caller's. COOKIE_NONE: not a probe of this
 * process (yet). */
static __always_inline __u64 probe_cookie(struct pt_regs *ctx)
{
	struct cookie_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .ip = PT_REGS_IP(ctx) };
	__u64 *cookie;

	private_stack_refuse(ctx);
	if (kernel_has(COOKIE))
		return bpf_get_attach_cookie(ctx);
	cookie = bpf_map_lookup_elem(&probe_cookies, &key);
	return cookie ? *cookie : COOKIE_NONE;
}

/* From the moment the thread is under seccomp, which is before the collector knows and takes return probes away. */
static __always_inline bool lacks_returns(__u64 cookie)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (cookie & COOKIE_NO_RETURNS)
		return true;
	return (cookie & COOKIE_RETURNS_END_BY_SECCOMP) && bpf_core_field_exists(task->seccomp.mode) &&
	       BPF_CORE_READ(task, seccomp.mode) != 0;
}

#endif
