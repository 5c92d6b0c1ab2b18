/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - see source.h.
 */
#include "source.h"

const struct source sources_all[] = {
#define SOURCE(id, name, help) { name, help, source_records_##id, &source_##id },
#include "tracers/sources.def"
#undef SOURCE
	{}
};

const struct source *source_next_tracer(const struct source *s)
{
	for (s = s ? s + 1 : sources_all; s->name; s++)
		if (s->live->tracer)
			return s;
	return NULL;
}

const struct source *source_next_sampler(const struct source *s)
{
	for (s = s ? s + 1 : sources_all; s->name; s++)
		if (s->live->sampler)
			return s;
	return NULL;
}
