/* SPDX-License-Identifier: Apache-2.0
 *
 * report_carry.h - of two reports of a host the newer one in place of both, where nothing that only the older one says
 * is lost by that. For a reader that is behind.
 */
#ifndef RANKTRACE_CLUSTER_REPORT_CARRY_H
#define RANKTRACE_CLUSTER_REPORT_CARRY_H

#include <stdbool.h>

#include "cluster/report.h"

/* Both of one run of one agent. True: `newer` says what `older` did, and what counts from report to report (operations
 * that ended) is added to it. False: it does not, and is as it was: a finding or a process that it does not have, a
 * stop that is over, an error of a communicator, signatures of other operations. Counters, calls, samples of GPUs and
 * where threads sit are states, of which the newer one is enough, as if the older message had been lost. */
bool report_carries(const Cluster__NodeReport *older, Cluster__NodeReport *newer);

#endif
