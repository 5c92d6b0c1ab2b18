/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_log.c - see incident_log.h. An append whose answer was lost may be in the log. The next one is then refused,
 * and the log read: where all that is new in it is ours, it was stored, and nothing is written twice.
 */
#include "hub/incident_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define READ_MS 1000
#define CLAIMS_MAX 3
#define PAST_S (30 * 86400)

/* --- entries --- */

static char *entry_text(const struct incident_log *l, uint64_t key, const char *id, bool closes, const char *line)
{
	char *text = NULL;
	int n;

	if (!line)
		n = asprintf(&text, "{\"v\":1,\"hub\":\"%s\",\"n\":%" PRIu64 ",\"takes_over\":true}", l->hub, l->n);
	else
		n = asprintf(&text,
			     "{\"v\":1,\"hub\":\"%s\",\"n\":%" PRIu64 ",\"key\":\"%016" PRIx64
			     "\",\"id\":\"%s\",\"closes\":%s,\"incident\":%s}",
			     l->hub, l->n, key, id, closes ? "true" : "false", line);
	return n < 0 ? NULL : text;
}

static void text_copy(const cJSON *o, const char *name, char *to, size_t size)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	if (cJSON_IsString(item))
		snprintf(to, size, "%s", item->valuestring);
}

/* As it stands there: its numbers have more digits than a double. It is the last of the entry. */
static char *incident_text(const char *data, size_t len)
{
	const char name[] = "\"incident\":";
	const char *at = memmem(data, len, name, sizeof(name) - 1);

	return at ? strndup(at + sizeof(name) - 1, data + len - 1 - (at + sizeof(name) - 1)) : NULL;
}

bool log_entry_parse(const void *data, size_t len, struct log_entry *ret)
{
	cJSON *o = cJSON_ParseWithLength(data, len);
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, "n"),
		    *incident = cJSON_GetObjectItemCaseSensitive(o, "incident");
	char key[24] = "";

	memset(ret, 0, sizeof(*ret));
	text_copy(o, "hub", ret->hub, sizeof(ret->hub));
	text_copy(o, "key", key, sizeof(key));
	text_copy(o, "id", ret->id, sizeof(ret->id));
	ret->n = cJSON_IsNumber(n) && n->valuedouble > 0 ? (uint64_t)n->valuedouble : 0;
	ret->key = strtoull(key, NULL, 16);
	ret->closes = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "closes"));
	ret->line = cJSON_IsObject(incident) ? incident_text(data, len) : NULL;
	ret->is_incident = ret->line && ret->key && *ret->id;
	cJSON_Delete(o);
	if (!*ret->hub)
		log_entry_free(ret);
	return *ret->hub;
}

void log_entry_free(struct log_entry *e)
{
	free(e->line);
	e->line = NULL;
}

/* --- what is open --- */

struct logged *incident_log_find(const struct incident_log *l, uint64_t key)
{
	for (struct logged *o = l->open; o; o = o->next)
		if (o->key == key)
			return o;
	return NULL;
}

static void open_drop(struct incident_log *l, const char *id)
{
	for (struct logged **at = &l->open, *one; (one = *at); at = &one->next)
		if (!strcmp(one->id, id)) {
			*at = one->next;
			free(one->line);
			free(one);
			return;
		}
}

static int open_note(struct incident_log *l, uint64_t key, const char *id, bool closes, const char *line)
{
	struct logged *o = incident_log_find(l, key);
	char *copy;

	if (closes) {
		open_drop(l, id);
		return 0;
	}
	copy = strdup(line);
	if (!o) {
		o = copy ? calloc(1, sizeof(*o)) : NULL;
		if (o) {
			o->next = l->open;
			l->open = o;
		}
	}
	if (!o || !copy) {
		free(copy);
		return -ENOMEM;
	}
	free(o->line);
	o->line = copy;
	o->key = key;
	snprintf(o->id, sizeof(o->id), "%s", id); /* lint: the copy is the row's */
	return 0;
}

void incident_log_free(struct incident_log *l)
{
	while (l->open)
		open_drop(l, l->open->id);
}

