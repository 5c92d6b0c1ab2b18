/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_group.h - ranks of one host that split each matrix among them: a tensor-parallel group of a job that has more.
 */
#ifndef RANKTRACE_DETECT_GPU_GROUP_H
#define RANKTRACE_DETECT_GPU_GROUP_H

#include "model/model.h"

/* Are these processes, by key, all ranks of one communicator, and not of the whole job? Such ranks do equal work
 * between two operations of it: who does more in a step takes longer for the same, and the others wait for it each
 * time. */
bool gpu_group_shares_ops(const struct model *m, const uint64_t *procs, int n);

#endif
