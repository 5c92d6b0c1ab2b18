/* SPDX-License-Identifier: Apache-2.0
 *
 * metric.c - see metric.h.
 */
#include "metrics/metric.h"

static const struct metric metrics[] = {
#define METRIC(id, name, type, unit, labels, series, help) { name, METRIC_##type, unit, labels, series, help },
#include "schemas/metrics.def"
#undef METRIC
};

const struct metric *metric_of(enum metric_id id)
{
	return &metrics[id];
}
