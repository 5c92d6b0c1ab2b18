/* SPDX-License-Identifier: Apache-2.0
 *
 * confirm.c - see confirm.h.
 */
#include "tools/stress/confirm/confirm.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/stress/lib/gpu_name.h"
#include "tools/stress/report_json.h"

#define PATH_ROOM 4096

enum confirm_on { ONE, ALL, PORT, ANY };
static const struct {
	const char *kind, *what;
	enum confirm_on on;
	const char *command;
} rows[] = {
#define CONFIRM(...) { __VA_ARGS__ },
#include "confirm.def"
#undef CONFIRM
};
#define N_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static const char *text_of(const cJSON *line, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, key));

	return text ? text : "";
}

static int row_of(const cJSON *finding)
{
	const char *cause = text_of(finding, "cause"), *class = text_of(finding, "class");
	const bool of_port = *text_of(cJSON_GetObjectItemCaseSensitive(finding, "subject"), "device");

	for (int i = 0; i < N_ROWS; i++)
		if ((of_port || rows[i].on != PORT) && !strcmp(rows[i].kind, text_of(finding, "kind")) &&
		    (!strcmp(rows[i].what, cause) || !strcmp(rows[i].what, class)))
			return i;
	return -1;
}

static void taken(struct confirmation *c, const cJSON *finding, int row)
{
	const cJSON *subject = cJSON_GetObjectItemCaseSensitive(finding, "subject");
	const char *uuid = text_of(finding, "gpu_uuid"), *pci = text_of(subject, "pci");
	const char *device = text_of(subject, "device");
	const cJSON *port = cJSON_GetObjectItemCaseSensitive(subject, "port");

	*c = (struct confirmation){ .command = rows[row].command,
				    .one = rows[row].on == ONE,
				    .any = rows[row].on == ANY };
	if (rows[row].on == PORT && cJSON_IsNumber(port))
		snprintf(c->port, sizeof(c->port), "%.64s:%d", device, port->valueint);
	else if (rows[row].on == PORT)
		snprintf(c->port, sizeof(c->port), "%.64s", device);
	snprintf(c->id, sizeof(c->id), "%s", text_of(finding, "id"));
	snprintf(c->summary, sizeof(c->summary), "%s", text_of(finding, "summary"));
	snprintf(c->gpu, sizeof(c->gpu), "%s", *uuid ? uuid : pci);
}

struct search {
	const char *id;
	char host[65], of_host[65]; /* ours, the one that was found */
	int n_lines, n_findings;
	bool seen; /* the one of that id, whatever it is */
};

static void line_look(struct search *s, const char *text, struct confirmation *c)
{
	cJSON *finding = cJSON_Parse(text);
	bool is_wanted = finding && (!s->id || !strcmp(s->id, text_of(finding, "id")));
	int row = finding ? row_of(finding) : -1;

	s->n_lines++;
	s->n_findings += *text_of(finding, "id") && *text_of(finding, "kind");
	s->seen |= s->id && is_wanted;
	if (is_wanted && row >= 0) {
		taken(c, finding, row);
		snprintf(s->of_host, sizeof(s->of_host), "%s", text_of(finding, "host"));
	}
	cJSON_Delete(finding);
}

static int verdict(const struct search *s, const char *path, bool any_host, const struct confirmation *c,
		   char why[LIBRARY_WHY])
{
	if (!s->n_findings)
		snprintf(why, LIBRARY_WHY,
			 "--confirm: %.200s has no finding: give what ranktrace watch --json or record --json wrote",
			 path);
	else if (s->id && !s->seen)
		snprintf(why, LIBRARY_WHY, "--confirm: %.200s has no finding %.120s", path, s->id);
	else if (!c->command)
		snprintf(why, LIBRARY_WHY,
			 "--confirm: no test would confirm %s: it is not about a GPU, its links or an RDMA port "
			 "(docs/findings.md)",
			 s->id ? "this finding" : "any finding of that file");
	else if (!any_host && s->of_host[0] && strcmp(s->of_host, s->host))
		snprintf(why, LIBRARY_WHY, "--confirm: %.100s is of host %s, and this is %s: run it there", c->id,
			 s->of_host, s->host);
	return why[0] ? STRESS_USAGE : STRESS_PASSED;
}

