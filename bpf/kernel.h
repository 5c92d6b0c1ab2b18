/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * kernel.h - kernel features that a program may have to do without, as bits of `kernel_lacks` (bpf/kernel.bpf.h).
 * user/attach/kernel.c detects and explains them; the kernel's version never decides.
 */
#ifndef RANKTRACE_KERNEL_H
#define RANKTRACE_KERNEL_H

enum kernel_feature {
#define FEATURE(id, name, since, commit, instead, lost) KERNEL_##id,
#include "bpf/kernel.def"
#undef FEATURE
	KERNEL_FEATURES,
};
#define KERNEL_NEVER (1u << 31)    /* a bit that no kernel sets; the compiler cannot know that */
#define KERNEL_UNPRICED (1u << 30) /* no feature: this session counts no costs */
#define KERNEL_BIT(id) (1u << KERNEL_##id)

#endif
