/* SPDX-License-Identifier: Apache-2.0
 *
 * incidents_print.c - see incidents_print.h. JSON lines stay as they are in the log, byte for byte, and grow at their
 * end: their numbers have more digits than a double.
 */
#include "cmd/cluster/incidents_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

char *incident_line_text(const char *line, const char *name)
{
	cJSON *o = cJSON_Parse(line);
	char *text = strdup(text_of(o, name));

	cJSON_Delete(o);
	return text;
}

int incident_marks_read(struct bus *b, const char *line, struct incident_marks *ret)
{
	cJSON *o = cJSON_Parse(line);
	uint64_t now_s = (uint64_t)time(NULL);
	int err;

	memset(ret, 0, sizeof(*ret));
	err = incident_mark_read(b, MARK_ACKNOWLEDGED, text_of(o, "id"), now_s, &ret->ack);
	if (!err)
		err = incident_mark_read(b, MARK_SILENCED, text_of(o, "fingerprint"), now_s, &ret->silence);
	cJSON_Delete(o);
	return err;
}

/* "2026-11-24T17:06:48Z" */
static void time_text(char to[32], uint64_t at_s)
{
	time_t t = (time_t)at_s;
	struct tm utc;

	*to = 0;
	if (gmtime_r(&t, &utc))
		strftime(to, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* --- for people --- */

static void mark_print(const char *what, const struct incident_mark *m, const char *until)
{
	char text[512], when[32];

	if (!m->at_s)
		return;
	time_text(when, m->at_s);
	snprintf(text, sizeof(text), "%s %s by %s%s%s", what, *until ? until : when, m->by, *m->note ? ": " : "",
		 m->note);
	utf8_tame(text, "");
	printf("    %s\n", text);
}

/* "2026-11-24T17:06:48.123Z  CRITICAL  open    job llama: rank 5 has not entered ..." */
static void line_print(const char *line)
{
	cJSON *o = cJSON_Parse(line);
	const char *job = text_of(o, "job"), *host = text_of(o, "host"), *cause = text_of(o, "caused_by");
	char *text = NULL;

	if (asprintf(&text, "%s  %-8s  %-6s  %s%s%s%s%s%s\n    id %s%s%s", text_of(o, "time"), text_of(o, "severity"),
		     text_of(o, "phase"), *job ? "job " : "", job, *job && *host ? ", " : "", *host ? "host " : "",
		     host, *job || *host ? ": " : "", text_of(o, "id"), *cause ? ", a consequence of " : "",
		     cause) >= 0) {
		char *id = strchr(text, '\n');

		*id = 0;
		utf8_tame(text, "");
		printf("%s%s\n", text, text_of(o, "summary"));
		printf("%s\n", id + 1);
	}
	free(text);
	cJSON_Delete(o);
}

/* --- JSON --- */

static void mark_add(cJSON *o, const char *name, const struct incident_mark *m)
{
	cJSON *to = m->at_s ? cJSON_AddObjectToObject(o, name) : NULL;
	char when[32];

	if (!to)
		return;
	cJSON_AddStringToObject(to, "by", m->by);
	time_text(when, m->at_s);
	cJSON_AddStringToObject(to, "time", when);
	if (m->until_s) {
		time_text(when, m->until_s);
		cJSON_AddStringToObject(to, "until", when);
	}
	cJSON_AddStringToObject(to, "note", m->note);
}

static void json_print(const char *line, const struct incident_marks *marks)
{
	cJSON *o = cJSON_CreateObject();
	size_t len = strlen(line);
	char *more;

	mark_add(o, "acknowledged", &marks->ack);
	mark_add(o, "silenced", &marks->silence);
	more = o && o->child ? cJSON_PrintUnformatted(o) : NULL;
	if (more && len && line[len - 1] == '}')
		printf("%.*s,%s\n", (int)len - 1, line, more + 1);
	else
		printf("%s\n", line);
	free(more);
	cJSON_Delete(o);
}

void incident_line_print(const char *line, const struct incident_marks *marks, bool json)
{
	char until[32];

	if (json) {
		json_print(line, marks);
	} else {
		line_print(line);
		time_text(until, marks->silence.until_s);
		mark_print("acknowledged", &marks->ack, "");
		mark_print("silenced until", &marks->silence, until);
	}
	fflush(stdout);
}
