/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.h - the counters of a port in sysfs, by the tracer's tables of names and files (tracers/rdma).
 */
#ifndef STRESS_VERBS_COUNTERS_H
#define STRESS_VERBS_COUNTERS_H

#include <stdint.h>

#include "tools/stress/lib/pci.h"
#include "tracers/rdma/wire/port.h"

/* Fills all PORT_COUNTERS of a port; what the provider does not count is PORT_NOT_COUNTED. netdev "": it has none. */
void counters_read(const char *device, int port, const char *netdev, uint64_t counters[PORT_COUNTERS]);
/* now - before, of each that both have. */
void counters_since(const uint64_t *before, const uint64_t *now, uint64_t rose[PORT_COUNTERS]);
const char *counter_name(int counter);

enum counter_meaning {
	COUNTER_TRAFFIC, /* no error */
	COUNTER_HARD,    /* one is one too many: the link went down, a queue pair was given up */
	COUNTER_LOSS,    /* packets that were lost or broken: a share of all */
	COUNTER_NOTE     /* the network or the receiver is slow, and says so: no error of a port */
};
enum counter_meaning counter_meaning(int counter);
/* The sum of those with a meaning. */
uint64_t counters_sum(const uint64_t *rose, enum counter_meaning meaning);
/* "out_of_sequence 12, retransmits 7" of those that rose and have that meaning. */
const char *counters_text(const uint64_t *rose, enum counter_meaning meaning, char *text, unsigned int size);

#endif
