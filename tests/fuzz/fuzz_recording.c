/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_recording.c - a recording from anywhere, through the whole pipeline as a replay does it.
 */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"

#define RECORDS_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recording_reader *r;
	const struct wire_hdr *rec;
	struct pipeline *p;
	char path[32];
	int n = 0;

	fuzz_file(data, size, path);
	if (recording_open(path, &r))
		return 0;
	p = pipeline_new();
	while (p && n++ < RECORDS_MAX && recording_next(r, &rec) == 1)
		if (pipeline_feed(p, rec))
			break;
	pipeline_free(p);
	recording_reader_free(r);
	return 0;
}
