/* SPDX-License-Identifier: Apache-2.0
 *
 * heat_map.h - the heat maps of a page, one for each job: rows are ranks, columns steps, or slices of time where no
 * iteration clock was found. A byte a cell, on a logarithmic scale.
 *
 * Ranks number their steps by what was seen of each, so that a column is a time: a rank's step goes to the column whose
 * begin, on the rank with most steps, is nearest. Collectives keep ranks within a step of each other.
 */
#ifndef RANKTRACE_REPORT_HEAT_MAP_H
#define RANKTRACE_REPORT_HEAT_MAP_H

#include "sink/report/heat.h"

struct cJSON;

#define HEAT_MAP_TEXT_MAX 5800000 /* of all maps together: a page of 8 MB holds them and the rest */
#define HEAT_NEVER 255            /* lateness of a rank that did not come at all */

/* Array of maps; times are seconds since base_ns. NULL without memory. The finest scale whose text is not longer than
 * text_max. */
struct cJSON *heat_maps(const struct heat *h, uint64_t base_ns, uint64_t end_ns, size_t text_max);

#endif
