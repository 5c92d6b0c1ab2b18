/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_guess.h - which GPU a rank computes on, where NVML does not say so in pids that mean anything here.
 */
#ifndef RANKTRACE_GPU_GUESS_H
#define RANKTRACE_GPU_GUESS_H

#include <stdbool.h>
#include <stdint.h>

struct target_proc;

/* By CUDA_VISIBLE_DEVICES and the local rank, as torchrun's jobs choose; -1: not to be known (UUIDs, no local rank). */
int gpu_guess(const char *visible_devices, int local_rank);
/* It has a device file of a GPU open. Takes no lock of the target's. */
bool gpu_in_use(uint32_t pid);

#endif
