/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_records.c - what the probes on PyTorch write. The record's body is the event's.
 */
#include "tracers/torch/torch.h"
#include "base/utf8.h"
#include "record.h"

/* A range's name is the target's text: made fit to print here, once. */
static int decode_mark(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct torch_record *r = (const void *)rec;

	(void)strings;
	if (!r->body.what || r->body.what >= TORCH_WHAT_MAX)
		return -EINVAL;
	e->torch.name[TORCH_NAME_LEN - 1] = '\0';
	utf8_tame(e->torch.name, "");
	return 1;
}

const struct record_kind source_records_torch[] = { { "torch_mark", .tracer = WIRE_TORCH, .kind = TORCH_MARK,
						      RECORD_AS_EVENT(EV_TORCH, torch), .decode = decode_mark },
						    {} };
