/* SPDX-License-Identifier: Apache-2.0
 *
 * latency.h - ping and pong of small messages: half of a round trip for a write and a send, the whole of a read.
 */
#ifndef STRESS_RDMA_LATENCY_H
#define STRESS_RDMA_LATENCY_H

#include "tools/stress/rdma/traffic.h"

int latency_from(struct traffic *t);
int latency_to(struct traffic *t);

#endif
