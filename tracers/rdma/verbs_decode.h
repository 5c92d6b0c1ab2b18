/* SPDX-License-Identifier: Apache-2.0
 * verbs_decode.h - records of the verbs tracer to events, and the names of what they carry. */
#ifndef RANKTRACE_VERBS_DECODE_H
#define RANKTRACE_VERBS_DECODE_H

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

#define VERBS_EVENTS_MAX 4 /* of one record */

int verbs_decode(const struct wire_hdr *rec, struct intern *strings, struct event *out, int max);
const char *verbs_status_name(unsigned int status); /* enum ibv_wc_status: "retry exceeded" */
const char *verbs_event_name(unsigned int type);    /* enum ibv_event_type: "port error" */

#endif
