/* SPDX-License-Identifier: Apache-2.0
 *
 * oom_records.c - how much the kernel's OOM killer prefers a process: a counter of it that the model keeps.
 */
#include "record.h"
#include "tracers/oom/oom.h"

static int adj(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)strings;
	e->kind = EV_COUNTER;
	e->generic.name = OOM_ADJ_NAME;
	e->generic.value = ((const struct oom_adj *)rec)->adj;
	e->generic.kept = true;
	return 1;
}

const struct record_kind source_records_oom[] = { { "oom_adj", .tracer = WIRE_OOM, .kind = OOM_ADJ,
						    .size = sizeof(struct oom_adj),
						    .kept_by = offsetof(struct oom_adj, key), .decode = adj },
						  {} };
