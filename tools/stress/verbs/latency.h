/* SPDX-License-Identifier: Apache-2.0
 *
 * latency.h - ping and pong of small messages: half of a round trip for a write and a send, the whole of a read.
 */
#ifndef STRESS_VERBS_LATENCY_H
#define STRESS_VERBS_LATENCY_H

#include "tools/stress/verbs/traffic.h"

int latency_from(struct traffic *t);
int latency_to(struct traffic *t);

#endif
