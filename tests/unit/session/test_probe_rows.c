/* SPDX-License-Identifier: Apache-2.0
 *
 * test_probe_rows.c - which rows are probed where several lie at one address: one of the same function's names, none
 * of functions that cannot be distinguished. With rows of this test's own, and with the real table of the cuda tracer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/decode.h"
#include "source.h"
#include "attach/probe_rows.h"

#define ALL ((1u << PROBE_GROUPS) - 1)

static size_t row_of(const char *symbol, bool at_return)
{
	for (size_t i = 0; i < source_cuda.tracer->n_probes; i++)
		if (!strcmp(source_cuda.tracer->probes[i].symbol, symbol) &&
		    source_cuda.tracer->probes[i].at_return == at_return)
			return i;
	fail_msg("no row for %s", symbol);
	return 0;
}

static struct elf_symbol *symbols_apart(void)
{
	struct elf_symbol *s = calloc(source_cuda.tracer->n_probes, sizeof(*s));

	/* a row's entry and return lie at one address; functions 64 bytes apart */
	for (size_t i = 0, at = 0; i < source_cuda.tracer->n_probes; i++) {
		at += !i || strcmp(source_cuda.tracer->probes[i].symbol, source_cuda.tracer->probes[i - 1].symbol);
		s[i] = (struct elf_symbol){ .found = true, .offset = 0x1000 + 64 * at };
	}
	return s;
}

static void move(struct elf_symbol *s, const char *symbol, const char *to)
{
	for (int side = 0; side < 2; side++)
		s[row_of(symbol, side)].offset = s[row_of(to, side)].offset;
}

static void functions_apart_are_all_probed(void **state)
{
	struct elf_symbol *s = symbols_apart();
	size_t ambiguous, n_trace = 0;

	(void)state;
	assert_int_equal(probe_rows_pick(source_cuda.tracer, TIER_BURST, ALL, s, &ambiguous),
			 source_cuda.tracer->n_probes);
	assert_int_equal(ambiguous, 0);
	for (size_t i = 0; i < source_cuda.tracer->n_probes; i++)
		n_trace += source_cuda.tracer->probes[i].tier == TIER_TRACE;
	assert_int_equal(probe_rows_pick(source_cuda.tracer, TIER_TRACE, ALL, s, &ambiguous), n_trace);
	assert_true(n_trace < source_cuda.tracer->n_probes);
	assert_false(s[row_of("cuLaunchKernel", false)].found);
	assert_true(s[row_of("cuStreamSynchronize", true)].found);
	free(s);
}

/* One function under two names: the first counts, on both sides. */
static void variants_of_one_address_count_once(void **state)
{
	struct elf_symbol *s = symbols_apart();
	size_t ambiguous, n;

	(void)state;
	move(s, "cuGraphInstantiate_v2", "cuGraphInstantiate");
	move(s, "cuStreamSynchronize_ptsz", "cuStreamSynchronize");
	n = probe_rows_pick(source_cuda.tracer, TIER_BURST, ALL, s, &ambiguous);
	assert_int_equal(n, source_cuda.tracer->n_probes - 4);
	assert_int_equal(ambiguous, 0);
	assert_true(s[row_of("cuStreamSynchronize", false)].found && s[row_of("cuStreamSynchronize", true)].found);
	assert_false(s[row_of("cuStreamSynchronize_ptsz", false)].found);
	assert_false(s[row_of("cuStreamSynchronize_ptsz", true)].found);
	free(s);
}

/* cuMemAlloc_v2(ptr, bytes) and cuMemcpyHtoD_v2(to, from, bytes) folded into one: whose hit is it, and where are the
 * bytes? Neither is probed, whichever comes first, and a third that would fit one of them is not either. */
static void functions_that_differ_are_not_merged(void **state)
{
	struct elf_symbol *s = symbols_apart();
	size_t ambiguous, n;

	(void)state;
	move(s, "cuMemAlloc_v2", "cuMemcpyHtoD_v2");
	move(s, "cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2");
	n = probe_rows_pick(source_cuda.tracer, TIER_BURST, ALL, s, &ambiguous);
	assert_int_equal(n, source_cuda.tracer->n_probes - 6);
	assert_int_equal(ambiguous, 3);
	for (int side = 0; side < 2; side++) {
		assert_false(s[row_of("cuMemAlloc_v2", side)].found);
		assert_false(s[row_of("cuMemcpyHtoD_v2", side)].found);
		assert_false(s[row_of("cuMemcpyHtoD_v2_ptds", side)].found);
	}
	free(s);
}

/* Same layout, but another function: its name would be wrong. */
static void names_are_not_merged_either(void **state)
{
	struct elf_symbol *s = symbols_apart();
	size_t ambiguous;

	(void)state;
	move(s, "cuMemHostAlloc", "cuMemAlloc_v2");
	probe_rows_pick(source_cuda.tracer, TIER_TRACE, ALL, s, &ambiguous);
	assert_int_equal(ambiguous, 2);
	assert_false(s[row_of("cuMemAlloc_v2", false)].found);
	free(s);
}

/* What the tier leaves out is in nobody's way. */
static void rows_above_the_tier_do_not_count(void **state)
{
	struct elf_symbol *s = symbols_apart();
	size_t ambiguous;

	(void)state;
	s[row_of("cuLaunchKernel", false)].offset = s[row_of("cuInit", false)].offset;
	probe_rows_pick(source_cuda.tracer, TIER_TRACE, ALL, s, &ambiguous);
	assert_int_equal(ambiguous, 0);
	assert_true(s[row_of("cuInit", false)].found);
	free(s);
}

