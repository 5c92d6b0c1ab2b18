/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_kernel.h - `ranktrace ps --kernel`: what this kernel offers, the replacement for what it lacks, and the
 * workarounds for its quirks.
 *
 * With `load`, every BPF program is loaded (never attached), as this kernel runs it and without each feature.
 */
#ifndef RANKTRACE_PS_KERNEL_H
#define RANKTRACE_PS_KERNEL_H

#include <stdbool.h>

/* Prints to stdout. Returns an exit code; EXIT_UNSUPPORTED: tracing cannot work, or a program did not load. */
int ps_kernel_print(bool load, bool json);

#endif
