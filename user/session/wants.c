/* SPDX-License-Identifier: Apache-2.0
 *
 * session_wants.c - what the tracers' rows make interesting in a file.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/decode.h"
#include "session/targets.h"
#include "inspect/discover/discover.h"

static size_t markers_count(const struct tracer *t)
{
	size_t n = 0;

	while (t->markers[n])
		n++;
	return n;
}

/* Rows of a symbol's entry and return follow each other: once is enough. */
static size_t symbols_list(const struct tracer *t, const char **to)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_probes; i++) {
		if (t->probes[i].placed)
			continue;
		if (!i || strcmp(t->probes[i].symbol, t->probes[i - 1].symbol))
			to[n++] = t->probes[i].symbol;
		if (t->probes[i].alias)
			to[n++] = t->probes[i].alias;
	}
	return n;
}

const struct target_want *session_wants(size_t *ret_n)
{
	static struct target_want wants[WIRE_TRACER_MAX];
	static const char **symbols[WIRE_TRACER_MAX];
	size_t n = 0;

	for (const struct tracer *const *t = tracers_all; *t; t++) {
		if (!(*t)->probes)
			continue;
		if (!symbols[n])
			symbols[n] = calloc(2 * (*t)->n_probes, sizeof(*symbols[n]));
		wants[n] = (struct target_want){ .tracer = (*t)->id,
						 .markers = (*t)->markers,
						 .n_markers = markers_count(*t),
						 .symbols = symbols[n] };
		if (!symbols[n])
			break;
		wants[n].n_symbols = symbols_list(*t, symbols[n]);
		n++;
	}
	*ret_n = n;
	return wants;
}
