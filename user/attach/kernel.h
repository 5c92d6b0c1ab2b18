/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.h - what the running kernel gives to the programs: the features of kernel.def, each looked for by its effect,
 * and which of kernel_quirks.def may apply to it. Attaches nothing.
 */
#ifndef RANKTRACE_KERNEL_USER_H
#define RANKTRACE_KERNEL_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/kernel.h"

struct kernel_feature_text {
	const char *name, *since, *commit, *instead, *lost;
};
extern const struct kernel_feature_text kernel_feature_texts[KERNEL_FEATURES];

/* Bits of what this kernel lacks, with what RANKTRACE_KERNEL_LACKS takes away. 0; -ENOENT: no BTF, nothing loads;
 * -ENOTSUP: no ring buffer (before 5.8), nothing works; -EDOM: RANKTRACE_KERNEL_LACKS has a name that kernel.def does
 * not have. */
int kernel_lacks_read(uint32_t *ret);
/* "attach-cookie,uprobe-multi" as bits; -EINVAL for a name that kernel.def does not have. */
int kernel_lacks_parse(const char *names, uint32_t *ret);

/* Before an object is loaded: its own word on what this kernel lacks, read-only data, so a constant to the verifier. 0,
 * or -ENOENT: its source does not include bpf/kernel.bpf.h. */
struct bpf_object;
int kernel_lacks_tell(struct bpf_object *o, uint32_t lacks);
/* The loaded program has a stack per CPU (x86-64; false where it cannot be told). */
bool kernel_private_stack(int prog_fd);

struct kernel_quirk {
	const char *id, *machine; /* "": any */
	int since[2], until[2];   /* mainline versions: in the first, not in the second any more; 0, 0 open */
	const char *what, *done, *source;
};
/* i-th quirk, NULL past the end. */
const struct kernel_quirk *kernel_quirk(size_t i);
/* By version alone: distributions backport fixes, and breakage. `release` as uname says, "6.12.107+deb13-amd64". */
bool kernel_quirk_applies(const struct kernel_quirk *q, const char *release, const char *machine);

#endif
