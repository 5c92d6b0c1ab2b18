/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl_status.c - see ctl_status.h. Reports of the last two minutes are there: an agent that is silent for longer is
 * not.
 */
#include "cmd/ctl_status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/log.h"
#include "base/utf8.h"
#include "cluster/report.h"

#define FETCH_MS 500
#define CONNECT_TRIES 10
#define SILENT_S 5
#define PAST_S 30 /* of 1,280 hosts that is 100 MB */
#define NAME_MAX_SHOWN 64

struct agent_state { /* by host, of its newest report */
	char host[256], program[NAME_MAX_SHOWN], job[NAME_MAX_SHOWN], error[256];
	int64_t stored_ns;
	uint64_t settings, lost_records, lost_reports;
	double hang_limit_s;
	int n_ranks, n_jobs, n_findings;
	uint32_t version;
	bool paused, traces;
	UT_hash_handle hh;
};

static void text_take(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text ? text : "");
	utf8_tame(to, "");
}

static void jobs_take(struct agent_state *s, const Cluster__NodeReport *r)
{
	s->n_ranks = s->n_jobs = 0;
	*s->job = 0;
	for (size_t i = 0; i < r->n_processes; i++) {
		const Cluster__Process *p = r->processes[i];
		const char *job = p->job ? p->job : "";
		bool is_first = !p->is_child && !p->dead;

		if (p->is_child || p->dead)
			continue;
		s->n_ranks++;
		for (size_t k = 0; k < i; k++)
			is_first &= strcmp(r->processes[k]->job ? r->processes[k]->job : "", job) != 0;
		if (is_first && !s->n_jobs++)
			text_take(s->job, sizeof(s->job), job);
	}
}

static void report_take(struct agent_state *s, const Cluster__NodeReport *r, int64_t stored_ns)
{
	text_take(s->program, sizeof(s->program), r->program ? r->program : "?");
	text_take(s->error, sizeof(s->error), r->settings_error);
	jobs_take(s, r);
	s->stored_ns = stored_ns;
	s->version = r->version;
	s->settings = r->settings;
	s->lost_records = r->lost_records;
	s->lost_reports = r->lost_reports;
	s->hang_limit_s = r->hang_limit_ns * 1e-9;
	s->n_findings = (int)r->n_findings;
	s->paused = r->paused;
	s->traces = r->traces;
}

static struct agent_state *state_of(struct agent_state **all, const char *host)
{
	struct agent_state *s;
	char name[sizeof(s->host)];

	text_take(name, sizeof(name), host);
	HASH_FIND_STR(*all, name, s);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	memcpy(s->host, name, sizeof(name));
	HASH_ADD_STR(*all, host, s);
	if (s->hh.tbl)
		return s;
	free(s);
	return NULL;
}

static int message_take(struct agent_state **all, const char *host, const struct bus_message *msg)
{
	struct agent_state *s = NULL;
	Cluster__NodeReport *r;
	bool is_meant;

	if (report_unpack(msg->data, msg->len, &r))
		return 0;
	is_meant = !host || !strcmp(host, r->host);
	if (is_meant)
		s = state_of(all, r->host);
	if (s)
		report_take(s, r, msg->stored_ns);
	report_free(r);
	return is_meant && !s ? -ENOMEM : 0;
}

/* --- printing --- */

static double age_s(const struct agent_state *s)
{
	struct timespec now;
	double age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (double)now.tv_sec + now.tv_nsec * 1e-9 - s->stored_ns * 1e-9;
	return age > 0 ? age : 0;
}

static const char *state_name(const struct agent_state *s)
{
	return age_s(s) > SILENT_S ? "silent" : s->paused ? "paused" : s->traces ? "traces" : "watches";
}

