/* SPDX-License-Identifier: Apache-2.0
 *
 * otlp.c - see otlp.h. Names: protobuf's JSON of ExportLogsServiceRequest; 64-bit numbers are texts there. Attributes
 * are incident.schema.json's fields, but for those that OpenTelemetry has a name for.
 */
#include "notify/otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>

#include "command.h"

enum { NUMBER_INFO = 9, NUMBER_WARN = 13, NUMBER_ERROR2 = 18 }; /* SeverityNumber; ERROR2: syslog's critical */

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

/* --- values --- */

static void nanoseconds_put(cJSON *o, const char *name, int64_t ms)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64 "000000", ms);
	cJSON_AddStringToObject(o, name, text);
}

/* Of "2026-11-23T15:02:07.123Z"; 0: it is not known. */
static int64_t time_ms(const char *text)
{
	struct tm utc = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);

	return end ? (int64_t)timegm(&utc) * 1000 + (*end == '.' ? (int64_t)(strtod(end, NULL) * 1000 + 0.5) : 0) : 0;
}

static cJSON *attribute_add(cJSON *to, const char *name)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "key", name);
	cJSON_AddItemToArray(to, o);
	return cJSON_AddObjectToObject(o, "value");
}

static void text_put(cJSON *to, const char *name, const char *value)
{
	if (*value)
		cJSON_AddStringToObject(attribute_add(to, name), "stringValue", value);
}

static void ranks_put(cJSON *to, const cJSON *ranks)
{
	const cJSON *rank;
	cJSON *values;
	char number[24];

	if (!cJSON_GetArraySize(ranks))
		return;
	values = cJSON_AddArrayToObject(cJSON_AddObjectToObject(attribute_add(to, "ranktrace.ranks"), "arrayValue"),
					"values");
	cJSON_ArrayForEach(rank, ranks)
	{
		cJSON *o = cJSON_CreateObject();

		snprintf(number, sizeof(number), "%.0f", rank->valuedouble);
		cJSON_AddStringToObject(o, "intValue", number);
		cJSON_AddItemToArray(values, o);
	}
}

/* --- the event --- */

/* The host that the finding is about: what runs there, is watched there. */
static void resource_put(cJSON *to, const cJSON *incident)
{
	cJSON *list = cJSON_AddArrayToObject(cJSON_AddObjectToObject(to, "resource"), "attributes");

	text_put(list, "service.name", "ranktrace");
	text_put(list, "service.version", RANKTRACE_VERSION);
	text_put(list, "host.name", text_of(incident, "host"));
	text_put(list, "k8s.namespace.name", text_of(incident, "namespace"));
	text_put(list, "k8s.pod.name", text_of(incident, "pod"));
	text_put(list, "k8s.pod.uid", text_of(incident, "pod_uid"));
}

static void attributes_put(cJSON *record, const struct notice *n, const char *event)
{
	static const char *const fields[][2] = {
		{ "ranktrace.job", "job" },
		{ "ranktrace.kind", "kind" },
		{ "ranktrace.class", "class" },
		{ "ranktrace.cause", "cause" },
		{ "ranktrace.gpu_uuid", "gpu_uuid" },
		{ "ranktrace.parallelism", "parallelism" },
		{ "ranktrace.slurm_job", "slurm_job" },
		{ "ranktrace.fingerprint", "fingerprint" },
		{ "ranktrace.since", "since" },
		{ "ranktrace.remedy", "remedy" },
	};
	cJSON *list = cJSON_AddArrayToObject(record, "attributes");

	text_put(list, "ranktrace.id", n->id);
	text_put(list, "ranktrace.event", event);
	text_put(list, "ranktrace.severity", severity_name(n->notified_as));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		text_put(list, fields[i][0], text_of(n->incident, fields[i][1]));
	ranks_put(list, cJSON_GetObjectItemCaseSensitive(n->incident, "ranks"));
}

static int severity_number(const struct notice *n, enum notice_event event)
{
	return event == NOTICE_RESOLVED              ? NUMBER_INFO
	       : n->notified_as == SEVERITY_CRITICAL ? NUMBER_ERROR2
						     : NUMBER_WARN;
}

static cJSON *record_of(const struct notice *n, enum notice_event event, int64_t now_ms)
{
	cJSON *o = cJSON_CreateObject();
	int64_t at_ms = time_ms(text_of(n->incident, "time"));
	int number = severity_number(n, event);

	if (at_ms)
		nanoseconds_put(o, "timeUnixNano", at_ms);
	nanoseconds_put(o, "observedTimeUnixNano", now_ms);
	cJSON_AddNumberToObject(o, "severityNumber", number);
	cJSON_AddStringToObject(o, "severityText",
				number == NUMBER_INFO   ? "INFO"
				: number == NUMBER_WARN ? "WARN"
							: "CRITICAL");
	cJSON_AddStringToObject(o, "eventName", "ranktrace.finding");
	cJSON_AddStringToObject(cJSON_AddObjectToObject(o, "body"), "stringValue", text_of(n->incident, "summary"));
	attributes_put(o, n, notice_event_name(event));
	return o;
}

static cJSON *only_in(cJSON *o, const char *name)
{
	cJSON *item = cJSON_CreateObject();

	cJSON_AddItemToArray(cJSON_AddArrayToObject(o, name), item);
	return item;
}

cJSON *otlp_event(const struct notice *n, enum notice_event event, int64_t now_ms)
{
	cJSON *o = cJSON_CreateObject(), *of = only_in(o, "resourceLogs"), *in, *scope;

	resource_put(of, n->incident);
	in = only_in(of, "scopeLogs");
	scope = cJSON_AddObjectToObject(in, "scope");
	cJSON_AddStringToObject(scope, "name", "ranktrace");
	cJSON_AddStringToObject(scope, "version", RANKTRACE_VERSION);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(in, "logRecords"), record_of(n, event, now_ms));
	return o;
}

/* {"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"..."}} */
bool otlp_refused(const char *answer, char *why, size_t size)
{
	cJSON *o = cJSON_Parse(answer);
	const cJSON *part = cJSON_GetObjectItemCaseSensitive(o, "partialSuccess");
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(part, "rejectedLogRecords");
	bool refused =
		cJSON_IsString(n) ? strtoll(n->valuestring, NULL, 10) > 0 : cJSON_IsNumber(n) && n->valuedouble > 0;

	if (refused)
		snprintf(why, size, "the event was rejected: %.120s", text_of(part, "errorMessage"));
	cJSON_Delete(o);
	return refused;
}
