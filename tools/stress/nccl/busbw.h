/* SPDX-License-Identifier: Apache-2.0
 *
 * busbw.h - the table of least bus bandwidths: busbw.def.
 */
#ifndef STRESS_NCCL_BUSBW_H
#define STRESS_NCCL_BUSBW_H

#include <stdbool.h>
#include <stdint.h>

struct busbw {
	const char *device;
	uint32_t collective;
	int ranks, nvls;
	uint64_t bytes_min;
	double least;
	const char *source, *date;
};

extern const struct busbw busbws[];
extern const int n_busbws;

/* NULL: none fits. */
const struct busbw *busbw_find(const char *device, uint32_t collective, int ranks, int nodes, bool nvls,
			       uint64_t bytes);

#endif
