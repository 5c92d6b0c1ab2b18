/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_record.c - see snapshot_record.h. A body goes as it is; only texts need a place of their own.
 */
#include "pipeline/snapshot_record.h"

#include <errno.h>
#include <string.h>

#include "record.h"
#include "schemas/snapshot.h"
#include "tracers/process/proc_wire.h"
#include "tracers/process/wait_record.h"

_Static_assert(sizeof(((struct event *)0)->snapshot.text) / sizeof(char *) == SNAPSHOT_TEXTS, "event.snapshot.text");

static int encode_start(const struct event *e, struct record_start *f)
{
	f->realtime_offset_ns = e->start.realtime_offset_ns;
	f->dstate_limit_ns = e->start.dstate_limit_ns;
	f->hang_floor_ns = e->start.hang_floor_ns;
	f->busy_limit_ns = e->start.busy_limit_ns;
	f->version = WIRE_VERSION;
	f->by = e->start.by_autopsy ? START_BY_AUTOPSY : e->start.by_session ? START_BY_SESSION : START_BY_UNKNOWN;
	f->hdr.kind = RECORD_START;
	f->hdr.size = sizeof(*f);
	f->host_len = record_text_put(&f->hdr, WIRE_SIZE_MAX, e->start.host);
	return record_pad(&f->hdr);
}

static int encode_proc(const struct event *e, struct record_proc *f)
{
	proc_wire_write(&e->proc, f);
	return f->hdr.size;
}

static int encode_thread(const struct event *e, struct record_thread *f)
{
	f->hdr.kind = RECORD_THREAD;
	f->hdr.size = sizeof(*f);
	strncpy(f->name, e->thread.name ? e->thread.name : "", sizeof(f->name) - 1);
	return f->hdr.size;
}

static int encode_stack(const struct event *e, struct record_stack *f)
{
	f->flags = (e->stack.unread ? STACK_FLAG_UNREAD : 0) | (e->stack.sampled ? STACK_FLAG_SAMPLED : 0);
	f->hdr.kind = RECORD_STACK;
	f->hdr.size = sizeof(*f);
	f->wait_len = record_text_put(&f->hdr, WIRE_SIZE_MAX - 6, e->stack.wait);
	f->file_len = record_text_put(&f->hdr, WIRE_SIZE_MAX - 5, e->stack.file);
	f->kernel_len = record_text_put(&f->hdr, WIRE_SIZE_MAX - 4, e->stack.kernel);
	f->frames_len = record_text_put(&f->hdr, WIRE_SIZE_MAX - 3, e->stack.frames);
	f->python_len = record_text_put(&f->hdr, WIRE_SIZE_MAX - 2, e->stack.python);
	f->native_len = record_text_put(&f->hdr, WIRE_SIZE_MAX - 1, e->stack.native);
	f->end_len = record_text_put(&f->hdr, WIRE_SIZE_MAX, e->stack.end);
	return record_pad(&f->hdr);
}

static int encode_snapshot(const struct event *e, struct record_snapshot *f)
{
	int n = SNAPSHOT_TEXTS;

	if (e->snapshot.bytes % 8 || sizeof(*f) + e->snapshot.bytes + SNAPSHOT_TEXTS > WIRE_SIZE_MAX)
		return -EINVAL;
	while (n && !*e->snapshot.text[n - 1])
		n--;
	f->what = e->snapshot.what;
	f->n_texts = n;
	f->body_bytes = e->snapshot.bytes;
	f->hdr.kind = RECORD_SNAPSHOT;
	f->hdr.size = sizeof(*f) + e->snapshot.bytes;
	if (e->snapshot.bytes)
		memcpy(f + 1, e->snapshot.body, e->snapshot.bytes);
	for (int i = 0; i < n; i++)
		record_text_put(&f->hdr, WIRE_SIZE_MAX - (n - 1 - i), e->snapshot.text[i]);
	return record_pad(&f->hdr);
}

static int encode_partial(struct wire_hdr *to)
{
	to->kind = RECORD_PARTIAL;
	to->size = sizeof(struct record_partial);
	return to->size;
}

int snapshot_encode(const struct event *e, struct wire_hdr *to)
{
	memset(to, 0, sizeof(struct record_proc));
	*to = (struct wire_hdr){ .tracer = WIRE_COLLECTOR, .tid = e->tid, .tgid = e->tgid, .ts_ns = e->ts_ns };
	switch (e->kind) {
	case EV_START: return encode_start(e, (struct record_start *)to);
	case EV_PARTIAL: return encode_partial(to);
	case EV_PROC: return encode_proc(e, (struct record_proc *)to);
	case EV_THREAD: return encode_thread(e, (struct record_thread *)to);
	case EV_STACK: return encode_stack(e, (struct record_stack *)to);
	case EV_WAIT: return wait_record_encode(e->tgid, e->tid, e->ts_ns, &e->wait, to);
	case EV_SNAPSHOT: return encode_snapshot(e, (struct record_snapshot *)to);
	default: return -EINVAL;
	}
}

int snapshot_decode(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_snapshot *f = (const void *)rec;
	const char *at = (const char *)(f + 1) + f->body_bytes, *end = (const char *)f + f->hdr.size, *zero;

	if (f->body_bytes % 8 || f->body_bytes > f->hdr.size - sizeof(*f) || f->n_texts > SNAPSHOT_TEXTS)
		return -EINVAL;
	e->kind = EV_SNAPSHOT;
	e->snapshot.what = f->what;
	e->snapshot.body = f + 1;
	e->snapshot.bytes = f->body_bytes;
	for (int i = 0; i < SNAPSHOT_TEXTS; i++) {
		e->snapshot.text[i] = "";
		if (i >= f->n_texts)
			continue;
		zero = memchr(at, '\0', end - at);
		e->snapshot.text[i] = zero ? intern_bytes(strings, at, zero - at + 1) : NULL;
		if (!e->snapshot.text[i])
			return -EINVAL;
		at = zero + 1;
	}
	return 1;
}
