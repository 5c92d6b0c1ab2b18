/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_maps.c - /proc/PID/maps, whose file names the target chooses. Rows ascend, never overlap, and are found.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/reader/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct maps m = { 0 };

	if (maps_parse((const char *)data, size, &m))
		return 0;
	for (size_t i = 0; i < m.n; i++) {
		const struct mapping *row = &m.rows[i];

		if (row->start >= row->end || (i && row->start < m.rows[i - 1].end) || strlen(row->path) > size ||
		    maps_find(&m, row->start) != row || maps_find(&m, row->end - 1) != row)
			abort();
	}
	maps_free(&m);
	return 0;
}
