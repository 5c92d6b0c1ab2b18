/* SPDX-License-Identifier: Apache-2.0
 *
 * hit.h - what one probe hit costs its target on this machine: the whole, and the share of our program in it.
 */
#ifndef RANKTRACE_BENCH_HIT_H
#define RANKTRACE_BENCH_HIT_H

#include <stdbool.h>

/* Prints; false: it could not be measured, and standard error says why. */
bool hit_print(const char *ranktrace, const char *library);

#endif