/* --- reading --- */

/* Entries (from, upto]: into what is open. *ret_others: some are not ours. */
static int log_read(struct incident_log *l, struct bus *b, uint64_t from, uint64_t upto, bool *ret_others)
{
	struct bus_cursor *c = NULL;
	struct bus_message msg = {};
	int err = upto > from ? b->class->follow(b, BUS_INCIDENTS, l->token, from + 1, PAST_S, &c) : 0, n = 1;

	*ret_others = false;
	while (!err && n == 1 && msg.seq < upto && c) {
		struct log_entry e;

		n = b->class->fetch(c, READ_MS, &msg);
		if (n != 1 || !log_entry_parse(msg.data, msg.len, &e))
			continue;
		*ret_others |= strcmp(e.hub, l->hub) != 0;
		err = e.is_incident ? open_note(l, e.key, e.id, e.closes, e.line) : 0;
		log_entry_free(&e);
	}
	if (c)
		b->class->cursor_free(c);
	return err ? err : n == 1 ? 0 : n < 0 ? n : -ETIMEDOUT;
}

/* --- writing --- */

static int entry_append(struct incident_log *l, struct bus *b, const char *text)
{
	uint64_t seq;
	int err = b->class->append(b, l->token, text, strlen(text), l->last, &seq);

	l->unsure |= err && err != -ESTALE;
	if (err)
		return err;
	l->unsure = false;
	l->last = seq;
	return 0;
}

/* Refused behind an append without an answer: is what is new in the log our own? 0: yes, and known now. */
static int own_find(struct incident_log *l, struct bus *b)
{
	uint64_t last;
	bool others;
	int err = b->class->last(b, l->token, &last);

	err = err ? err : log_read(l, b, l->last, last, &others);
	if (err)
		return err;
	if (others)
		return -ESTALE;
	l->last = last;
	l->unsure = false;
	return 0;
}

int incident_log_append(struct incident_log *l, struct bus *b, uint64_t key, const char *id, bool closes,
			const char *line)
{
	bool was_unsure = l->unsure;
	uint64_t before = l->last;
	char *text;
	int err;

	l->n++;
	text = entry_text(l, key, id, closes, line);
	err = text ? entry_append(l, b, text) : -ENOMEM;
	free(text);
	if (err == -ESTALE && was_unsure) {
		err = own_find(l, b);
		if (!err && l->last == before) /* it was refused for what is not there any more */
			err = -ETIMEDOUT;
		return err; /* what was found is this very entry: none was begun meanwhile */
	}
	return err ? err : open_note(l, key, id, closes, line);
}

int incident_log_close(struct incident_log *l, struct bus *b, const struct logged *o)
{
	const char name[] = "\"phase\":\"";
	const char *at = strstr(o->line, name), *end = at ? strchr(at + sizeof(name) - 1, '"') : NULL;
	char *line = NULL, id[FINDING_ID_MAX];
	int err = -ENOMEM;

	memcpy(id, o->id, sizeof(id));
	if (!end || asprintf(&line, "%.*s%sclose%s", (int)(at - o->line), o->line, name, end) < 0)
		line = end ? NULL : strdup(o->line);
	if (line)
		err = incident_log_append(l, b, o->key, id, true, line);
	free(line);
	return err;
}

int incident_log_read(struct incident_log *l, struct bus *b)
{
	uint64_t last;
	bool others;
	int err = b->class->last(b, l->token, &last);

	err = err ? err : log_read(l, b, l->last, last, &others);
	if (!err)
		l->last = last;
	return err;
}

int incident_log_take(struct incident_log *l, struct bus *b)
{
	int err = -ESTALE;

	for (int i = 0; i < CLAIMS_MAX && err == -ESTALE; i++) {
		char *text;

		err = incident_log_read(l, b);
		if (err)
			return err;
		l->n++;
		text = entry_text(l, 0, NULL, false, NULL);
		err = text ? entry_append(l, b, text) : -ENOMEM;
		free(text);
	}
	return err;
}
