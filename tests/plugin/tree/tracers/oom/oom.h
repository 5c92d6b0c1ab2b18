/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.h - the record of source oom. The number of the source is one of those for sources that are kept outside of the
 * tree (schemas/wire.h).
 */
#ifndef RANKTRACE_OOM_H
#define RANKTRACE_OOM_H

#include "schemas/wire.h"

#define WIRE_OOM (WIRE_OUTSIDE + 1)
#define OOM_ADJ_NAME "oom_score_adj" /* of the counter that the record becomes */

enum oom_kind { OOM_ADJ = 1 };

struct oom_adj {
	struct wire_hdr hdr; /* tgid */
	__u32 key;           /* 0: there is one such record a process */
	__s32 adj;           /* -1000 to 1000 */
};
_Static_assert(sizeof(struct oom_adj) == 32, "oom_adj");

#endif
