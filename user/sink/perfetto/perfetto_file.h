/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_file.h - a Perfetto trace as a stream of packets: names are written once and then referred to by number,
 * packets leave in compressed batches. Knows nothing of jobs. Field numbers are those of schemas/perfetto.proto.
 */
#ifndef RANKTRACE_PERFETTO_FILE_H
#define RANKTRACE_PERFETTO_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <libdeflate.h>

#include "sink/perfetto/pb_write.h"

enum { PACKET_SEQUENCE_ID = 1 }; /* one writer, one sequence */
enum { CLOCK_ID_REALTIME = 1, CLOCK_ID_MONOTONIC = 3, CLOCK_ID_BOOTTIME = 6 };

enum perfetto_field { /* PARENT_FIELD of the messages in use */
		      TRACE_PACKET = 1,
		      PACKET_CLOCK_SNAPSHOT = 6,
		      PACKET_TIMESTAMP = 8,
		      PACKET_TRUSTED_SEQUENCE = 10,
		      PACKET_TRACK_EVENT = 11,
		      PACKET_INTERNED_DATA = 12,
		      PACKET_SEQUENCE_FLAGS = 13,
		      PACKET_COMPRESSED = 50,
		      PACKET_DEFAULTS = 59,
		      PACKET_TRACK_DESCRIPTOR = 60,
		      SNAPSHOT_CLOCKS = 1,
		      SNAPSHOT_PRIMARY_CLOCK = 2,
		      CLOCK_ID = 1,
		      CLOCK_TIMESTAMP = 2,
		      DEFAULTS_TRACK_EVENT = 11,
		      DEFAULTS_CLOCK_ID = 58,
		      EVENT_DEFAULTS_TRACK = 11,
		      INTERNED_CATEGORIES = 1,
		      INTERNED_EVENT_NAMES = 2,
		      INTERNED_ANNOTATION_NAMES = 3,
		      INTERNED_ANNOTATION_STRINGS = 29,
		      INTERNED_IID = 1,
		      INTERNED_TEXT = 2,
		      EVENT_CATEGORY_IIDS = 3,
		      EVENT_ANNOTATIONS = 4,
		      EVENT_TYPE = 9,
		      EVENT_NAME_IID = 10,
		      EVENT_TRACK = 11,
		      EVENT_NAME = 23,
		      EVENT_COUNTER_VALUE = 30,
		      EVENT_FLOWS = 47,
		      EVENT_LAST_FLOWS = 48,
		      ANNOTATION_NAME_IID = 1,
		      ANNOTATION_BOOL = 2,
		      ANNOTATION_UINT = 3,
		      ANNOTATION_INT = 4,
		      ANNOTATION_DOUBLE = 5,
		      ANNOTATION_TEXT = 6,
		      ANNOTATION_POINTER = 7,
		      ANNOTATION_TEXT_IID = 17,
		      TRACK_UUID = 1,
		      TRACK_NAME = 2,
		      TRACK_PROCESS = 3,
		      TRACK_THREAD = 4,
		      TRACK_PARENT = 5,
		      TRACK_COUNTER = 8,
		      TRACK_ORDER = 12,
		      TRACK_PROCESS_ORDERING = 19,
		      PROCESS_ORDERING_EXPLICIT = 1,
		      PROCESS_PID = 1,
		      PROCESS_NAME = 6,
		      THREAD_PID = 1,
		      THREAD_TID = 2,
		      THREAD_NAME = 5,
};

enum event_type { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

/* Number of each string by the address of the file's own copy. */
struct name_table {
	const char **keys;
	uint32_t *iids;
	size_t n, cap;
};
enum { NAME_CATEGORY, NAME_EVENT, NAME_ANNOTATION, NAME_TEXT, NAME_TABLES };

struct trace_file {
	int fd;
	int err;         /* first failure; nothing is written after it */
	struct pb batch; /* packets not yet written; the last one may be open */
	struct pb name;  /* a packet that goes before the open one */
	struct pb out;   /* the batch as it is written */
	uint8_t *deflated;
	size_t deflated_cap;
	size_t packet_at, packet, event; /* of the open packet: where it begins; it and its TrackEvent, as opened */
	uint64_t flushed_ns;
	struct intern *texts; /* all names: those given may be gone before the file ends */
	struct name_table names[NAME_TABLES];
	struct libdeflate_compressor *deflate;
	uint32_t flags; /* of the next packet: the first one starts the names anew */
};

/* 0 or -errno. On failure nothing is left open. */
int trace_open(struct trace_file *f, const char *path);
/* Write the packets gathered so far as one batch. 0; -errno the first time writing fails and 0 ever after; what
 * was written before stays readable (a file is cut back to its last whole batch). */
int trace_flush(struct trace_file *f);
/* The same, when the batch is large enough or two seconds have gone by since the last time. */
int trace_flush_due(struct trace_file *f, uint64_t now_ns);
int trace_close(struct trace_file *f); /* flush, close, free */

/* A packet: open, write fields into f->batch, close. The first flags and defaults are written by trace_start(). */
void packet_open(struct trace_file *f, uint64_t ts_ns); /* 0: no timestamp */
void packet_close(struct trace_file *f);
void packet_head(struct trace_file *f, struct pb *b);             /* sequence and flags, for a packet written by hand */
void packet_text(struct pb *b, uint32_t field, const char *text); /* any bytes, made UTF-8 */
/* First packets: clocks (realtime = monotonic + offset), defaults, the start of interned names. */
void trace_start(struct trace_file *f, uint64_t ts_ns, uint64_t realtime_offset_ns, uint64_t default_track);
void trace_clock_set(struct trace_file *f, uint64_t ts_ns, uint64_t realtime_offset_ns); /* the wall clock was set */

/* The file's own copy of a text, one of each. Past what one file may have (base/intern.h): INTERN_FULL. */
const char *trace_text(struct trace_file *f, const char *text);

/* A track event: open, then annotations and flows, then event_close(). `name` and `category` few ones, or NULL. */
void event_open(struct trace_file *f, enum event_type type, uint64_t track, uint64_t ts_ns, const char *category,
		const char *name);
void event_close(struct trace_file *f);
void event_title(struct trace_file *f, const char *title); /* name of one event alone, any bytes */
void event_flow(struct trace_file *f, uint64_t id, bool last);
void event_u64(struct trace_file *f, const char *name, uint64_t v);
void event_i64(struct trace_file *f, const char *name, int64_t v);
void event_double(struct trace_file *f, const char *name, double v);
void event_bool(struct trace_file *f, const char *name, bool v);
void event_pointer(struct trace_file *f, const char *name, uint64_t v);        /* shown in hex */
void event_text(struct trace_file *f, const char *name, const char *text);     /* any bytes */
void event_interned(struct trace_file *f, const char *name, const char *text); /* one of few */
/* The end of the innermost open slice of the track. */
void slice_end(struct trace_file *f, uint64_t track, uint64_t ts_ns);

#endif
