/* SPDX-License-Identifier: Apache-2.0
 *
 * qps_print.h - the model's RDMA queue pairs for `ranktrace replay --qps`.
 */
#ifndef RANKTRACE_QPS_PRINT_H
#define RANKTRACE_QPS_PRINT_H

struct model;

/* Prints one JSON line per queue pair on stdout, the oldest first; unknown values are null. */
void qps_print(const struct model *m);

#endif
