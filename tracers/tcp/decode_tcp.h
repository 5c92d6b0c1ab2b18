/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_tcp.h - facts of the tcp sampler -> events.
 */
#ifndef RANKTRACE_DECODE_TCP_H
#define RANKTRACE_DECODE_TCP_H

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

/* 1, or -EINVAL: too short, or no such fact. The event's counters lie in the record. */
int decode_tcp_fact(const struct wire_hdr *h, struct intern *strings, struct event *e);

#endif
