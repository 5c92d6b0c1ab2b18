/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_rows.c - see probe_rows.h.
 */
#include "probe_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "decode.h"

static const char *const tier_names[] = { "watch", "trace", "burst" }; /* from TIER_WATCH */

const char *tier_name(enum tier tier)
{
	return tier_names[tier - TIER_WATCH];
}

int tier_parse(const char *name, enum tier *ret)
{
	for (size_t i = 0; i < sizeof(tier_names) / sizeof(tier_names[0]); i++)
		if (!strcmp(name, tier_names[i])) {
			*ret = (int)i + TIER_WATCH;
			return 0;
		}
	return -ENOENT;
}

static bool same_place(const struct tracer *t, const struct elf_symbol *symbols, size_t a, size_t b)
{
	return symbols[a].found && symbols[b].found && symbols[a].offset == symbols[b].offset &&
	       t->probes[a].at_return == t->probes[b].at_return;
}

static bool rows_alike(const struct tracer *t, size_t a, size_t b)
{
	if (strcmp(t->probes[a].program, t->probes[b].program))
		return false;
	return !t->rows_alike || t->rows_alike(a, b);
}

/* Every row at the address of `row`, itself included, goes if two of them differ; else all but the first. */
static size_t place_settle(const struct tracer *t, struct elf_symbol *symbols, size_t row)
{
	bool alike = true;
	size_t left_out = 0;

	for (size_t i = row + 1; i < t->n_probes; i++)
		if (same_place(t, symbols, row, i))
			alike = alike && rows_alike(t, row, i);
	for (size_t i = row + 1; i < t->n_probes; i++)
		if (same_place(t, symbols, row, i)) {
			symbols[i].found = false;
			left_out++;
		}
	symbols[row].found = alike;
	return alike ? 0 : left_out + 1;
}

size_t probe_rows_pick(const struct tracer *t, enum tier from, enum tier upto, struct elf_symbol *symbols, size_t *ret_ambiguous)
{
	size_t n = 0;

	*ret_ambiguous = 0;
	for (size_t i = 0; i < t->n_probes; i++)
		if (t->probes[i].tier > upto)
			symbols[i].found = false;
	for (size_t i = 0; i < t->n_probes; i++) {
		size_t ambiguous = symbols[i].found ? place_settle(t, symbols, i) : 0;

		*ret_ambiguous += t->probes[i].at_return ? 0 : ambiguous;
	}
	for (size_t i = 0; i < t->n_probes; i++) {
		symbols[i].found = symbols[i].found && t->probes[i].tier > from;
		n += symbols[i].found;
	}
	return n;
}

static void row_print(const struct tracer *t, const struct probe *p, const char *symbol, bool json)
{
	const char *side = p->at_return ? "return" : "entry";

	if (json)
		printf("{\"tracer\":\"%s\",\"symbol\":\"%s\",\"side\":\"%s\",\"tier\":\"%s\"}\n", t->name, symbol, side,
		       tier_name(p->tier));
	else
		printf("%-6s %-36s %-7s %s\n", t->name, symbol, side, tier_name(p->tier));
}

void probe_rows_print(bool json)
{
	for (const struct tracer *const *t = tracers_all; *t; t++)
		for (size_t i = 0; i < (*t)->n_probes; i++) {
			row_print(*t, &(*t)->probes[i], (*t)->probes[i].symbol, json);
			if ((*t)->probes[i].alias)
				row_print(*t, &(*t)->probes[i], (*t)->probes[i].alias, json);
		}
}
