/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_groups_records.c - what the probes of torch_groups write. The record's body is the event's.
 */
#include "tracers/torch/torch_groups.h"
#include "base/utf8.h"
#include "record.h"

static void text_tame(char *text, size_t size)
{
	text[size - 1] = '\0';
	utf8_tame(text, "");
}

/* Names are the target's text: made fit to print here, once. */
static int decode_group(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct torch_group_record *r = (const void *)rec;

	(void)strings;
	if (!r->hdr.tid) /* it is said of what a thread calls next */
		return -EINVAL;
	text_tame(e->torch_group.name, sizeof(e->torch_group.name));
	text_tame(e->torch_group.desc, sizeof(e->torch_group.desc));
	text_tame(e->torch_group.title, sizeof(e->torch_group.title));
	return 1;
}

const struct record_kind source_records_torch_groups[] = {
	{ "torch_group", .tracer = WIRE_TORCH_GROUPS, .kind = TORCH_GROUP, RECORD_AS_EVENT(EV_TORCH_GROUP, torch_group),
	  .decode = decode_group },
	{}
};
