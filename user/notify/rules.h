/* SPDX-License-Identifier: Apache-2.0
 *
 * rules.h - what may be done about an incident of a job besides a message: nothing, unless a rule of its job's
 * file says so. A rule has an owner, and a time in which he can acknowledge before anything is done. Pure but for
 * reading the file.
 *
 *     job=llama-* kind=gpu_health severity=critical action=drain owner=gpu-ops timeout=10min
 */
#ifndef RANKTRACE_NOTIFY_RULES_H
#define RANKTRACE_NOTIFY_RULES_H

#include "notify/notice.h"

#define RULES_MAX 64
#define RULE_TEXT 64

enum rule_action { RULE_NOTIFY, RULE_DRAIN }; /* drain: the host of the incident, in Slurm */

struct rule {
	char job[RULE_TEXT], kind[RULE_TEXT], owner[RULE_TEXT]; /* job: a pattern; kind "": any */
	enum severity severity;                                 /* from there on */
	enum rule_action action;
	int64_t timeout_ms;
};

struct rules {
	struct rule all[RULES_MAX];
	size_t n;
};

/* 0, or -errno with file, line, key and what is allowed in `error`. */
int rules_read(struct rules *r, const char *path, char *error, size_t size);
/* The first that fits its job, kind and severity; NULL none. */
const struct rule *rules_find(const struct rules *r, const struct notice *n);
/* It asks for an action now: notified of, not over, not acknowledged in its time, and not done yet. */
bool rule_is_due(const struct rule *rule, const struct notice *n, int64_t now_ms);
/* Starts what the rule says (scontrol, found on PATH), and waits for it, for ten seconds at most. 0 or -errno; logs
 * what was done. */
int rule_act(const struct rule *rule, const struct notice *n);

#endif
