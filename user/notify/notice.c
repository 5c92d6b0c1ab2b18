/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.c - see notice.h.
 */
#include "notify/notice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

static int64_t number_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : 0;
}

static bool flag_of(const cJSON *o, const char *name)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static enum severity severity_of(const char *name)
{
	for (enum severity s = 0; s < SEVERITY_MAX; s++)
		if (!strcmp(severity_name(s), name))
			return s;
	return SEVERITY_INFO;
}

/* --- lines --- */

static struct notice *find(const struct notices *s, const char *id)
{
	struct notice *n = s->all;

	while (n && strcmp(n->id, id))
		n = n->next;
	return n;
}

static void notice_free(struct notice *n)
{
	cJSON_Delete(n->incident);
	free(n);
}

/* Of too many the oldest that is over, else the oldest: the list begins with the newest. */
static void one_forget(struct notices *s)
{
	struct notice **oldest = NULL, **over = NULL, *n;

	for (struct notice **at = &s->all; *at; at = &(*at)->next) {
		oldest = at;
		over = (*at)->closed ? at : over;
	}
	oldest = over ? over : oldest;
	if (!oldest)
		return;
	n = *oldest;
	*oldest = n->next;
	notice_free(n);
	s->n--;
}

static struct notice *add(struct notices *s, const char *id, int64_t now_ms)
{
	struct notice *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	if (s->n >= NOTICES_MAX)
		one_forget(s);
	snprintf(n->id, sizeof(n->id), "%s", id);
	n->seen_ms = now_ms;
	n->next = s->all;
	s->all = n;
	s->n++;
	return n;
}

/* What follows from another finding is that one's affair: one message an event. */
static void incident_set(struct notice *n, cJSON *o, int64_t now_ms)
{
	const char *phase = text_of(o, "phase");

	cJSON_Delete(n->incident);
	n->incident = o;
	n->severity = severity_of(text_of(o, "severity"));
	n->root = !*text_of(o, "caused_by");
	n->closed = !strcmp(phase, "close");
	n->closed_ms = n->closed ? (n->closed_ms ? n->closed_ms : now_ms) : 0;
}

int notices_take(struct notices *s, const char *line, int64_t now_ms)
{
	cJSON *o = cJSON_Parse(line);
	const char *id = text_of(o, "id");
	struct notice *n;

	if (!*id || strlen(id) >= FINDING_ID_MAX || !*text_of(o, "phase") || !*text_of(o, "kind")) {
		cJSON_Delete(o);
		s->n_bad++;
		return -EINVAL;
	}
	n = find(s, id);
	n = n ? n : add(s, id, now_ms);
	if (!n) {
		cJSON_Delete(o);
		return -ENOMEM;
	}
	incident_set(n, o, now_ms);
	s->changed = true;
	return 0;
}

bool notices_acknowledge(struct notices *s, const char *id)
{
	struct notice *n = find(s, id);

	if (!n)
		return false;
	s->changed |= !n->acknowledged;
	n->acknowledged = true;
	return true;
}

const char *notice_event_name(enum notice_event event)
{
	static const char *const names[] = { "", "open", "again", "worse", "resolved" };

	return names[event];
}

/* --- what is due --- */

static int64_t due_ms(const struct notices *s, const struct notice *n)
{
	bool never = n->severity < SEVERITY_WARNING || !n->root ||
		     (n->severity == SEVERITY_WARNING && s->rules.warning_after_ms < 0);

	return never                              ? INT64_MAX
	       : n->severity == SEVERITY_CRITICAL ? n->seen_ms
						  : n->seen_ms + s->rules.warning_after_ms;
}

/* It begins, and once more when a warning that was notified of becomes critical. */
static void begin(struct notices *s, struct notice *n, int64_t now_ms)
{
	bool worse = n->begun_ms && n->severity > n->notified_as;

	if ((n->begun_ms && !worse) || now_ms < due_ms(s, n))
		return;
	n->begun_ms = now_ms;
	n->notified_as = n->severity;
	n->stage++;
	n->acknowledged &= !worse;
	s->changed = true;
}

static unsigned int reminders(const struct notice_rules *r, int64_t passed_ms)
{
	unsigned int n = 0;

	while (n < r->n_again && r->again_ms[n] <= passed_ms)
		n++;
	return n;
}

static void remind(struct notices *s, struct notice *n, int64_t before_ms, int64_t now_ms)
{
	unsigned int was = reminders(&s->rules, before_ms - n->begun_ms),
		     now = reminders(&s->rules, now_ms - n->begun_ms);

	if (now <= was)
		return;
	n->stage++; /* of several that passed while no relay ran, one */
	s->changed = true;
}

static bool is_forgotten(const struct notice *n, int64_t now_ms)
{
	return n->closed && now_ms - n->closed_ms > NOTICE_KEPT_MS;
}

void notices_turn(struct notices *s, int64_t now_ms)
{
	struct notice **at = &s->all, *n;

	while ((n = *at)) {
		if (is_forgotten(n, now_ms)) {
			*at = n->next;
			notice_free(n);
			s->n--;
			continue;
		}
		if (!n->closed && n->begun_ms)
			remind(s, n, n->turned_ms, now_ms);
		if (!n->closed)
			begin(s, n, now_ms);
		n->turned_ms = now_ms;
		at = &n->next;
	}
}

