/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_report.c - a report as it comes from the bus: who may publish may publish anything. What is taken is packed and
 * taken again, the same. Not so where its encoding was not the shortest: libprotobuf-c takes a field numbered 0 if the
 * number is written in two bytes, keeps it as unknown, and does not take it in one.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/report.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char bytes[REPORT_BYTES_MAX];
	Cluster__NodeReport *r, *again;
	size_t n;

	if (report_unpack(data, size, &r)) {
		if (r)
			abort();
		return 0;
	}
	n = report_pack(r, bytes);
	if (n > sizeof(bytes))
		abort();
	if (report_unpack(bytes, n, &again)) {
		if (n >= size)
			abort();
		report_free(r);
		return 0;
	}
	if (again->n_processes != r->n_processes || again->sequence != r->sequence || strcmp(again->host, r->host))
		abort();
	report_free(again);
	report_free(r);
	return 0;
}
