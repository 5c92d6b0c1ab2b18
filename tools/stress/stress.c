/* SPDX-License-Identifier: Apache-2.0
 *
 * stress.c - the tests by name: see stress.h.
 */
#include "tools/stress/stress.h"

#include <string.h>

static const struct {
	const char *name;
	stress_test *run;
} tests[] = {
#define STRESS(id, name, help) { name, stress_##id },
#include "tools/stress/tests.def"
#undef STRESS
};

stress_test *stress_find(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!strcmp(tests[i].name, name))
			return tests[i].run;
	return NULL;
}
