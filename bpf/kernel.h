/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * kernel.h - what a kernel may lack that a program asks for, as bits of `kernel_lacks` (bpf/kernel.bpf.h). Found out,
 * and explained, by user/kernel.def; never by the kernel's version.
 */
#ifndef RANKTRACE_KERNEL_H
#define RANKTRACE_KERNEL_H

enum kernel_feature {
#define FEATURE(id, name, since, commit, instead, lost) KERNEL_##id,
#include "bpf/kernel.def"
#undef FEATURE
	KERNEL_FEATURES,
};
#define KERNEL_NEVER (1u << 31) /* a bit that no kernel sets, and no compiler knows not to be set */
#define KERNEL_BIT(id) (1u << KERNEL_##id)

#endif
