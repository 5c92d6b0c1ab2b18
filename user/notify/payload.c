/* SPDX-License-Identifier: Apache-2.0
 *
 * payload.c - see payload.h. Formats: developer.work.weixin.qq.com/document/path/91770, open.dingtalk.com (custom
 * robots), open.feishu.cn (custom bots), api.slack.com/messaging/webhooks.
 */
#include "notify/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "notify/otlp.h"
#include "sink/text.h"

#define WECOM_MAX 4000 /* bytes of markdown; it refuses more than 4096 */

const char *payload_format_name(enum payload_format f)
{
	static const char *const names[] = {
#define X(id, name) name,
		PAYLOAD_FORMATS(X)
#undef X
	};

	return names[f];
}

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

/* --- texts --- */

static const char *event_word(enum notice_event event)
{
	static const char *const words[] = { "", "", "STILL OPEN: ", "NOW WORSE: ", "RESOLVED: " };

	return words[event];
}

static void title_put(struct text *t, const struct notice *n, enum notice_event event)
{
	text_add(t, "%s%s %s", event_word(event), severity_name(n->notified_as), text_of(n->incident, "kind"));
	if (*text_of(n->incident, "job"))
		text_add(t, ", job %s", text_of(n->incident, "job"));
	if (*text_of(n->incident, "host"))
		text_add(t, ", host %s", text_of(n->incident, "host"));
}

static void line_put(struct text *t, const char *label, const char *value)
{
	if (*value)
		text_add(t, "%s%s\n", label, value);
}

static void body_put(struct text *t, const struct notice *n, enum notice_event event, const char *also)
{
	line_put(t, "", text_of(n->incident, "summary"));
	line_put(t, "since ", text_of(n->incident, "since"));
	if (event != NOTICE_RESOLVED)
		line_put(t, "do: ", text_of(n->incident, "remedy"));
	line_put(t, "", also && event != NOTICE_RESOLVED ? also : "");
	line_put(t, "id: ", n->id);
	if (event != NOTICE_RESOLVED && !n->acknowledged)
		text_add(t, "acknowledge: ranktrace notify --acknowledge %s\n", n->id);
}

/* Slack's own signs; of the other services markdown is shown as it is. */
static void slack_put(struct text *t, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&': text_add(t, "&amp;"); break;
		case '<': text_add(t, "&lt;"); break;
		case '>': text_add(t, "&gt;"); break;
		default: text_add(t, "%c", *text);
		}
}

/* --- bodies --- */

/* A blank line between paragraphs, or lines run together. */
static char *markdown_of(const char *title, const char *body)
{
	struct text t = { 0 };

	text_add(&t, "**%s**\n\n", title);
	for (; *body; body++)
		text_add(&t, *body == '\n' ? "\n\n" : "%c", *body);
	return t.data;
}

static cJSON *wecom(const char *title, const char *body)
{
	cJSON *o = cJSON_CreateObject(), *m;
	char *text = markdown_of(title, body);

	if (text && strlen(text) > WECOM_MAX) {
		size_t end = WECOM_MAX;

		while ((text[end] & 0xc0) == 0x80) /* not within a character */
			end--;
		text[end] = 0;
	}
	cJSON_AddStringToObject(o, "msgtype", "markdown");
	m = cJSON_AddObjectToObject(o, "markdown");
	cJSON_AddStringToObject(m, "content", text ? text : title);
	free(text);
	return o;
}

static cJSON *dingtalk(const char *title, const char *body)
{
	cJSON *o = cJSON_CreateObject(), *m;
	char *text = markdown_of(title, body);

	cJSON_AddStringToObject(o, "msgtype", "markdown");
	m = cJSON_AddObjectToObject(o, "markdown");
	cJSON_AddStringToObject(m, "title", title);
	cJSON_AddStringToObject(m, "text", text ? text : title);
	free(text);
	return o;
}

static const char *feishu_colour(const struct notice *n, enum notice_event event)
{
	return event == NOTICE_RESOLVED ? "green" : n->notified_as == SEVERITY_CRITICAL ? "red" : "orange";
}

