/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_record.c - see wait_record.h.
 */
#include "tracers/process/wait_record.h"

#include <string.h>

#include "record.h"
#include "schemas/collector.h"

_Static_assert((int)WAITS_SOCKET == WAIT_KIND_SOCKET && (int)WAITS_SIGNAL == WAIT_KIND_SIGNAL, "kinds");
_Static_assert((int)WAITS_TO_WRITE == WAIT_ACT_WRITE && (int)WAITS_TO_OTHER == WAIT_ACT_OTHER, "acts");
_Static_assert((int)WAITS_MOVES == WAIT_FLAG_MOVES && (int)WAITS_UDP == WAIT_FLAG_UDP, "flags");

size_t wait_record_encode(uint32_t tgid, uint32_t tid, uint64_t ns, const struct waits_for *w, struct wire_hdr *to)
{
	struct record_wait *f = (struct record_wait *)to;
	size_t most = WAIT_RECORD_BYTES - 8;

	*f = (struct record_wait){
		.hdr = { .size = sizeof(*f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_WAIT,
			 .tgid = tgid,
			 .tid = tid,
			 .ts_ns = ns },
		.read_ns = w->ns,
		.since_ns = w->since_ns,
		.length_ns = w->length_ns,
		.until_ns = w->until_ns,
		.pid = w->pid,
		.thread = w->thread,
		.n = w->n,
		.flags = w->flags,
		.kind = w->kind,
		.act = w->act,
	};
	f->what_len = record_text_put(to, most - 2, w->what);
	f->who_len = record_text_put(to, most - 1, w->who);
	f->activity_len = record_text_put(to, most, w->activity);
	return record_pad(to);
}

int wait_record_emit(uint32_t tgid, uint32_t tid, uint64_t ns, const struct waits_for *w,
		     int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	union {
		struct wire_hdr h;
		char bytes[WAIT_RECORD_BYTES];
	} u;

	wait_record_encode(tgid, tid, ns, w, &u.h);
	return emit(to, &u.h);
}
