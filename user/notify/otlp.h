/* SPDX-License-Identifier: Apache-2.0
 *
 * otlp.h - a notice as an OpenTelemetry log event: the JSON that OTLP over HTTP takes at /v1/logs
 * (opentelemetry.io/docs/specs/otlp). Debian has OpenTelemetry's SDK for C++ alone; this needs none. Pure.
 */
#ifndef RANKTRACE_NOTIFY_OTLP_H
#define RANKTRACE_NOTIFY_OTLP_H

#include "notify/notice.h"

/* To be freed with cJSON_Delete(); NULL without memory. `now_ms`: the time of day, since 1970. */
struct cJSON *otlp_event(const struct notice *n, enum notice_event event, int64_t now_ms);
/* An answer with status 200 may refuse the event all the same: then why in `why`. */
bool otlp_refused(const char *answer, char *why, size_t size);

#endif
