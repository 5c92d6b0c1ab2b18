/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_print.h - the last lines of `replay --steps`: each rank's iteration clock.
 */
#ifndef RANKTRACE_CLOCK_PRINT_H
#define RANKTRACE_CLOCK_PRINT_H

#include "model/model.h"

/* A JSON line for each rank that has one, on standard output. */
void clock_print(const struct model *m);

#endif
