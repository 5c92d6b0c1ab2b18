/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_core_ask.h - the kernels that a rank's GPUs are in, by name, from a core dump that CUDA writes when it is asked:
 * only of a job that was started for it, and only where the job goes on afterwards.
 */
#ifndef RANKTRACE_GPU_CORE_ASK_H
#define RANKTRACE_GPU_CORE_ASK_H

#include <stdint.h>

struct model;
struct reader;

/* Says what can be named, without asking for it; once for all ranks of the model. */
void gpu_cores_offer(struct reader *r, const struct model *m);
/* Asks every rank for its dump, waits for them for `wait_ns` at most, says the kernels. 0 every rank's were named,
 * -ENOTSUP none could be asked, -ETIMEDOUT some dump did not come or could not be read. */
int gpu_cores_take(struct reader *r, const struct model *m, uint64_t wait_ns);

#endif
