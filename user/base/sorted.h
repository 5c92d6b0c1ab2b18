/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted.h - numbers in order, for medians and quantiles.
 */
#ifndef RANKTRACE_SORTED_H
#define RANKTRACE_SORTED_H

#include <stddef.h>

void doubles_sort(double *v, size_t n);     /* ascending; no NaN among them */
double doubles_median(double *v, size_t n); /* sorts them; 0 of none */

#endif
