/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_size.c - how many bytes an operation moves, and how fast, in the words of nccl-tests: algbw is the size over
 * the time, busbw what each link has to carry for it. Pure.
 */
#include <stdio.h>

#include "sink/perfetto/perfetto.h"

uint64_t op_size_bytes(enum op_kind kind, uint64_t count, int dtype, int nranks)
{
	uint64_t bytes = count * (uint64_t)dtype_bytes(dtype);
	bool per_rank = kind == OP_ALLGATHER || kind == OP_REDUCESCATTER || kind == OP_ALLTOALL || kind == OP_GATHER ||
			kind == OP_SCATTER; /* NCCL is given one rank's part */

	return per_rank && nranks > 1 ? bytes * (uint64_t)nranks : bytes;
}

double op_bus_factor(enum op_kind kind, int nranks)
{
	double n = nranks;

	if (nranks < 2)
		return 1;
	switch (kind) {
	case OP_ALLREDUCE: return 2 * (n - 1) / n;
	case OP_ALLGATHER:
	case OP_REDUCESCATTER:
	case OP_ALLTOALL:
	case OP_GATHER:
	case OP_SCATTER: return (n - 1) / n;
	default: return 1;
	}
}

void bytes_text(char *to, size_t size, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = bytes;
	int unit = 0;

	for (; value >= 1024 && unit < 4; unit++)
		value /= 1024;
	snprintf(to, size, value >= 100 || value == (uint64_t)value ? "%.0f %s" : "%.1f %s", value, units[unit]);
}
