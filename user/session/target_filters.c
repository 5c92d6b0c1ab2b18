/* SPDX-License-Identifier: Apache-2.0
 *
 * target_filters.c - builds the filters of a target set from the tracers' probe rows: which symbols make a file
 * interesting.
 */
#include <stdlib.h>
#include <string.h>

#include "attach/probe_rows.h"
#include "source.h"
#include "session/targets.h"
#include "inspect/discover/discover.h"

static size_t markers_count(const struct tracer *t)
{
	size_t n = 0;

	while (t->markers[n])
		n++;
	return n;
}

/* The entry row and the return row of a symbol follow each other: take it once. */
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

const struct target_filter *session_target_filters(size_t *ret_n)
{
	static struct target_filter filters[WIRE_TRACER_MAX];
	static const char **symbols[WIRE_TRACER_MAX];
	const struct source *s = NULL;
	size_t n = 0;

	while ((s = source_next_tracer(s))) {
		const struct tracer *t = s->live->tracer;

		if (!t->probes)
			continue;
		if (!symbols[n])
			symbols[n] = calloc(2 * t->n_probes, sizeof(*symbols[n]));
		filters[n] = (struct target_filter){ .tracer = t->id,
						     .markers = t->markers,
						     .n_markers = markers_count(t),
						     .symbols = symbols[n],
						     .files = t->files,
						     .vital = t->vital,
						     .of_many = t->of_many };
		if (!symbols[n])
			break;
		filters[n].n_symbols = symbols_list(t, symbols[n]);
		n++;
	}
	*ret_n = n;
	return filters;
}

struct file_of {
	const struct target_set *set;
	const struct target_file *file;
};

static bool row_defined(void *arg, const struct probe *row)
{
	const struct file_of *f = arg;

	return target_file_symbol(f->set, f->file, row->symbol) ||
	       (row->alias && target_file_symbol(f->set, f->file, row->alias));
}

void target_unseen_text(const struct target_set *set, const struct target_file *file, char *to, size_t size)
{
	struct file_of f = { set, file };
	const struct source *s = NULL;

	*to = '\0';
	while (!*to && (s = source_next_tracer(s)))
		if (file->tracers & 1u << s->live->tracer->id)
			probe_rows_unseen(s->live->tracer, ~0u, row_defined, &f, to, size);
}
