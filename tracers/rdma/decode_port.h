/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_port.h - facts of the ports sampler -> events.
 */
#ifndef RANKTRACE_DECODE_PORT_H
#define RANKTRACE_DECODE_PORT_H

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

/* 1, or -EINVAL: too short, or no such fact. The event's counters and pids lie in the record. */
int decode_port_fact(const struct wire_hdr *h, struct intern *strings, struct event *e);

#endif
