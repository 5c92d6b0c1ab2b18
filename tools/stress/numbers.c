/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.c - see numbers.h.
 */
#include "tools/stress/numbers.h"

#include <string.h>

#include "tools/stress/lib/cublaslt_abi.h"

const struct number numbers[N_NUMBERS] = {
#define NUMBER(id, ...) { __VA_ARGS__ },
#include "tools/stress/numbers.def"
#undef NUMBER
};

const char *measure_name(int measure)
{
	return measure < N_NUMBERS ? numbers[measure].name : "memory";
}

const char *measure_unit(int measure)
{
	return measure < N_NUMBERS ? numbers[measure].unit : "GB/s";
}

int measure_find(const char *name)
{
	for (int i = 0; i < N_MEASURES; i++)
		if (!strcmp(measure_name(i), name))
			return i;
	return -1;
}
