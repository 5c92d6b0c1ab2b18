/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_core.h - a core dump that CUDA wrote of a process' GPUs (cudacoredump.h of the toolkit describes the format): the
 * kernels that were running, by name. Nothing else of it is read. The file is hostile input: work for a parser.
 */
#ifndef RANKTRACE_GPU_CORE_H
#define RANKTRACE_GPU_CORE_H

#include <stdint.h>

#define GPU_CORE_KERNELS_MAX 32
#define GPU_CORE_NAME_LEN 192 /* with its zero byte; a longer one is cut */

struct gpu_kernel {
	uint32_t device; /* CUDA's number in the process; UINT32_MAX not known */
	uint32_t grid[3], block[3];
	char name[GPU_CORE_NAME_LEN]; /* mangled as it stands; "" its module is not in the file */
};

struct gpu_core {
	uint32_t n, n_left_out; /* kernels that were running */
	struct gpu_kernel kernels[GPU_CORE_KERNELS_MAX];
};

/* `fd` is borrowed. -ENOEXEC no core dump of CUDA; -EAGAIN it is not whole (yet); -EBADMSG damaged; -EINVAL not a
 * regular file; -ENOMEM. */
int gpu_core_read(int fd, struct gpu_core *ret);

struct reader;
/* The same in a parser; its errors, too (reader.h). */
int gpu_core_fetch(struct reader *r, int fd, unsigned deadline_ms, struct gpu_core *ret);

#endif
