/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.h - what the running kernel offers to the programs: each feature of kernel.def is detected by its effect, and
 * kernel_quirks.def lists the kernels that need a workaround. Attaches nothing.
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

/* Returns in bits what this kernel lacks, plus what RANKTRACE_KERNEL_LACKS takes away. 0; -ENOENT: no BTF, nothing
 * loads; -ENOTSUP: no ring buffer (before 5.8), nothing works; -EDOM: RANKTRACE_KERNEL_LACKS has a name that kernel.def
 * lacks. */
int kernel_lacks_read(uint32_t *ret);
/* "attach-cookie,uprobe-multi" as bits; -EINVAL for a name that kernel.def lacks. */
int kernel_lacks_parse(const char *names, uint32_t *ret);

/* Sets what this kernel lacks in an object before it is loaded: read-only data, so a constant to the verifier. 0, or
 * -ENOENT: its source does not include bpf/kernel.bpf.h. */
struct bpf_object;
int kernel_lacks_set(struct bpf_object *o, uint32_t lacks);
/* Has the loaded program one stack per CPU? (x86-64; false where that cannot be found out.) */
bool kernel_private_stack(int prog_fd);

struct kernel_quirk {
	const char *id, *machine; /* "": any */
	int since[2], until[2];   /* mainline versions: from `since`, up to but without `until`; 0, 0: open */
	const char *what, *done, *source;
};
/* i-th quirk; NULL past the end. */
const struct kernel_quirk *kernel_quirk(size_t i);
/* Decides by version alone, because distributions backport fixes and bugs. `release` as uname prints it,
 * "6.12.107+deb13-amd64". */
bool kernel_quirk_applies(const struct kernel_quirk *q, const char *release, const char *machine);

#endif
