/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_slices.h - counts the slices of a timeline as a reader would, so that the writer is not asked about itself.
 */
#ifndef RANKTRACE_BENCH_TRACE_SLICES_H
#define RANKTRACE_BENCH_TRACE_SLICES_H

double trace_slices(const char *path); /* TrackEvents of TYPE_SLICE_BEGIN; -1 for a file that cannot be read */

#endif
