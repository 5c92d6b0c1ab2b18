/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_kernel.h - `ranktrace ps --kernel`: what this kernel gives, what is used instead of what it lacks, and which of
 * its quirks are worked round. With `load`, every BPF program is loaded (never attached), as this kernel runs it and
 * without each feature.
 */
#ifndef RANKTRACE_PS_KERNEL_H
#define RANKTRACE_PS_KERNEL_H

#include <stdbool.h>

/* Prints to stdout. An exit code: EXIT_UNSUPPORTED where tracing cannot work or a program did not load. */
int ps_kernel_print(bool load, bool json);

#endif
