/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_rows.c - see probe_rows.h.
 */
#include "attach/probe_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source.h"

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

enum probe_group probe_group(const struct tracer *t, size_t row)
{
	if (t->probes[row].placed)
		return PROBES_POSTS;
	if (t->probes[row].tier == TIER_BURST)
		return PROBES_BURST;
	return t->group ? t->group(row) : PROBES_NEEDED;
}

enum tier probe_group_tier(enum probe_group group)
{
	return group == PROBES_POSTS || group == PROBES_BURST ? TIER_BURST : TIER_TRACE;
}

const char *probe_group_name(enum probe_group group)
{
	static const char *const names[PROBE_SETS] = { "needed", "calls",  "polls", "posts",    "burst",
						       "events", "ranges", "gc",    "stand-ins" };

	return names[group];
}

static bool in_groups(const struct tracer *t, size_t row, uint32_t groups)
{
	return groups >> probe_group(t, row) & 1;
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

/* If two rows at the address of `row` differ, all of them go; otherwise all but the first. Returns how many rows of the
 * groups go because they differ. */
static size_t place_settle(const struct tracer *t, struct elf_symbol *symbols, size_t row, uint32_t groups)
{
	size_t left_out = in_groups(t, row, groups);
	bool alike = true;

	for (size_t i = row + 1; i < t->n_probes; i++)
		if (same_place(t, symbols, row, i))
			alike = alike && rows_alike(t, row, i);
	for (size_t i = row + 1; i < t->n_probes; i++)
		if (same_place(t, symbols, row, i)) {
			symbols[i].found = false;
			left_out += in_groups(t, i, groups);
		}
	symbols[row].found = alike;
	return alike ? 0 : left_out;
}

size_t probe_rows_pick(const struct tracer *t, enum tier upto, uint32_t groups, struct elf_symbol *symbols,
		       size_t *ret_ambiguous)
{
	size_t n = 0;

	*ret_ambiguous = 0;
	for (size_t i = 0; i < t->n_probes; i++)
		if (t->probes[i].tier > upto)
			symbols[i].found = false;
	for (size_t i = 0; i < t->n_probes; i++) {
		size_t ambiguous = symbols[i].found ? place_settle(t, symbols, i, groups) : 0;

		*ret_ambiguous += t->probes[i].at_return ? 0 : ambiguous;
	}
	for (size_t i = 0; i < t->n_probes; i++) {
		symbols[i].found = symbols[i].found && in_groups(t, i, groups);
		n += symbols[i].found;
	}
	return n;
}

/* Of the rows that show it, any that is there, or an earlier one by which it was judged. */
static bool is_seen(const struct tracer *t, size_t row, bool (*defined)(void *arg, const struct probe *row), void *arg)
{
	for (size_t i = 0; i < t->n_probes; i++) {
		const struct probe *p = &t->probes[i];

		if (p->shows && !strcmp(p->shows, t->probes[row].shows) && (i < row || defined(arg, p)))
			return true;
	}
	return false;
}

void probe_rows_unseen(const struct tracer *t, uint32_t groups, bool (*defined)(void *arg, const struct probe *row),
		       void *arg, char *to, size_t size)
{
	size_t at = 0;

	*to = '\0';
	for (size_t i = 0; i < t->n_probes && at < size; i++)
		if (t->probes[i].shows && in_groups(t, i, groups) && !is_seen(t, i, defined, arg))
			at += snprintf(to + at, size - at, "%s%s", at ? ", " : "", t->probes[i].shows);
}

static void row_print(const struct tracer *t, size_t row, const char *symbol, bool json)
{
	const char *side = t->probes[row].at_return ? "return" : "entry",
		   *group = probe_group_name(probe_group(t, row));
	const char *tier = tier_name(t->probes[row].tier);

	if (json)
		printf("{\"tracer\":\"%s\",\"symbol\":\"%s\",\"side\":\"%s\",\"tier\":\"%s\",\"group\":\"%s\"}\n",
		       t->name, symbol, side, tier, group);
	else
		printf("%-6s %-36s %-7s %-6s %s\n", t->name, symbol, side, tier, group);
}

void probe_rows_print(bool json)
{
	const struct source *s = NULL;

	while ((s = source_next_tracer(s))) {
		const struct tracer *t = s->live->tracer;

		for (size_t i = 0; i < t->n_probes; i++) {
			row_print(t, i, t->probes[i].symbol, json);
			if (t->probes[i].alias)
				row_print(t, i, t->probes[i].alias, json);
		}
	}
}