static void json_print(const struct agent_state *s)
{
	cJSON *o = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(o, "host", s->host);
	cJSON_AddStringToObject(o, "state", state_name(s));
	cJSON_AddStringToObject(o, "tier", s->traces ? "trace" : "watch");
	cJSON_AddNumberToObject(o, "age_s", age_s(s));
	cJSON_AddStringToObject(o, "program", s->program);
	cJSON_AddNumberToObject(o, "report_version", s->version);
	cJSON_AddNumberToObject(o, "ranks", s->n_ranks);
	cJSON_AddNumberToObject(o, "jobs", s->n_jobs);
	cJSON_AddNumberToObject(o, "findings", s->n_findings);
	cJSON_AddNumberToObject(o, "hang_limit_s", s->hang_limit_s);
	cJSON_AddNumberToObject(o, "settings", (double)s->settings);
	cJSON_AddStringToObject(o, "settings_error", s->error);
	cJSON_AddNumberToObject(o, "lost_records", (double)s->lost_records);
	cJSON_AddNumberToObject(o, "lost_reports", (double)s->lost_reports);
	text = cJSON_PrintUnformatted(o);
	if (text)
		printf("%s\n", text);
	free(text);
	cJSON_Delete(o);
}

static void line_print(const struct agent_state *s)
{
	char job[NAME_MAX_SHOWN + 24];

	snprintf(job, sizeof(job), s->n_jobs > 1 ? "%s and %d more" : "%s", s->job, s->n_jobs - 1);
	printf("%-24s %-8s %6.1f  %-8s %5d  %8.4g  %8" PRIu64 "  %s\n", s->host, state_name(s), age_s(s), s->program,
	       s->n_ranks, s->hang_limit_s, s->lost_records, job);
	if (*s->error)
		printf("%-24s   ctl: %s\n", "", s->error);
}

static int by_host(const struct agent_state *a, const struct agent_state *b)
{
	return strcmp(a->host, b->host);
}

/* What is not the same everywhere is said: in a thousand lines it is not seen. */
static void skew_say(const struct agent_state *all)
{
	const struct agent_state *odd = NULL;
	int n = 0, n_odd = 0;

	for (const struct agent_state *s = all; s; s = s->hh.next) {
		bool differs = strcmp(s->program, all->program) || s->version != all->version;

		n++;
		n_odd += differs;
		odd = differs && !odd ? s : odd;
	}
	if (odd)
		log_warn("versions differ: %d of %d hosts have another one than %s (%s), the first %s (%s)", n_odd, n,
			 all->host, all->program, odd->host, odd->program);
	if (!n)
		log_info("no agent has reported in the last %d s", PAST_S);
}

static void all_print(struct agent_state **all, bool json)
{
	HASH_SORT(*all, by_host);
	if (!json && *all)
		printf("%-24s %-8s %6s  %-8s %5s  %8s  %8s  %s\n", "HOST", "STATE", "AGE_S", "VERSION", "RANKS",
		       "HANG_S", "LOST", "JOB");
	for (const struct agent_state *s = *all; s; s = s->hh.next)
		if (json)
			json_print(s);
		else
			line_print(s);
	skew_say(*all);
}

/* --- */

static int reports_follow(struct bus *b, const char *token, struct bus_cursor **ret)
{
	int err = -ENOTCONN;

	for (int i = 0; err == -ENOTCONN && i < CONNECT_TRIES; i++) {
		if (i)
			usleep(BUS_WAIT_MS * 1000 / 4);
		err = b->class->follow(b, BUS_REPORTS, token, 0, PAST_S, ret);
	}
	return err;
}

int ctl_status(struct bus *b, const char *host, bool json)
{
	struct agent_state *all = NULL, *s, *next;
	struct bus_cursor *c = NULL;
	struct bus_message msg;
	char token[BUS_TOKEN_MAX];
	int err, n = 1;

	if (host)
		bus_token(host, token);
	err = reports_follow(b, host ? token : NULL, &c);
	while (!err && n == 1) {
		n = b->class->fetch(c, FETCH_MS, &msg);
		err = n == 1 ? message_take(&all, host, &msg) : n < 0 ? n : 0;
		if (n == 1 && !msg.n_behind)
			break;
	}
	if (c)
		b->class->cursor_free(c);
	if (!err)
		all_print(&all, json);
	HASH_ITER (hh, all, s, next) {
		HASH_DEL(all, s);
		free(s);
	}
	return err;
}
