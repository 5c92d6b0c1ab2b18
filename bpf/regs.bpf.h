/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * regs.bpf.h - integer arguments of a user function at its entry, per architecture, by index from 0; those past
 * the registers lie on the stack. Sources: System V AMD64 ABI 3.2.3, AAPCS64 6.8.2.
 */
#ifndef RANKTRACE_REGS_BPF_H
#define RANKTRACE_REGS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#if defined(__TARGET_ARCH_x86)
#define ARG_REGS 6
#define ARG_STACK_SKIP 8 /* the return address */
#else
#define ARG_REGS 8
#define ARG_STACK_SKIP 0
#endif

static __always_inline __u64 user_stack_word(struct pt_regs *ctx, __u32 index)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)(PT_REGS_SP(ctx) + ARG_STACK_SKIP + 8 * index));
	return v;
}

static __always_inline __u64 user_arg(struct pt_regs *ctx, __u32 index)
{
	switch (index) {
	case 0: return PT_REGS_PARM1(ctx);
	case 1: return PT_REGS_PARM2(ctx);
	case 2: return PT_REGS_PARM3(ctx);
	case 3: return PT_REGS_PARM4(ctx);
	case 4: return PT_REGS_PARM5(ctx);
	case 5: return PT_REGS_PARM6(ctx);
#if defined(__TARGET_ARCH_arm64)
	case 6: return PT_REGS_PARM7(ctx);
	case 7: return PT_REGS_PARM8(ctx);
#endif
	default: return user_stack_word(ctx, index - ARG_REGS);
	}
}

/* Address that the function returns to, in its caller. */
static __always_inline __u64 user_return_address(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	__u64 ret = 0;

	bpf_probe_read_user(&ret, sizeof(ret), (void *)PT_REGS_SP(ctx));
	return ret;
#else
	return PT_REGS_RET(ctx);
#endif
}

#endif
