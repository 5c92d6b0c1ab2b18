/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_event.c - names and track events of perfetto_file.h. A name that is new gets its own small packet before
 * the one that uses it, so an event is written in one pass.
 */
#include "sink/perfetto/perfetto_file.h"

#include <stdlib.h>

#include "base/intern.h"
#include "sink/sink_io.h"

const char *trace_text(struct trace_file *f, const char *text)
{
	const char *own = intern(f->texts, text);

	return intern_refused(own) ? INTERN_FULL : own;
}

static size_t name_slot(const struct name_table *t, const char *name)
{
	size_t i = (size_t)(((uintptr_t)name >> 3) * 0x9e3779b97f4a7c15u >> 32) & (t->cap - 1);

	while (t->keys[i] && t->keys[i] != name)
		i = (i + 1) & (t->cap - 1);
	return i;
}

static bool names_grow(struct name_table *t)
{
	struct name_table bigger = { .cap = t->cap ? 2 * t->cap : 64, .n = t->n };

	bigger.keys = calloc(bigger.cap, sizeof(*bigger.keys));
	bigger.iids = calloc(bigger.cap, sizeof(*bigger.iids));
	if (!bigger.keys || !bigger.iids) {
		free(bigger.keys);
		free(bigger.iids);
		return false;
	}
	for (size_t i = 0; i < t->cap; i++)
		if (t->keys[i]) {
			size_t slot = name_slot(&bigger, t->keys[i]);

			bigger.keys[slot] = t->keys[i];
			bigger.iids[slot] = t->iids[i];
		}
	free(t->keys);
	free(t->iids);
	*t = bigger;
	return true;
} /* lint: kept in *t */

void packet_text(struct pb *b, uint32_t field, const char *text)
{
	bool valid = utf8_valid(text);
	char *clean = valid ? NULL : utf8_dup(text);

	if (valid || clean)
		pb_text(b, field, valid ? text : clean);
	else
		b->failed = true;
	free(clean);
}

static void packet_insert(struct trace_file *f, const struct pb *packet)
{
	uint8_t *at;

	if (packet->failed || !pb_room(&f->batch, packet->len)) {
		f->batch.failed = true;
		return;
	}
	at = f->batch.data + f->packet_at;
	memmove(at + packet->len, at, f->batch.len - f->packet_at);
	memcpy(at, packet->data, packet->len);
	f->batch.len += packet->len;
	f->packet_at += packet->len;
	f->packet += packet->len;
	f->event += packet->len;
}

/* The packet that gives a new name its number, in front of the open one. */
static void name_write(struct trace_file *f, int table, uint32_t iid, const char *name)
{
	static const uint32_t fields[NAME_TABLES] = {
		[NAME_CATEGORY] = INTERNED_CATEGORIES,
		[NAME_EVENT] = INTERNED_EVENT_NAMES,
		[NAME_ANNOTATION] = INTERNED_ANNOTATION_NAMES,
		[NAME_TEXT] = INTERNED_ANNOTATION_STRINGS,
	};
	struct pb *b = &f->name;
	size_t packet, data, entry;

	pb_reset(b);
	packet = pb_open(b, TRACE_PACKET);
	packet_head(f, b);
	data = pb_open(b, PACKET_INTERNED_DATA);
	entry = pb_open(b, fields[table]);
	pb_u64(b, INTERNED_IID, iid);
	packet_text(b, INTERNED_TEXT, name);
	pb_close(b, entry);
	pb_close(b, data);
	pb_close(b, packet);
	packet_insert(f, b);
}

static uint32_t name_iid(struct trace_file *f, int table, const char *name)
{
	struct name_table *t = &f->names[table];
	size_t slot;

	name = trace_text(f, name);
	if (2 * (t->n + 1) > t->cap && !names_grow(t)) {
		f->batch.failed = true;
		return 0;
	}
	slot = name_slot(t, name);
	if (!t->keys[slot]) {
		t->keys[slot] = name;
		t->iids[slot] = (uint32_t)++t->n;
		name_write(f, table, t->iids[slot], name);
	}
	return t->iids[slot];
}

void event_open(struct trace_file *f, enum event_type type, uint64_t track, uint64_t ts_ns, const char *category,
		const char *name)
{
	struct pb *b = &f->batch;

	packet_open(f, ts_ns);
	f->event = pb_open(b, PACKET_TRACK_EVENT);
	pb_u64(b, EVENT_TYPE, type);
	pb_u64(b, EVENT_TRACK, track);
	if (category)
		pb_u64(b, EVENT_CATEGORY_IIDS, name_iid(f, NAME_CATEGORY, category));
	if (name)
		pb_u64(b, EVENT_NAME_IID, name_iid(f, NAME_EVENT, name));
}

void event_close(struct trace_file *f)
{
	pb_close(&f->batch, f->event);
	packet_close(f);
}

void slice_end(struct trace_file *f, uint64_t track, uint64_t ts_ns)
{
	event_open(f, TYPE_SLICE_END, track, ts_ns, NULL, NULL);
	event_close(f);
}

void event_title(struct trace_file *f, const char *title)
{
	packet_text(&f->batch, EVENT_NAME, title);
}

void event_flow(struct trace_file *f, uint64_t id, bool last)
{
	pb_fixed64(&f->batch, last ? EVENT_LAST_FLOWS : EVENT_FLOWS, id);
}

static size_t annotation_open(struct trace_file *f, const char *name)
{
	uint32_t iid = name_iid(f, NAME_ANNOTATION, name);
	size_t at = pb_open(&f->batch, EVENT_ANNOTATIONS);

	pb_u64(&f->batch, ANNOTATION_NAME_IID, iid);
	return at;
}

void event_u64(struct trace_file *f, const char *name, uint64_t v)
{
	size_t at = annotation_open(f, name);

	pb_u64(&f->batch, ANNOTATION_UINT, v);
	pb_close(&f->batch, at);
}

void event_i64(struct trace_file *f, const char *name, int64_t v)
{
	size_t at = annotation_open(f, name);

	pb_i64(&f->batch, ANNOTATION_INT, v);
	pb_close(&f->batch, at);
}

void event_double(struct trace_file *f, const char *name, double v)
{
	size_t at = annotation_open(f, name);

	pb_double(&f->batch, ANNOTATION_DOUBLE, v);
	pb_close(&f->batch, at);
}

void event_bool(struct trace_file *f, const char *name, bool v)
{
	size_t at = annotation_open(f, name);

	pb_u64(&f->batch, ANNOTATION_BOOL, v);
	pb_close(&f->batch, at);
}

void event_pointer(struct trace_file *f, const char *name, uint64_t v)
{
	size_t at = annotation_open(f, name);

	pb_u64(&f->batch, ANNOTATION_POINTER, v);
	pb_close(&f->batch, at);
}

void event_text(struct trace_file *f, const char *name, const char *text)
{
	size_t at = annotation_open(f, name);

	packet_text(&f->batch, ANNOTATION_TEXT, text);
	pb_close(&f->batch, at);
}

void event_interned(struct trace_file *f, const char *name, const char *text)
{
	uint32_t iid = name_iid(f, NAME_TEXT, text); /* before anything else is opened in the packet */
	size_t at = annotation_open(f, name);

	pb_u64(&f->batch, ANNOTATION_TEXT_IID, iid);
	pb_close(&f->batch, at);
}
