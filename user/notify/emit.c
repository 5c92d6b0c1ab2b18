/* SPDX-License-Identifier: Apache-2.0
 *
 * emit.c - what other tools take of an incident: node-problem-detector, Slurm, NVSentinel. See payload.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"
#include "notify/payload.h"

/* NVSentinel's RecommendedAction (data-models/protobufs/health_event.proto, v1.28). */
enum action { ACTION_NONE = 0, ACTION_RESET = 2, ACTION_SUPPORT = 5, ACTION_RESTART = 24, ACTION_UNKNOWN = 99 };

/* By cause, else by kind: what the finding's own remedy says, in that list's words. */
static const struct {
	const char *cause, *kind;
	enum action action;
} actions[] = {
	{ "gpu_lost", NULL, ACTION_RESTART },   { "needs_reset", NULL, ACTION_RESET },
	{ NULL, "gpu_health", ACTION_SUPPORT }, { NULL, "xid", ACTION_SUPPORT },
	{ NULL, "link", ACTION_SUPPORT },       { NULL, "observation", ACTION_NONE },
	{ NULL, "slow_step", ACTION_NONE },
};

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

static int first_rank(const struct notice *n)
{
	const cJSON *r = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(n->incident, "ranks"), 0);

	return cJSON_IsNumber(r) ? (int)r->valuedouble : -1;
}

/* A line of theirs: no break, nothing that controls. */
static void tame(char *text)
{
	utf8_tame(text, "");
}

void emit_npd(char to[81], const struct notice *n)
{
	char rank[16] = "-";

	if (!n) {
		snprintf(to, 81, "ranktrace: no critical finding is open");
		return;
	}
	if (first_rank(n) >= 0)
		snprintf(rank, sizeof(rank), "%d", first_rank(n));
	snprintf(to, 81, "%s rank %s: %s", text_of(n->incident, "kind"), rank, text_of(n->incident, "summary"));
	tame(to);
}

void emit_slurm_reason(char *to, size_t size, const struct notice *n)
{
	const char *uuid = text_of(n->incident, "gpu_uuid");
	char rank[16] = "-";

	if (first_rank(n) >= 0)
		snprintf(rank, sizeof(rank), "%d", first_rank(n));
	snprintf(to, size, "ranktrace: %s gpu=%s rank=%s inc=%s: %s", text_of(n->incident, "kind"), *uuid ? uuid : "-",
		 rank, n->id, text_of(n->incident, "summary"));
	tame(to);
}

static enum action action_of(const struct notice *n)
{
	const char *cause = text_of(n->incident, "cause"), *kind = text_of(n->incident, "kind");

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if ((actions[i].cause && !strcmp(actions[i].cause, cause)) ||
		    (actions[i].kind && !strcmp(actions[i].kind, kind)))
			return actions[i].action;
	return ACTION_UNKNOWN;
}

static void entity_add(cJSON *list, const char *type, const char *value)
{
	cJSON *o = *value ? cJSON_CreateObject() : NULL;

	if (!o)
		return;
	cJSON_AddStringToObject(o, "entityType", type);
	cJSON_AddStringToObject(o, "entityValue", value);
	cJSON_AddItemToArray(list, o);
}

/* Protobuf's JSON names of HealthEvent. */
char *emit_health_event(const struct notice *n, bool healthy)
{
	cJSON *o = cJSON_CreateObject(), *codes, *entities;
	bool gpu = *text_of(n->incident, "gpu_uuid");
	char *text;

	cJSON_AddNumberToObject(o, "version", 1);
	cJSON_AddStringToObject(o, "agent", "ranktrace");
	cJSON_AddStringToObject(o, "componentClass", gpu ? "GPU" : "NODE");
	cJSON_AddStringToObject(o, "checkName", text_of(n->incident, "kind"));
	cJSON_AddBoolToObject(o, "isFatal", !healthy && n->severity == SEVERITY_CRITICAL);
	cJSON_AddBoolToObject(o, "isHealthy", healthy);
	cJSON_AddStringToObject(o, "message", text_of(n->incident, "summary"));
	cJSON_AddNumberToObject(o, "recommendedAction", healthy ? ACTION_NONE : action_of(n));
	codes = cJSON_AddArrayToObject(o, "errorCode");
	if (*text_of(n->incident, "cause"))
		cJSON_AddItemToArray(codes, cJSON_CreateString(text_of(n->incident, "cause")));
	entities = cJSON_AddArrayToObject(o, "entitiesImpacted");
	entity_add(entities, "GPU", text_of(n->incident, "gpu_uuid"));
	entity_add(entities, "NODE", text_of(n->incident, "host"));
	cJSON_AddStringToObject(o, "nodeName", text_of(n->incident, "host"));
	cJSON_AddStringToObject(o, "generatedTimestamp", text_of(n->incident, "time"));
	text = cJSON_PrintUnformatted(o);
	cJSON_Delete(o);
	return text;
}
