/* SPDX-License-Identifier: Apache-2.0
 *
 * own_price.h - what our programs add to a trap of one process and group: the mean of the runs that were timed
 * (bpf/own_time.bpf.h).
 *
 * An assumed price stands for OWN_PRICE_ASSUMED runs beside them, so that the first few do not decide. Runs are
 * forgotten as others come: the newest OWN_PRICE_KEPT weigh most. No process changes what another one is taken to pay.
 */
#ifndef RANKTRACE_OWN_PRICE_H
#define RANKTRACE_OWN_PRICE_H

#include <stdint.h>

#define OWN_PRICE_ASSUMED 32
#define OWN_PRICE_KEPT 1024 /* with one run in 32 timed, those of 33,000 traps */

struct own_price {
	double runs, ns;
};

/* idle_ns: of each run, what the trap's price holds already. */
void own_price_add(struct own_price *o, uint32_t runs, uint32_t ns, uint32_t idle_ns);
double own_price_ns(const struct own_price *o, uint32_t assumed_ns);

#endif
