/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * group.h - PyTorch is about to call NCCL for a process group: the body of the record, the event's and what the model
 * reads.
 */
#ifndef RANKTRACE_WIRE_GROUP_H
#define RANKTRACE_WIRE_GROUP_H

#include "schemas/wire.h"

#define TORCH_GROUP_TEXT 40 /* of a name or description, with its zero byte; a longer one is cut */
#define TORCH_TITLE_TEXT 24

struct torch_group {
	__u64 seq, p2p_seq;           /* of the group, as PyTorch counts: collectives; Send and Recv */
	char name[TORCH_GROUP_TEXT];  /* "0" */
	char desc[TORCH_GROUP_TEXT];  /* "mesh_tp", "undefined" */
	char title[TORCH_TITLE_TEXT]; /* "nccl:all_reduce" */
};
_Static_assert(sizeof(struct torch_group) == 120, "torch_group");

#endif
