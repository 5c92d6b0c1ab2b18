/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.c - see decode.h. What a kind is, its source says (record.h).
 */
#include "pipeline/decode.h"

#include <errno.h>
#include <string.h>

int decode_record(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct record_kind *k = record_kind_of(rec);
	int max = k && k->n_events ? k->n_events : 1;

	if (!k || rec->size < k->size)
		return -EINVAL;
	memset(out, 0, max * sizeof(*out)); /* half of what a decode costs: no more of them than there can be */
	for (int i = 0; i < max; i++) {
		out[i].tid = rec->tid;
		out[i].tgid = rec->tgid;
		out[i].cpu = rec->cpu;
		out[i].ts_ns = rec->ts_ns;
	}
	if (k->event) {
		out->kind = k->event;
		memcpy((char *)out + k->to, rec + 1, k->bytes);
	}
	return k->decode ? k->decode(rec, strings, out) : 1;
}
