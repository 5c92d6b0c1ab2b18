/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_group.h - the ranks of a host that are a communicator of their own: a tensor-parallel group, or one that shards
 * parameters or shares experts, which looks the same by its shape.
 */
#ifndef RANKTRACE_DETECT_GPU_GROUP_H
#define RANKTRACE_DETECT_GPU_GROUP_H

#include "model/ahead.h"

/* Are these processes, by key, all ranks of one communicator, and not of the whole job? They wait for each other in
 * each of its operations. */
bool gpu_group_is_own(const struct model *m, const uint64_t *procs, int n);

#endif
