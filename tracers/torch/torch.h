/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * torch.h - the record of the torch tracer, and what its programs know of a row of torch_symbols.def.
 */
#ifndef RANKTRACE_TORCH_H
#define RANKTRACE_TORCH_H

#include "tracers/torch/wire/torch.h"

enum torch_kind { TORCH_MARK = 1 };

struct torch_record {
	struct wire_hdr hdr;
	struct torch_mark body;
};
_Static_assert(sizeof(struct torch_record) == 96, "torch_record");

#endif
