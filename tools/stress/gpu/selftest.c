/* SPDX-License-Identifier: Apache-2.0
 *
 * selftest.c - `stress gpu --self-test`: does the test find what is wrong? On each GPU in turn the lowest bit of one
 * element of one result is flipped in device memory, then the same element of all results, then a bit of memory under
 * test. Each has to be found, on that GPU and no other, at that place.
 */
#include <stdio.h>
#include <string.h>

#include "tools/stress/stress.h"

#define TIME_NS 1000000000ull

struct trial {
	const char *what;
	struct inject inject;
	int number; /* MEASURE_MEMORY: that */
};

static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % below;
}

static bool place_is_right(const struct trial *t, const struct fault *f)
{
	if (t->inject.kind == INJECT_MEMORY)
		return f->kind == FAULT_MEMORY && f->address == (t->inject.at & ~7ull) &&
		       f->bits == 1ull << (8 * (t->inject.at & 7) + t->inject.bit);
	return (f->kind == FAULT_CORRUPT || f->kind == FAULT_DISPUTED) && f->row == t->inject.row &&
	       f->column == t->inject.column && f->bits == 1ull << t->inject.bit;
}

/* A window of a second is too short to judge rates. */
static bool is_of_rates(const struct fault *fault)
{
	return fault->kind == FAULT_SLOW || fault->kind == FAULT_TREND;
}

static const struct fault *first_fault(const struct stress_result *result)
{
	for (uint32_t i = 0; i < result->n_faults; i++)
		if (!is_of_rates(&result->faults[i]))
			return &result->faults[i];
	return NULL;
}

/* Found there; and nothing on any other GPU. */
static bool is_found(const struct trial *t, const struct stress_result *result)
{
	bool found = false;

	for (uint32_t i = 0; i < result->n_faults; i++) {
		if (is_of_rates(&result->faults[i]))
			continue;
		if (result->ordinals[result->faults[i].gpu] != t->inject.gpu)
			return false;
		found |= place_is_right(t, &result->faults[i]);
	}
	return found;
}

static int trial_run(const struct stress_options *options, const struct trial *t, struct stress_result *result)
{
	struct stress_options one = *options;
	int status;

	one.time_ns = TIME_NS;
	one.again = 0; /* rates are not what is looked for */
	one.measures = 1u << t->number;
	one.inject = t->inject;
	one.baseline = one.save_baseline = one.log = NULL;
	status = stress_gpu(&one, REPORT_NONE, result);
	if (status >= STRESS_USAGE)
		return status;
	status = status == STRESS_FAILED && is_found(t, result) ? STRESS_PASSED : STRESS_FAILED;
	printf("GPU %d  %-44s row or byte %llu, column %u, bit %u: %s\n", t->inject.gpu, t->what,
	       (unsigned long long)(t->inject.kind == INJECT_MEMORY ? t->inject.at : t->inject.row), t->inject.column,
	       t->inject.bit, status ? "NOT FOUND" : "found there, nothing elsewhere");
	for (uint32_t i = 0; status && i < result->n_faults; i++)
		printf("       instead: GPU %d: %s\n", result->ordinals[result->faults[i].gpu], result->faults[i].text);
	fflush(stdout);
	return status;
}

static int gpu_trials(const struct stress_options *options, int gpu, uint64_t *state, struct stress_result *result)
{
	struct trial trials[] = {
		{ "lowest bit of one element of one result", { .kind = INJECT_FLIP }, NUMBER_bf16 },
		{ "the same element of all results", { .kind = INJECT_FLIP, .always = true }, NUMBER_bf16 },
		{ "a bit of memory under test", { .kind = INJECT_MEMORY }, MEASURE_MEMORY },
	};
	int status = STRESS_PASSED;

	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]) && status < STRESS_USAGE; i++) {
		int one;

		trials[i].inject.gpu = gpu;
		trials[i].inject.row = draw(state, options->size);
		trials[i].inject.column = draw(state, options->size);
		trials[i].inject.at = draw(state, 1u << 20);
		if (trials[i].inject.kind == INJECT_MEMORY)
			trials[i].inject.bit = draw(state, 8);
		one = trial_run(options, &trials[i], result);
		status = one > status ? one : status;
	}
	return status;
}

/* The GPUs that a run has. */
static int gpus_find(const struct stress_options *options, struct stress_result *result)
{
	struct stress_options one = *options;

	one.time_ns = TIME_NS;
	one.again = 0;
	one.measures = 1u << NUMBER_bf16;
	one.baseline = one.save_baseline = one.log = NULL;
	return stress_gpu(&one, REPORT_NONE, result);
}

int stress_self_test(const struct stress_options *options, struct stress_result *result)
{
	struct stress_options forced = *options;
	uint64_t state = options->seed;
	int n, ordinals[STRESS_GPUS_MAX], status = gpus_find(options, result);
	const struct fault *fault = status == STRESS_FAILED ? first_fault(result) : NULL;

	if (status == STRESS_FAILED && !fault)
		status = STRESS_PASSED;
	if (fault)
		printf("without a fault on purpose: GPU %d: %s\n", result->ordinals[fault->gpu], fault->text);
	if (status)
		return status;
	n = result->n_gpus;
	memcpy(ordinals, result->ordinals, sizeof(ordinals));
	forced.force = true; /* the run before has just been there */
	for (int i = 0; i < n * options->self_tests && status < STRESS_USAGE; i++) {
		int one = gpu_trials(&forced, ordinals[i % n], &state, result);

		status = one > status ? one : status;
	}
	if (status < STRESS_USAGE)
		printf("self-test: %s\n", status ? "FAILED: a fault on purpose was not found" : "all faults found");
	return status;
}
