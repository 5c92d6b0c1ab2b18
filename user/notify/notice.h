/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.h - which incidents somebody is to be notified of, when, again when, and what each channel was sent already.
 * Pure: lines and the time go in, what is due comes out; all of it can be saved and loaded. A channel that was away is
 * sent the newest state once, not what it missed. Times are wall-clock milliseconds.
 */
#ifndef RANKTRACE_NOTIFY_NOTICE_H
#define RANKTRACE_NOTIFY_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "finding.h"

struct cJSON;

#define CHANNELS_MAX 16
#define CHANNEL_EVENTS (CHANNELS_MAX - 1) /* the file of health events; webhooks have the others */
#define AGAIN_MAX 16
#define NOTICES_MAX 4096
#define NOTICE_KEPT_MS \
	(86400ll * 1000) /* of one that is over, so that its end is sent to whom could not be reached \
			  */

enum notice_event { NOTICE_NONE, NOTICE_OPEN, NOTICE_AGAIN, NOTICE_WORSE, NOTICE_RESOLVED };

const char *notice_event_name(enum notice_event event); /* "open"; of NOTICE_NONE "" */

struct notice_rules {
	int64_t again_ms[AGAIN_MAX]; /* since the first message, ascending */
	size_t n_again;
	int64_t warning_after_ms; /* a warning that is over by then is not notified of; negative: no warning is */
};

struct notice {
	char id[FINDING_ID_MAX];
	struct cJSON *incident; /* as last heard: schemas/incident.schema.json */
	enum severity severity, notified_as;
	bool root, closed, acknowledged;
	int64_t seen_ms, begun_ms, closed_ms; /* first heard of; the first message was due; 0 not yet */
	int64_t turned_ms;                    /* what was due by then is in `stage` */
	unsigned int stage;                   /* messages that were due so far */
	unsigned int sent[CHANNELS_MAX];      /* the stage that each channel was sent */
	enum severity sent_as[CHANNELS_MAX];
	bool sent_end[CHANNELS_MAX];
	bool acted;
	struct notice *next;
};

struct notices { /* zeroed at first, but for its rules */
	struct notice_rules rules;
	struct notice *all;
	size_t n, n_bad; /* n_bad: lines that were no incident */
	bool changed;    /* since it was saved */
};

/* A line of findings. 0, -EINVAL: it is none, -ENOMEM. */
int notices_take(struct notices *s, const char *line, int64_t now_ms);
/* Somebody looks after it. False: no such incident is known. */
bool notices_acknowledge(struct notices *s, const char *id);
/* What is due by now. */
void notices_turn(struct notices *s, int64_t now_ms);
/* The next one that channel `c` is to be notified of; NULL: none. */
struct notice *notices_next(struct notices *s, int c, enum notice_event *ret);
/* It was sent. */
void notice_sent(struct notices *s, struct notice *n, int c, enum notice_event event);
/* One that is open, notified of and critical, the newest; NULL none. */
const struct notice *notices_worst(const struct notices *s);
/* To be freed with cJSON_Delete(); NULL without memory. `names`: of the channels, which may be others next
 * time; NULL: there is no such channel. */
struct cJSON *notices_save(const struct notices *s, const char *const *names, int n_names);
/* 0, -EINVAL: that is no state, -ENOMEM. */
int notices_load(struct notices *s, const struct cJSON *from, const char *const *names, int n_names);
void notices_free(struct notices *s);

#endif
