/* SPDX-License-Identifier: Apache-2.0
 *
 * rates.h - bandwidths, rates and latencies against the links of their kind, a baseline, and the table rates.def.
 */
#ifndef STRESS_RDMA_RATES_H
#define STRESS_RDMA_RATES_H

#include "tools/stress/rdma/rdma_run.h"

struct rate_row {
	double gbits, least; /* of the link, Gb/s; of a write */
	const char *source, *date, *condition;
};

extern const struct rate_row rate_rows[];
extern const int n_rate_rows;

/* crowd.c: it was measured while ends of its round shared CPUs; there is a note. */
bool crowd_is(struct rdma_run *run, const struct rdma_measured *m);
/* Takes the values of what was measured, and can be judged. */
void rates_measured(struct rdma_run *run);
/* Holds each to its bounds; may be called again after further turns. */
void rates_hold(struct rdma_run *run, const struct baseline *baseline);
enum better rdma_better(const struct rdma_measured *m);
/* NULL: none fits. */
const struct rate_row *rate_row_find(double gbits);

#endif
