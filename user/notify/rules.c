/* SPDX-License-Identifier: Apache-2.0
 *
 * rules.c - see rules.h.
 */
#include "notify/rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/log.h"
#include "notify/payload.h"

#define ACT_MS 10000
#define REASON_MAX 512

/* --- the file --- */

static bool text_set(char to[RULE_TEXT], const char *value)
{
	return *value && snprintf(to, RULE_TEXT, "%s", value) < RULE_TEXT;
}

static bool kind_set(struct rule *r, const char *value)
{
	for (enum finding_kind k = 0; k < FINDING_KIND_MAX; k++)
		if (!strcmp(finding_kind_name(k), value))
			return text_set(r->kind, value);
	return false;
}

static bool severity_set(struct rule *r, const char *value)
{
	r->severity = !strcmp(value, "warning") ? SEVERITY_WARNING : SEVERITY_CRITICAL;
	return r->severity == SEVERITY_WARNING || !strcmp(value, "critical");
}

static bool action_set(struct rule *r, const char *value)
{
	r->action = !strcmp(value, "drain") ? RULE_DRAIN : RULE_NOTIFY;
	return r->action == RULE_DRAIN || !strcmp(value, "notify");
}

static bool timeout_set(struct rule *r, const char *value)
{
	char *end;
	double n = strtod(value, &end), unit = !strcmp(end, "s")     ? 1
					       : !strcmp(end, "min") ? 60
					       : !strcmp(end, "h")   ? 3600
								     : 0;

	r->timeout_ms = (int64_t)(n * unit * 1000);
	return end != value && unit > 0 && n >= 0 && n <= 1e6;
}

static bool job_set(struct rule *r, const char *value)
{
	return text_set(r->job, value);
}
static bool owner_set(struct rule *r, const char *value)
{
	return text_set(r->owner, value);
}

static const struct {
	const char *key, *allowed;
	bool (*set)(struct rule *r, const char *value);
} keys[] = {
	{ "job", "a job's name, with * and ? for any", job_set },
	{ "kind", "a kind of finding (docs/findings.md), as gpu_health", kind_set },
	{ "severity", "warning or critical", severity_set },
	{ "action", "notify or drain", action_set },
	{ "owner", "who decides, at most 63 characters", owner_set },
	{ "timeout", "a time, as 90s, 10min, 1h", timeout_set },
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

/* "key=value". False: *ret_wrong says what is allowed. */
static bool pair_take(struct rule *r, char *pair, const char **ret_wrong)
{
	char *value = strchr(pair, '=');

	*ret_wrong = "key=value with a key of job, kind, severity, action, owner, timeout";
	if (!value)
		return false;
	for (size_t i = 0; i < N_KEYS; i++)
		if (strlen(keys[i].key) == (size_t)(value - pair) && !strncmp(keys[i].key, pair, strlen(keys[i].key))) {
			*ret_wrong = keys[i].allowed;
			return keys[i].set(r, value + 1);
		}
	return false;
}

static bool rule_take(struct rule *r, char *line, char *error, size_t size)
{
	const char *wrong;
	char *rest;

	*r = (struct rule){ .severity = SEVERITY_CRITICAL, .timeout_ms = -1 };
	for (char *pair = strtok_r(line, " \t\n", &rest); pair; pair = strtok_r(NULL, " \t\n", &rest))
		if (!pair_take(r, pair, &wrong)) {
			snprintf(error, size, "'%.80s': expected %s", pair, wrong);
			return false;
		}
	snprintf(error, size, "a rule needs %s", !*r->job ? "job=" : !*r->owner ? "owner=" : "timeout= for its action");
	return *r->job && *r->owner && (r->action == RULE_NOTIFY || r->timeout_ms >= 0);
}

int rules_read(struct rules *r, const char *path, char *error, size_t size)
{
	FILE *f = fopen(path, "re");
	char line[1024], what[512] = "";
	int n = 0;
	bool ok = true;

	r->n = 0;
	if (!f) {
		snprintf(error, size, "%s: %s", path, strerror(errno));
		return -errno;
	}
	while (ok && fgets(line, sizeof(line), f)) {
		n++;
		line[strcspn(line, "#\n")] = 0;
		if (!line[strspn(line, " \t")])
			continue;
		snprintf(what, sizeof(what), "at most %d rules", RULES_MAX);
		ok = r->n < RULES_MAX && rule_take(&r->all[r->n], line, what, sizeof(what));
		r->n += ok;
	}
	fclose(f);
	if (!ok)
		snprintf(error, size, "%s:%d: %s", path, n, what);
	return ok ? 0 : -EINVAL;
}

/* --- which --- */

static const char *text_of(const struct notice *n, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(n->incident, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

const struct rule *rules_find(const struct rules *r, const struct notice *n)
{
	for (const struct rule *x = r->all; x < r->all + r->n; x++)
		if (!fnmatch(x->job, text_of(n, "job"), 0) && n->severity >= x->severity &&
		    (!*x->kind || !strcmp(x->kind, text_of(n, "kind"))))
			return x;
	return NULL;
}

bool rule_is_due(const struct rule *rule, const struct notice *n, int64_t now_ms)
{
	return rule && rule->action != RULE_NOTIFY && n->begun_ms && !n->closed && !n->acknowledged && !n->acted &&
	       *text_of(n, "host") && now_ms - n->begun_ms >= rule->timeout_ms;
}

/* --- the action --- */

/* As arguments, and through no shell: a job's name is a user's. */
static pid_t drain_start(const struct notice *n)
{
	char node[300], reason[REASON_MAX + 16], text[REASON_MAX];
	pid_t pid;

	emit_slurm_reason(text, sizeof(text), n);
	snprintf(node, sizeof(node), "NodeName=%s", text_of(n, "host"));
	snprintf(reason, sizeof(reason), "Reason=%s", text);
	pid = fork();
	if (pid)
		return pid;
	signal(SIGPIPE, SIG_DFL);
	execlp("scontrol", "scontrol", "update", node, "State=DRAIN", reason, (char *)NULL);
	_exit(127);
}

static int act_wait(pid_t pid)
{
	int status = 0, waited_ms = 0;
	pid_t ended;

	while (!(ended = waitpid(pid, &status, WNOHANG)) && waited_ms < ACT_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		waited_ms += 20;
	}
	if (ended < 0)
		return -errno;
	if (!ended) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return -ETIMEDOUT;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOENT;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

int rule_act(const struct rule *rule, const struct notice *n)
{
	pid_t pid = drain_start(n);
	int err = pid < 0 ? -errno : act_wait(pid);

	if (err)
		log_warn("%s: scontrol could not drain %s: %s", n->id, text_of(n, "host"),
			 err == -EIO ? "it failed" : strerror(-err));
	else
		log_info("%s: host %s is drained: rule of %s, not acknowledged in its time", n->id, text_of(n, "host"),
			 rule->owner);
	return err;
}
