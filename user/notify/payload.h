/* SPDX-License-Identifier: Apache-2.0
 *
 * payload.h - what a channel is sent of an incident: the body that each chat service takes, and whether its answer
 * says that it took it. Pure.
 */
#ifndef RANKTRACE_NOTIFY_PAYLOAD_H
#define RANKTRACE_NOTIFY_PAYLOAD_H

#include "notify/notice.h"

/* clang-format off */
#define PAYLOAD_FORMATS(X) \
	X(WECOM, "wecom") X(DINGTALK, "dingtalk") X(FEISHU, "feishu") X(SLACK, "slack") X(JSON, "json") \
	X(OTLP, "otlp")
/* clang-format on */

enum payload_format {
#define X(id, name) PAYLOAD_##id,
	PAYLOAD_FORMATS(X)
#undef X
		PAYLOAD_FORMAT_MAX
};

struct payload_extra {
	const char *timestamp, *sign; /* of Feishu's body; NULL: its bot has no secret */
	const char *also;             /* a further line, NULL none: what will be done, by whom */
	int64_t now_ms;               /* the time of day, since 1970 */
};

const char *payload_format_name(enum payload_format f);
/* To be freed; NULL without memory. */
char *payload_make(enum payload_format f, const struct notice *n, enum notice_event event,
		   const struct payload_extra *extra);
/* Did the service take it, by status and body of its answer? Else why not in `why`. */
bool payload_taken(enum payload_format f, long status, const char *body, char *why, size_t size);

/* --- for others that are no chat --- */

/* Of node-problem-detector: one line of at most 80 characters. n NULL: all is well. */
void emit_npd(char to[81], const struct notice *n);
/* Slurm's reason: "ranktrace: <kind> gpu=<uuid|-> rank=<r> inc=<id>: text" */
void emit_slurm_reason(char *to, size_t size, const struct notice *n);
/* NVSentinel's HealthEvent; to be freed, NULL without memory. */
char *emit_health_event(const struct notice *n, bool healthy);

#endif
