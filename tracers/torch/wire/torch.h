/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * torch.h - a mark that PyTorch passed: the body of the record, the event's and what the model reads.
 */
#ifndef RANKTRACE_WIRE_TORCH_H
#define RANKTRACE_WIRE_TORCH_H

#include "schemas/wire.h"

#define TORCH_NAME_LEN 64 /* of a range, with its zero byte; a longer one is cut */

enum torch_what {
	TORCH_RANGE_BEGIN = 1, /* record_function(name): `name` */
	TORCH_RANGE_END = 2,   /* the innermost one of the thread */
	TORCH_BACKWARD_BEGIN = 3,
	TORCH_BACKWARD_END = 4,
	TORCH_DDP_FORWARD = 5,  /* DistributedDataParallel goes into its module's forward */
	TORCH_DDP_BACKWARD = 6, /* it is out of it, and gets ready for the backward; not written any more */
	TORCH_DDP_DONE = 7,     /* all gradients are reduced; not written any more */
	TORCH_OPERATOR = 8,     /* one that an optimizer begins with */
	TORCH_UPDATE = 9,       /* an operator that changes parameters */
	TORCH_WHAT_MAX = 10,
};

#define TORCH_NO_END 1 /* flag of BACKWARD_BEGIN: no probe will see its end */

struct torch_mark {
	__u16 what;  /* enum torch_what */
	__u16 flags; /* TORCH_NO_END */
	__u32 reserved;
	char name[TORCH_NAME_LEN]; /* RANGE_BEGIN; else "" */
};
_Static_assert(sizeof(struct torch_mark) == 72, "torch_mark");

#endif