int confirm_find(const char *what, bool any_host, struct confirmation *c, char why[LIBRARY_WHY])
{
	char path[PATH_ROOM], *mark, *text = NULL;
	struct search s = { 0 };
	size_t room = 0;
	FILE *f;

	*c = (struct confirmation){ 0 };
	snprintf(path, sizeof(path), "%s", what);
	mark = strrchr(path, '#');
	if (mark) {
		*mark = 0;
		s.id = mark + 1;
	}
	gethostname(s.host, sizeof(s.host) - 1);
	f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	if (!f) {
		snprintf(why, LIBRARY_WHY, "--confirm: %.200s: %s", path, strerror(errno));
		return STRESS_USAGE;
	}
	while (getline(&text, &room, f) > 0)
		line_look(&s, text, c);
	free(text);
	if (f != stdin)
		fclose(f);
	return verdict(&s, path, any_host, c, why);
}

static bool is_about(const struct confirmation *c, const struct stress_device *bad)
{
	size_t n = strlen(c->port);

	if (n)
		return !strncmp(bad->name, c->port, n) &&
		       (!bad->name[n] || (bad->name[n] == ':' && !strchr(c->port, ':')));
	return gpu_is_named(&(struct gpu_id){ .uuid = bad->uuid, .pci = bad->pci }, c->gpu);
}

/* A test fails by any device of the host: others' faults say nothing about this one. */
static bool is_confirmed(const struct confirmation *c, int status, const struct stress_result *result)
{
	if (status != STRESS_FAILED || c->any || (!c->gpu[0] && !c->port[0]))
		return status == STRESS_FAILED;
	for (uint32_t i = 0; i < result->n_bad; i++)
		if (is_about(c, &result->bad[i]))
			return true;
	return false;
}

/* "GPU 0, GPU 2" */
static const char *bad_list(const struct stress_result *result, char *text, size_t size)
{
	size_t at = 0;

	snprintf(text, size, "no single device");
	for (uint32_t i = 0; i < result->n_bad && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", result->bad[i].name);
	return text;
}

static void text_say(const struct confirmation *c, bool confirmed, int status, const struct stress_result *result)
{
	char others[240];

	if (confirmed)
		printf("%s is CONFIRMED by stress %s: %s\n", c->id, c->command, c->summary);
	else if (status == STRESS_PASSED)
		printf("%s is not confirmed by stress %s: %s\n", c->id, c->command, c->summary);
	else
		printf("%s is not confirmed by stress %s, which failed, but on %s and not on %s: %s\n", c->id,
		       c->command, bad_list(result, others, sizeof(others)), c->port[0] ? c->port : c->gpu, c->summary);
}

void confirm_say(const struct confirmation *c, int status, const struct stress_result *result, enum report_mode mode)
{
	bool confirmed = is_confirmed(c, status, result);
	cJSON *line, *others;

	if (status != STRESS_FAILED && status != STRESS_PASSED)
		return; /* there was no verdict, and that is said */
	if (mode != REPORT_JSON) {
		text_say(c, confirmed, status, result);
		return;
	}
	line = json_line_begin("confirm");
	cJSON_AddStringToObject(line, "incident", c->id);
	cJSON_AddStringToObject(line, "summary", c->summary);
	cJSON_AddStringToObject(line, "command", c->command);
	cJSON_AddBoolToObject(line, "confirmed", confirmed);
	others = cJSON_AddArrayToObject(line, "failed");
	for (uint32_t i = 0; i < result->n_bad; i++)
		cJSON_AddItemToArray(others, cJSON_CreateString(result->bad[i].name));
	json_line_end(line);
}
