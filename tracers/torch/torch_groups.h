/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * torch_groups.h - the record of the tracer torch_groups.
 */
#ifndef RANKTRACE_TORCH_GROUPS_H
#define RANKTRACE_TORCH_GROUPS_H

#include "tracers/torch/wire/group.h"

enum torch_groups_kind { TORCH_GROUP = 1 };

struct torch_group_record {
	struct wire_hdr hdr;
	struct torch_group body;
};
_Static_assert(sizeof(struct torch_group_record) == 144, "torch_group_record");

#endif
