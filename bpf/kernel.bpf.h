/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * kernel.bpf.h - one source for every kernel: kernel_has(ID) is a constant to the verifier, which drops the other
 * branch before it checks the calls in it. The loader fills `kernel_lacks` before it loads an object.
 */
#ifndef RANKTRACE_KERNEL_BPF_H
#define RANKTRACE_KERNEL_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/kernel.h"

const volatile __u32 kernel_lacks = 0;

#define kernel_has(id) (!(kernel_lacks & KERNEL_BIT(id)))
#define session_has_prices() (!(kernel_lacks & KERNEL_UNPRICED))

/* task_struct.state became __state in 5.14, 2f064a59a11f. */
struct task_struct___5_13 {
	long state;
} __attribute__((preserve_access_index));

static __always_inline unsigned int task_state_of(struct task_struct *p)
{
	if (bpf_core_field_exists(p->__state))
		return BPF_CORE_READ(p, __state);
	return BPF_CORE_READ((struct task_struct___5_13 *)p, state);
}

#endif
