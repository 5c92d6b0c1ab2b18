/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolize.h - user stack addresses as "func+0x1f (libfoo.so)" lines, from the kept snapshot of the process' maps and
 * the files kept open. Never touches the target, which may be blocked. No unwinding, no demangling.
 */
#ifndef RANKTRACE_TARGET_SYMBOLIZE_H
#define RANKTRACE_TARGET_SYMBOLIZE_H

#include "inspect/discover/discover.h"

#define SYMBOLIZE_FRAMES_MAX 128

struct symbolizer;

/* The reader is borrowed and does the sample into the files. Answers are cached by build-id and offset, bounded. */
int symbolizer_new(struct reader *r, struct symbolizer **ret);
void symbolizer_free(struct symbolizer *s);
/*
 * One line a frame, innermost first, no newline at the end, cut to whole lines that fit `size`. The first address is
 * a pc, the others are return addresses. Without a name: "libfoo.so+0x1234" (file offset), "[vdso]+0x..",
 * "0x7f.. (anonymous)", "0x7f.. (?)". Returns the number of lines; at most SYMBOLIZE_FRAMES_MAX.
 */
int symbolizer_stack(struct symbolizer *s, const struct target_proc *p, const uint64_t addrs[], size_t n, char *to,
		     size_t size);

#endif
