/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_qp.h - facts of the qps sampler -> events.
 */
#ifndef RANKTRACE_DECODE_QP_H
#define RANKTRACE_DECODE_QP_H

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

/* 1, or -EINVAL: too short, or no such fact. The event's addresses lie in the record. */
int decode_qp_fact(const struct wire_hdr *h, struct intern *strings, struct event *e);

#endif
