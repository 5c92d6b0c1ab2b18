/* SPDX-License-Identifier: Apache-2.0
 *
 * format.h - a page as a scraper reads it: Prometheus' text format (0.0.4), which all know, or OpenMetrics (1.0.0).
 * Samples are the same in both; what stands above them differs.
 */
#ifndef RANKTRACE_METRICS_FORMAT_H
#define RANKTRACE_METRICS_FORMAT_H

#include <stdbool.h>

#include "metrics/share.h"

enum metrics_format { FORMAT_TEXT, FORMAT_OPENMETRICS, FORMATS };

const char *format_content_type(enum metrics_format f);
/* By the header Accept of a request; NULL: there was none. */
enum metrics_format format_wanted(const char *accept);
/* By its header Accept-Encoding, or NULL. */
bool format_takes_gzip(const char *accept_encoding);
/* The same text, compressed (gzip); to be freed. NULL without memory. */
char *format_gzip(const char *text, size_t len, size_t *ret_len);
/* New text (free() it) of *ret_len bytes; NULL without memory. */
char *format_page(const struct shared_page *p, enum metrics_format f, size_t *ret_len);

#endif