/* A tracer without rows_alike: rows of one program are alike. */
static void programs_differ(void **state)
{
	static const struct probe probes[] = {
		{ .symbol = "a", .program = "p" },
		{ .symbol = "b", .program = "p" },
		{ .symbol = "c", .program = "q" },
		{ .symbol = "d", .program = "q" },
		{ .symbol = "d", .program = "r", .at_return = true },
	};
	const struct tracer t = { .name = "t", .probes = probes, .n_probes = 5 };
	struct elf_symbol s[5] = { { .found = true, .offset = 1 },
				   { .found = true, .offset = 1 },
				   { .found = true, .offset = 2 },
				   { .found = true, .offset = 2 },
				   { .found = true, .offset = 2 } };
	size_t ambiguous;

	(void)state;
	assert_int_equal(probe_rows_pick(&t, TIER_TRACE, ALL, s, &ambiguous), 3);
	assert_true(s[0].found && !s[1].found && s[2].found && !s[3].found && s[4].found);
	for (int i = 0; i < 5; i++)
		s[i] = (struct elf_symbol){ .found = true, .offset = 1 };
	assert_int_equal(probe_rows_pick(&t, TIER_TRACE, ALL, s, &ambiguous), 1);
	assert_int_equal(ambiguous, 4);
	assert_true(s[4].found);
}

/* A process gets each row once, and each group can be taken away by itself. */
static void groups_add_up(void **state)
{
	struct elf_symbol s[PROBE_GROUPS][256] = {};
	size_t ambiguous, n = 0;

	(void)state;
	assert_true(source_cuda.tracer->n_probes <= 256);
	for (int g = 0; g < PROBE_GROUPS; g++) {
		for (size_t i = 0; i < source_cuda.tracer->n_probes; i++)
			s[g][i] = (struct elf_symbol){ .found = true, .offset = 16 * i };
		n += probe_rows_pick(source_cuda.tracer, probe_group_tier(g), 1u << g, s[g], &ambiguous);
	}
	assert_int_equal(n, source_cuda.tracer->n_probes);
	for (size_t i = 0; i < source_cuda.tracer->n_probes; i++)
		for (int g = 0; g < PROBE_GROUPS; g++)
			assert_int_equal(s[g][i].found, probe_group(source_cuda.tracer, i) == (enum probe_group)g);
	assert_int_equal(probe_rows_pick(source_cuda.tracer, TIER_WATCH, ALL, s[0], &ambiguous), 0);
}

/* A row of another group at the same address counts, too: neither is probed, whichever is attached first. */
static void groups_share_addresses(void **state)
{
	struct elf_symbol *s = symbols_apart();
	size_t ambiguous;

	(void)state;
	move(s, "cuEventQuery", "cuEventSynchronize");
	probe_rows_pick(source_cuda.tracer, TIER_TRACE, 1u << PROBES_POLLS, s, &ambiguous);
	assert_int_equal(ambiguous, 1);
	assert_false(s[row_of("cuEventQuery", false)].found);
	assert_true(s[row_of("cuStreamQuery", false)].found);
	free(s);
}

/* What verdicts stand on goes last, and together. */
static void needed_rows(void **state)
{
	static const char *const needed[] = { "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize",
					      "cuGraphLaunch", "cuMemcpyDtoH_v2" };

	(void)state;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		assert_int_equal(probe_group(source_cuda.tracer, row_of(needed[i], false)), PROBES_NEEDED);
	for (size_t i = 0; i < source_nccl.tracer->n_probes; i++)
		assert_int_equal(probe_group(source_nccl.tracer, i), PROBES_NEEDED);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuEventRecord", false)), PROBES_EVENTS);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuStreamWaitEvent", false)), PROBES_EVENTS);
	assert_int_equal(probe_group_tier(PROBES_EVENTS), TIER_TRACE);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuEventQuery", false)), PROBES_POLLS);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuStreamQuery", true)), PROBES_POLLS);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuMemAlloc_v2", true)), PROBES_CALLS);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuLaunchKernel", false)), PROBES_BURST);
	assert_int_equal(probe_group(source_cuda.tracer, row_of("cuMemAllocAsync", false)), PROBES_BURST);
}

static void tiers_have_names(void **state)
{
	enum tier tier = TIER_TRACE;

	(void)state;
	assert_int_equal(tier_parse("burst", &tier), 0);
	assert_int_equal(tier, TIER_BURST);
	assert_string_equal(tier_name(tier), "burst");
	assert_int_equal(tier_parse("watch", &tier), 0);
	assert_int_equal(tier, TIER_WATCH);
	assert_string_equal(tier_name(tier), "watch");
	assert_int_equal(tier_parse("", &tier), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_apart_are_all_probed),
		cmocka_unit_test(variants_of_one_address_count_once),
		cmocka_unit_test(functions_that_differ_are_not_merged),
		cmocka_unit_test(names_are_not_merged_either),
		cmocka_unit_test(rows_above_the_tier_do_not_count),
		cmocka_unit_test(programs_differ),
		cmocka_unit_test(groups_add_up),
		cmocka_unit_test(groups_share_addresses),
		cmocka_unit_test(needed_rows),
		cmocka_unit_test(tiers_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
