/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt.h - `--bisect`: which hosts are bad, by rounds of groups of hosts that run one case side by side
 * (bisect/bisect.h). A group fails when an element is wrong, it does not end, or it is slower than groups of its size.
 * Few hosts make too few groups to compare: all their pairs are tried (bisect/pairs.h), and those of a host that would
 * be named again.
 */
#ifndef STRESS_NCCL_HUNT_H
#define STRESS_NCCL_HUNT_H

#include "tools/stress/nccl/nccl_run.h"

void nccl_hunt(struct nccl_run *run);

#endif
