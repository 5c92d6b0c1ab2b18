/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_mark.c - see incident_mark.h. A value is a line of JSON; of two that write at once the later one stays.
 */
#include "hub/mark/incident_mark.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"

#define VALUE_MAX 1024
#define TRIES 3

void incident_mark_sign(struct incident_mark *m)
{
	const char *sudo = getenv("SUDO_USER"), *name = sudo && *sudo ? sudo : getlogin();
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(m->by, sizeof(m->by), "%s@%s", name ? name : getuid() ? "user" : "root", host);
}

static void key_make(char to[BUS_TOKEN_MAX], enum mark_kind kind, const char *of)
{
	char text[256];

	snprintf(text, sizeof(text), "%s-%s", kind == MARK_SILENCED ? "silence" : "ack", of);
	bus_token(text, to);
}

static void text_read(const cJSON *o, const char *name, char *to, size_t size)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	snprintf(to, size, "%s", cJSON_IsString(item) ? item->valuestring : "");
	utf8_tame(to, "");
}

static uint64_t number_read(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 1e12 ? (uint64_t)item->valuedouble
											 : 0;
}

int incident_mark_read(struct bus *b, enum mark_kind kind, const char *of, uint64_t now_s, struct incident_mark *ret)
{
	char key[BUS_TOKEN_MAX], value[VALUE_MAX];
	uint64_t revision;
	cJSON *o;
	int err;

	memset(ret, 0, sizeof(*ret));
	key_make(key, kind, of);
	err = b->class->table_read(b, BUS_MARKS, key, value, sizeof(value), &revision);
	if (err || !revision)
		return err;
	o = cJSON_Parse(value);
	text_read(o, "by", ret->by, sizeof(ret->by));
	text_read(o, "note", ret->note, sizeof(ret->note));
	ret->at_s = number_read(o, "at");
	ret->until_s = number_read(o, "until");
	cJSON_Delete(o);
	if (kind == MARK_SILENCED && ret->until_s <= now_s)
		memset(ret, 0, sizeof(*ret));
	return 0;
}

static char *value_make(const struct incident_mark *mark)
{
	cJSON *o = cJSON_CreateObject();
	char *text = NULL;

	if (cJSON_AddStringToObject(o, "by", mark->by) && cJSON_AddStringToObject(o, "note", mark->note) &&
	    cJSON_AddNumberToObject(o, "at", (double)mark->at_s) &&
	    cJSON_AddNumberToObject(o, "until", (double)mark->until_s))
		text = cJSON_PrintUnformatted(o);
	cJSON_Delete(o);
	return text;
}

int incident_mark_write(struct bus *b, enum mark_kind kind, const char *of, const struct incident_mark *mark)
{
	char key[BUS_TOKEN_MAX], before[VALUE_MAX], *value = value_make(mark);
	int err = value ? -ESTALE : -ENOMEM;
	uint64_t revision;

	key_make(key, kind, of);
	for (int i = 0; i < TRIES && err == -ESTALE; i++) {
		err = b->class->table_read(b, BUS_MARKS, key, before, sizeof(before), &revision);
		err = err ? err : b->class->table_write(b, BUS_MARKS, key, value, revision, &revision);
	}
	free(value);
	return err;
}
