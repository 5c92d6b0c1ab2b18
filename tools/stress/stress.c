/* SPDX-License-Identifier: Apache-2.0
 *
 * stress.c - the tests by name: see stress.h.
 */
#include "tools/stress/stress.h"

#include <stdio.h>
#include <string.h>

#include "tools/stress/report_json.h"

static const struct {
	const char *name;
	stress_test *run;
} tests[] = {
#define STRESS(id, name, help) { name, stress_##id },
#include "tools/stress/tests.def"
#undef STRESS
};

int stress_run_test(const char *name, const struct stress_options *options, enum report_mode mode,
		    struct stress_result *result)
{
	int status;

	json_lines_of(name);
	status = stress_find(name)(options, mode, result);
	if (result->why[0] && mode == REPORT_JSON)
		json_refused(status, result->why);
	return status;
}

void stress_result_bad(struct stress_result *result, const char *name, const char *uuid, const char *pci)
{
	struct stress_device *d = &result->bad[result->n_bad];

	for (uint32_t i = 0; i < result->n_bad; i++)
		if (!strcmp(result->bad[i].name, name) && !strcmp(result->bad[i].uuid, uuid ? uuid : ""))
			return;
	if (result->n_bad == STRESS_BAD_MAX)
		return;
	snprintf(d->name, sizeof(d->name), "%s", name);
	snprintf(d->uuid, sizeof(d->uuid), "%s", uuid ? uuid : "");
	snprintf(d->pci, sizeof(d->pci), "%s", pci ? pci : "");
	result->n_bad++;
}

static void gpu_bad(struct stress_result *result, const struct stress_gpu *gpu, bool is_bad)
{
	char name[16];

	snprintf(name, sizeof(name), "GPU %d", gpu->ordinal);
	if (is_bad)
		stress_result_bad(result, name, gpu->uuid, gpu->pci);
}

void stress_result_fill(struct stress_result *result, const struct stress_run *run)
{
	result->n_gpus = run->n_gpus;
	for (int i = 0; i < run->n_gpus; i++)
		result->ordinals[i] = run->gpus[i].ordinal;
	result->n_faults = run->n_faults < STRESS_FAULTS_MAX ? run->n_faults : STRESS_FAULTS_MAX;
	memcpy(result->faults, run->faults, result->n_faults * sizeof(result->faults[0]));
	for (int i = 0; i < run->n_gpus; i++)
		gpu_bad(result, &run->gpus[i], run->gpus[i].n_faults > 0);
	for (uint32_t i = 0; i < run->n_faults; i++)
		if (run->faults[i].to)
			gpu_bad(result, &run->gpus[run->faults[i].to - 1], true);
}

stress_test *stress_find(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!strcmp(tests[i].name, name))
			return tests[i].run;
	return NULL;
}
