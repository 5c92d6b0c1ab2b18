/* SPDX-License-Identifier: Apache-2.0
 *
 * stress.c - the tests by name: see stress.h.
 */
#include "tools/stress/stress.h"

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

void stress_result_fill(struct stress_result *result, const struct stress_run *run)
{
	result->n_gpus = run->n_gpus;
	for (int i = 0; i < run->n_gpus; i++)
		result->ordinals[i] = run->gpus[i].ordinal;
	result->n_faults = run->n_faults < STRESS_FAULTS_MAX ? run->n_faults : STRESS_FAULTS_MAX;
	memcpy(result->faults, run->faults, result->n_faults * sizeof(result->faults[0]));
}

stress_test *stress_find(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!strcmp(tests[i].name, name))
			return tests[i].run;
	return NULL;
}
