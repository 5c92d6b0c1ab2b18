/* SPDX-License-Identifier: Apache-2.0
 *
 * page.h - the samples of all metrics as text, of one time: "name{label="value"} 1\n", by metric. What stands above
 * them depends on who asks (format.h). Bounded: series of a metric by the table, a value of a label by
 * PAGE_LABEL_MAX, so that no name of a target makes a page large.
 */
#ifndef RANKTRACE_METRICS_PAGE_H
#define RANKTRACE_METRICS_PAGE_H

#include <stdint.h>

#include "metrics/histogram.h"
#include "metrics/metric.h"

#define PAGE_LABEL_MAX 128 /* bytes, before what has to be escaped is */

struct page_family {
	char *text;
	size_t len, cap, n;
};

struct page {
	struct page_family of[METRICS];
	size_t left_out; /* series beyond the bound of their metric, or without memory */
};

/* Empty, and keeps its memory for the next one. */
void page_clear(struct page *p);
void page_free(struct page *p);
/* One sample; the values of its labels in the order of the table, each a const char * ("" where unknown). A value that
 * is no number is left out. */
void page_put(struct page *p, enum metric_id id, double value, ...);
/* All samples of one histogram, or none. The values of its labels as above. */
void page_put_histogram(struct page *p, enum metric_id id, const struct histogram *h, ...);

#endif
