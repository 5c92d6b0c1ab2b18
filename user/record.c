/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - the table of all kinds by tracer and number: two indices, because every record of a job comes by here.
 * It is filled before main() from what the sources declare.
 */
#include "record.h"

#include <stdio.h>
#include <stdlib.h>

static const struct record_kind *const sources[] = {
#define SOURCE(id, name, help) source_records_##id,
#include "tracers/sources.def"
#undef SOURCE
};
#define N_SOURCES (sizeof(sources) / sizeof(sources[0]))

static const struct record_kind *kinds[WIRE_TRACER_MAX][RECORD_KINDS_MAX];

/* Two sources that claim one number, or a number out of range: no program that can be shipped. */
static void kind_refuse(const struct record_kind *k)
{
	fprintf(stderr, "record kind %s: number %u of tracer %u is out of range or another's\n", k->name, k->kind,
		k->tracer);
	abort();
}

__attribute__((constructor)) static void kinds_fill(void)
{
	for (size_t i = 0; i < N_SOURCES; i++)
		for (const struct record_kind *k = sources[i]; k->name; k++) {
			if (k->tracer >= WIRE_TRACER_MAX || k->kind >= RECORD_KINDS_MAX || kinds[k->tracer][k->kind])
				kind_refuse(k);
			kinds[k->tracer][k->kind] = k;
		}
}

const struct record_kind *record_kind_of(const struct wire_hdr *rec)
{
	return rec->tracer < WIRE_TRACER_MAX && rec->kind < RECORD_KINDS_MAX ? kinds[rec->tracer][rec->kind] : NULL;
}

const struct record_kind *record_kind_listed(size_t i)
{
	for (size_t s = 0; s < N_SOURCES; s++)
		for (const struct record_kind *k = sources[s]; k->name; k++)
			if (!i--)
				return k;
	return NULL;
}

/* Recordings of earlier versions have shorter records: a field that is not there is none. */
uint64_t *record_time(struct wire_hdr *rec, int i)
{
	const struct record_kind *k = record_kind_of(rec);
	uint16_t at = k && i < RECORD_TIMES_MAX ? k->times[i] : 0;

	return at && at + sizeof(uint64_t) <= rec->size ? (uint64_t *)((char *)rec + at) : NULL;
}
