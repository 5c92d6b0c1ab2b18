/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_records.c - records of every tracer and kind with anything in them, past the checksums that keep the fuzzer out
 * of a recording: decoders, model, snapshot, detectors, sinks' texts. Time goes on; processes and threads are few, so
 * that records meet each other.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/decode.h"
#include "detect/detect.h"
#include "tests/fuzz/fuzz.h"
#include "pipeline/incident.h"
#include "model/model.h"
#include "model/snapshot/snapshot.h"
#include "pipeline/snapshot_record.h"
#include "schemas/collector.h"

#define RECORDS_MAX 1000

struct copy {
	struct model *m;
	struct intern *strings;
};

/* What the model says of itself another one takes. */
static int snapshot(void *to, const struct event *e)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} rec;
	struct copy *c = to;
	struct event out[DECODE_EVENTS_MAX];

	if (snapshot_encode(e, &rec.h) <= 0 || decode_record(&rec.h, c->strings, out) != 1)
		abort();
	model_apply(c->m, &out[0]);
	return 0;
}

static void emit_all(struct model *m)
{
	struct copy c = { model_new(), intern_new() };
	const struct op *op;

	if (model_snapshot(m, snapshot, &c))
		abort();
	while ((op = model_next_ended(c.m)))
		;
	model_free(c.m);
	intern_free(c.strings);
}

static void record_next(struct feed *f, uint64_t *now, struct wire_hdr *h)
{
	uint8_t what = feed_number(f, 1), kind = feed_number(f, 1), size = feed_number(f, 1), who = feed_number(f, 1);

	*now += 1000000ull * feed_number(f, 1) * (what & 128 ? 1000 : 1);
	feed_bytes(f, h + 1, size);
	memset((char *)(h + 1) + size, 0, 512 - size);
	/* a record is as long as its fields ask for, more often than not: zeros follow what the input has */
	*h = (struct wire_hdr){ .size = sizeof(*h) + (what & 64 ? (size + 7) / 8 * 8 : 512),
				.tracer = what & 7,
				.kind = kind & 63,
				.tid = 10 + who / 4 % 8,
				.tgid = 10 + who % 4,
				.ts_ns = *now };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} rec;
	struct feed f = { data, size };
	struct event events[DECODE_EVENTS_MAX];
	struct intern *strings = intern_new();
	struct model *m = model_new();
	struct detectors *d = detectors_new();
	struct incidents *incidents = incidents_new();
	struct finding_list found = { 0 };
	const struct op *op;
	uint64_t now = 1000000000;

	for (int n = 0; f.left && n < RECORDS_MAX; n++) {
		int k;

		record_next(&f, &now, &rec.h);
		k = decode_record(&rec.h, strings, events);
		for (int i = 0; i < k; i++) {
			model_apply(m, &events[i]);
			while ((op = model_next_ended(m)))
				if (!op->member)
					abort();
			if (events[i].kind == EV_TICK && !detectors_tick(d, m, &found))
				incidents_update(incidents, &found, m);
		}
	}
	emit_all(m);
	finding_list_free(&found);
	incidents_free(incidents);
	detectors_free(d);
	model_free(m);
	intern_free(strings);
	return 0;
}