static cJSON *feishu(const struct notice *n, enum notice_event event, const char *title, const char *body,
		     const struct payload_extra *extra)
{
	cJSON *o = cJSON_CreateObject(), *card, *head, *part, *text;

	if (extra->sign) {
		cJSON_AddStringToObject(o, "timestamp", extra->timestamp);
		cJSON_AddStringToObject(o, "sign", extra->sign);
	}
	cJSON_AddStringToObject(o, "msg_type", "interactive");
	card = cJSON_AddObjectToObject(o, "card");
	head = cJSON_AddObjectToObject(card, "header");
	cJSON_AddStringToObject(head, "template", feishu_colour(n, event));
	text = cJSON_AddObjectToObject(head, "title");
	cJSON_AddStringToObject(text, "tag", "plain_text");
	cJSON_AddStringToObject(text, "content", title);
	part = cJSON_CreateObject();
	cJSON_AddItemToArray(cJSON_AddArrayToObject(card, "elements"), part);
	cJSON_AddStringToObject(part, "tag", "div");
	text = cJSON_AddObjectToObject(part, "text");
	cJSON_AddStringToObject(text, "tag", "plain_text");
	cJSON_AddStringToObject(text, "content", body);
	return o;
}

static cJSON *slack(const char *title, const char *body)
{
	cJSON *o = cJSON_CreateObject();
	struct text t = { 0 };

	text_add(&t, "*");
	slack_put(&t, title);
	text_add(&t, "*\n");
	slack_put(&t, body);
	cJSON_AddStringToObject(o, "text", t.data ? t.data : title);
	free(t.data);
	return o;
}

static cJSON *generic(const struct notice *n, enum notice_event event, const char *title, const char *body)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "version", 1);
	cJSON_AddStringToObject(o, "event", notice_event_name(event));
	cJSON_AddStringToObject(o, "id", n->id);
	cJSON_AddStringToObject(o, "severity", severity_name(n->notified_as));
	cJSON_AddNumberToObject(o, "message", n->stage);
	cJSON_AddBoolToObject(o, "acknowledged", n->acknowledged);
	cJSON_AddStringToObject(o, "title", title);
	cJSON_AddStringToObject(o, "text", body);
	cJSON_AddItemToObject(o, "incident", cJSON_Duplicate(n->incident, true));
	return o;
}

char *payload_make(enum payload_format f, const struct notice *n, enum notice_event event,
		   const struct payload_extra *extra)
{
	struct text title = { 0 }, body = { 0 };
	cJSON *o = NULL;
	char *text = NULL;

	title_put(&title, n, event);
	body_put(&body, n, event, extra->also);
	if (title.data && body.data) {
		switch (f) {
		case PAYLOAD_WECOM: o = wecom(title.data, body.data); break;
		case PAYLOAD_DINGTALK: o = dingtalk(title.data, body.data); break;
		case PAYLOAD_FEISHU: o = feishu(n, event, title.data, body.data, extra); break;
		case PAYLOAD_SLACK: o = slack(title.data, body.data); break;
		case PAYLOAD_OTLP: o = otlp_event(n, event, extra->now_ms); break;
		default: o = generic(n, event, title.data, body.data); break;
		}
		text = cJSON_PrintUnformatted(o);
	}
	cJSON_Delete(o);
	free(title.data);
	free(body.data);
	return text;
}

/* These answer 200 whatever comes; the number in the body says whether it was taken. */
bool payload_taken(enum payload_format f, long status, const char *body, char *why, size_t size)
{
	static const char *const numbers[] = {
		[PAYLOAD_WECOM] = "errcode", [PAYLOAD_DINGTALK] = "errcode", [PAYLOAD_FEISHU] = "code"
	};
	const char *name = f <= PAYLOAD_FEISHU ? numbers[f] : NULL;
	cJSON *o = name ? cJSON_Parse(body) : NULL;
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(o, name ? name : "");
	bool taken = status >= 200 && status < 300 && (!name || (cJSON_IsNumber(number) && !number->valuedouble));

	if (taken && f == PAYLOAD_OTLP)
		return !otlp_refused(body, why, size);
	if (!taken && cJSON_IsNumber(number))
		snprintf(why, size, "%s %.0f: %.120s", name, number->valuedouble,
			 *text_of(o, "errmsg") ? text_of(o, "errmsg") : text_of(o, "msg"));
	else if (!taken)
		snprintf(why, size, "HTTP status %ld: %.80s", status, body);
	cJSON_Delete(o);
	return taken;
}