static enum notice_event event_of(const struct notice *n, int c)
{
	if (n->closed)
		return n->sent[c] && !n->sent_end[c] ? NOTICE_RESOLVED : NOTICE_NONE;
	if (n->sent[c] >= n->stage || (n->acknowledged && n->sent[c]))
		return NOTICE_NONE;
	return !n->sent[c] ? NOTICE_OPEN : n->sent_as[c] < n->notified_as ? NOTICE_WORSE : NOTICE_AGAIN;
}

struct notice *notices_next(struct notices *s, int c, enum notice_event *ret)
{
	struct notice *found = NULL;

	for (struct notice *n = s->all; n; n = n->next) /* the oldest, which is the last */
		if (event_of(n, c) != NOTICE_NONE)
			found = n;
	*ret = found ? event_of(found, c) : NOTICE_NONE;
	return found;
}

void notice_sent(struct notices *s, struct notice *n, int c, enum notice_event event)
{
	n->sent_end[c] |= event == NOTICE_RESOLVED;
	if (event != NOTICE_RESOLVED) {
		n->sent[c] = n->stage;
		n->sent_as[c] = n->notified_as;
	}
	s->changed = true;
}

const struct notice *notices_worst(const struct notices *s)
{
	for (const struct notice *n = s->all; n; n = n->next)
		if (!n->closed && n->root && n->severity == SEVERITY_CRITICAL)
			return n;
	return NULL;
}

/* --- state --- */

static cJSON *notice_save(const struct notice *n, const char *const *names, int n_names)
{
	cJSON *o = cJSON_CreateObject(), *sent;

	cJSON_AddStringToObject(o, "id", n->id);
	cJSON_AddNumberToObject(o, "seen_ms", (double)n->seen_ms);
	cJSON_AddNumberToObject(o, "begun_ms", (double)n->begun_ms);
	cJSON_AddNumberToObject(o, "closed_ms", (double)n->closed_ms);
	cJSON_AddNumberToObject(o, "turned_ms", (double)n->turned_ms);
	cJSON_AddNumberToObject(o, "stage", n->stage);
	cJSON_AddStringToObject(o, "notified_as", severity_name(n->notified_as));
	cJSON_AddBoolToObject(o, "acknowledged", n->acknowledged);
	cJSON_AddBoolToObject(o, "acted", n->acted);
	cJSON_AddItemToObject(o, "incident", cJSON_Duplicate(n->incident, true));
	sent = cJSON_AddObjectToObject(o, "sent");
	for (int c = 0; c < n_names; c++) {
		cJSON *of = names[c] && n->sent[c] ? cJSON_AddObjectToObject(sent, names[c]) : NULL;

		if (!of)
			continue;
		cJSON_AddNumberToObject(of, "stage", n->sent[c]);
		cJSON_AddStringToObject(of, "as", severity_name(n->sent_as[c]));
		cJSON_AddBoolToObject(of, "end", n->sent_end[c]);
	}
	return o;
}

cJSON *notices_save(const struct notices *s, const char *const *names, int n_names)
{
	cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "notices");

	for (const struct notice *n = s->all; n && list; n = n->next)
		cJSON_AddItemToArray(list, notice_save(n, names, n_names));
	return o;
}

static int notice_load(struct notices *s, const cJSON *o, const char *const *names, int n_names)
{
	const cJSON *sent = cJSON_GetObjectItemCaseSensitive(o, "sent");
	cJSON *incident = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(o, "incident"), true);
	struct notice *n = *text_of(o, "id") && cJSON_IsObject(incident) ? add(s, text_of(o, "id"), 0) : NULL;

	if (!n) {
		cJSON_Delete(incident);
		return -EINVAL;
	}
	n->closed_ms = number_of(o, "closed_ms");
	incident_set(n, incident, 0);
	n->seen_ms = number_of(o, "seen_ms");
	n->begun_ms = number_of(o, "begun_ms");
	n->turned_ms = number_of(o, "turned_ms");
	n->stage = (unsigned int)number_of(o, "stage");
	n->notified_as = severity_of(text_of(o, "notified_as"));
	n->acknowledged = flag_of(o, "acknowledged");
	n->acted = flag_of(o, "acted");
	for (int c = 0; c < n_names; c++) {
		const cJSON *of = names[c] ? cJSON_GetObjectItemCaseSensitive(sent, names[c]) : NULL;

		n->sent[c] = (unsigned int)number_of(of, "stage");
		n->sent_as[c] = severity_of(text_of(of, "as"));
		n->sent_end[c] = flag_of(of, "end");
	}
	return 0;
}

int notices_load(struct notices *s, const cJSON *from, const char *const *names, int n_names)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(from, "notices");
	int err = cJSON_IsArray(list) ? 0 : -EINVAL;

	for (int i = cJSON_GetArraySize(list) - 1; i >= 0 && !err; i--) /* the oldest first */
		err = notice_load(s, cJSON_GetArrayItem(list, i), names, n_names);
	return err;
}

void notices_free(struct notices *s)
{
	struct notice *n;

	while ((n = s->all)) {
		s->all = n->next;
		notice_free(n);
	}
	s->n = 0;
}
