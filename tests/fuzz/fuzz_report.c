/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_report.c - a report as it comes from the bus: who may publish may publish anything. What is taken is packed and
 * taken again, the same.
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
	if (n > sizeof(bytes) || report_unpack(bytes, n, &again))
		abort();
	if (again->n_processes != r->n_processes || again->sequence != r->sequence || strcmp(again->host, r->host))
		abort();
	report_free(again);
	report_free(r);
	return 0;
}
