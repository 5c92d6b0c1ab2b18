/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - what is known of each kind of wire record: declared once, by the source that writes it, in its own folder
 * (X_records.c: no I/O, no skeleton), and looked up here. A replay needs this half of a source and nothing of the other
 * (source.h). Code that treats kinds differently asks the table, and keeps no list of kinds.
 */
#ifndef RANKTRACE_RECORD_H
#define RANKTRACE_RECORD_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

#define RECORD_KINDS_MAX 64 /* numbers of one tracer */
#define RECORD_TIMES_MAX 4
#define DECODE_EVENTS_MAX 4 /* of one record */
#define RECORD_KEY_MAX 8    /* bytes */

struct record_kind {
	const char *name; /* "nccl_op"; NULL ends a source's list */
	uint8_t tracer;   /* enum wire_tracer */
	uint8_t kind;     /* the source's own number, below RECORD_KINDS_MAX */
	uint8_t n_events; /* that a record can be, at most; 0: 1 */
	bool in_autopsy;  /* an autopsy writes such records; a recording that holds others too is none */
	uint16_t size;    /* a shorter one is refused; longer ones are of a later version */
	/* A state of its own, of which the last record of each tgid and key is kept for a recording that begins in the
	 * middle (the model shows the rest itself). Offset of the key; 0: not kept. */
	uint16_t kept_by;
	uint16_t kept_bytes; /* of the key, up to RECORD_KEY_MAX; 0: 4 */
	/* Whether `rec`, of this kind, says that `kept`, of any kind, holds no longer. NULL: never. */
	bool (*ends)(const struct wire_hdr *rec, const struct wire_hdr *kept);
	/* Offsets of further times (64 bits, CLOCK_MONOTONIC, 0 none) than the header's; 0 ends. For another clock. */
	uint16_t times[RECORD_TIMES_MAX];
	/* A record of one event, of which `bytes` behind the header stand in the event as they are: its kind, and
	 * where. decode is then called behind that, for texts and checks; NULL where there is nothing left to do. */
	enum event_kind event;
	uint16_t to, bytes;
	/* Fills `out`, which is zero but for ts, tid, tgid and cpu of the record. How many events (0: none),
	 * -EINVAL if a field is impossible. */
	int (*decode)(const struct wire_hdr *rec, struct intern *strings, struct event *out);
};

/* Of a struct record_kind: the body of the record is `member` of struct event, and that is the smallest size. */
#define RECORD_AS_EVENT(event_, member) \
	.event = event_, .to = offsetof(struct event, member), .bytes = sizeof(((struct event *)0)->member), \
	.size = sizeof(struct wire_hdr) + sizeof(((struct event *)0)->member)

#define SOURCE(id, name, help) extern const struct record_kind source_records_##id[];
#include "tracers/sources.def"
#undef SOURCE

/* NULL: a kind that this version does not know. */
const struct record_kind *record_kind_of(const struct wire_hdr *rec);
/* All kinds, in no order; NULL past the end. */
const struct record_kind *record_kind_listed(size_t i);

/* The i-th nested time of a record, to be read or changed in place; NULL past the last. */
uint64_t *record_time(struct wire_hdr *rec, int i);

/* A text of `len` bytes at `offset`; NULL: it goes beyond the record, or no memory. */
static inline const char *record_text(const struct wire_hdr *rec, size_t offset, size_t len, struct intern *strings)
{
	return offset + len <= rec->size ? intern_bytes(strings, (const char *)rec + offset, len) : NULL;
}

#define RANKS_MOST 10000000 /* no job has so many: a number beyond it was written by a fault, or to do harm */

/* A size that may be unknown (-1 or 0), and a rank of it, or a peer, that may be none (negative). Tables are made by
 * these. */
static inline bool ranks_possible(int32_t rank, int32_t size)
{
	return size <= RANKS_MOST && rank < RANKS_MOST && (size <= 0 || rank < size);
}

/* n texts, one behind the other from `offset` on. 1, as a decoder of one event returns, or -EINVAL. */
static inline int record_texts(const struct wire_hdr *rec, size_t offset, int n, const uint16_t *lens,
			       const char **const *to, struct intern *strings)
{
	for (int i = 0; i < n; offset += lens[i++]) {
		*to[i] = record_text(rec, offset, lens[i], strings);
		if (!*to[i])
			return -EINVAL;
	}
	return 1;
}

/* Appends a text with its zero byte, cut where the record would become larger than `most`; NULL is "". Its length. */
static inline uint16_t record_text_put(struct wire_hdr *h, size_t most, const char *text)
{
	size_t room = most - h->size - 1, len = text ? strlen(text) : 0;
	char *at = (char *)h + h->size;

	len = len < room ? len : room;
	if (len)
		memcpy(at, text, len);
	at[len] = '\0';
	h->size += len + 1;
	return len + 1;
}

/* Its last act: zeros up to a multiple of 8 bytes. The size. */
static inline int record_pad(struct wire_hdr *h)
{
	while (h->size % 8)
		((char *)h)[h->size++] = '\0';
	return h->size;
}

#endif
