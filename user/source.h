/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - a source of events: a line of tracers/sources.def and what its folder defines for it. Two halves, in files
 * of their own: source_records_ID (record.h), all that a replay needs; and source_ID, what runs on a live host: rows
 * and hooks of a tracer, a sampler, either or both. What refers to this table links all of libbpf.
 */
#ifndef RANKTRACE_SOURCE_H
#define RANKTRACE_SOURCE_H

#include "record.h"
#include "sampler.h"
#include "tracer.h"

struct source_live {
	const struct tracer *tracer;   /* NULL: no programs */
	const struct sampler *sampler; /* NULL none */
};

struct source {
	const char *name, *help; /* as in sources.def */
	const struct record_kind *records;
	const struct source_live *live;
};

#define SOURCE(id, name, help) extern const struct source_live source_##id;
#include "tracers/sources.def"
#undef SOURCE

extern const struct source sources_all[]; /* in the order of sources.def; behind the last one a nameless */

/* The next one with that half; NULL first and past the end: for (s = NULL; (s = source_next_tracer(s));) */
const struct source *source_next_tracer(const struct source *s);
const struct source *source_next_sampler(const struct source *s);

#endif
