/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_record.c - see wait_record.h.
 */
#include "tracers/process/wait_record.h"

#include <string.h>

#include "schemas/collector.h"

_Static_assert((int)WAITS_SOCKET == WAIT_KIND_SOCKET && (int)WAITS_SIGNAL == WAIT_KIND_SIGNAL, "kinds");
_Static_assert((int)WAITS_TO_WRITE == WAIT_ACT_WRITE && (int)WAITS_TO_OTHER == WAIT_ACT_OTHER, "acts");
_Static_assert((int)WAITS_MOVES == WAIT_FLAG_MOVES && (int)WAITS_UDP == WAIT_FLAG_UDP, "flags");

/* With its zero byte, `later` bytes left for those that follow. */
static uint16_t text_put(struct wire_hdr *h, const char *text, size_t later)
{
	size_t room = WAIT_RECORD_BYTES - 8 - h->size - later, len = strlen(text);
	char *at = (char *)h + h->size;

	len = len + 1 > room ? room - 1 : len;
	memcpy(at, text, len);
	at[len] = 0;
	h->size += len + 1;
	return len + 1;
}

size_t wait_record_encode(uint32_t tgid, uint32_t tid, uint64_t ns, const struct waits_for *w, struct wire_hdr *to)
{
	struct record_wait *f = (struct record_wait *)to;
	size_t size;

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
	f->what_len = text_put(to, w->what, 2);
	f->who_len = text_put(to, w->who, 1);
	f->activity_len = text_put(to, w->activity, 0);
	size = (to->size + 7) & ~7ul;
	memset((char *)to + to->size, 0, size - to->size);
	return to->size = size;
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
