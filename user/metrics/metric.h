/* SPDX-License-Identifier: Apache-2.0
 *
 * metric.h - the table of metrics (schemas/metrics.def) for those who write and serve them.
 */
#ifndef RANKTRACE_METRIC_H
#define RANKTRACE_METRIC_H

#include <stddef.h>

#define METRIC_LABELS_MAX 9

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_INFO, METRIC_HISTOGRAM };

enum metric_id {
#define METRIC(id, name, type, unit, labels, series, help) METRIC_##id,
#include "schemas/metrics.def"
#undef METRIC
	METRICS
};

struct metric {
	const char *name;
	enum metric_type type;
	const char *unit;   /* "" a count */
	const char *labels; /* "a,b"; "" none */
	size_t series_max;
	const char *help;
};

const struct metric *metric_of(enum metric_id id);

#endif
