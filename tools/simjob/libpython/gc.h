/* SPDX-License-Identifier: Apache-2.0 */
/* What a training loop has of a Python interpreter: its collector of garbage. See gc.c. */
#ifndef SIM_PYTHON_GC_H
#define SIM_PYTHON_GC_H

#include <stdint.h>

/* Collects garbage for so long, on the CPU. */
void sim_python_collect(uint64_t ns);
/* What this thread's collections took, in all. */
uint64_t sim_python_collected_ns(void);

#endif
