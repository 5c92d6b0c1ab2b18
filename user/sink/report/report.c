/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - one self-contained HTML page of what happened. While the stream goes by it gathers what the page needs, in
 * bounded memory; the page is written when it ends.
 */
#include "sink/report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "sink/incident_json.h"
#include "sink/report/heat_map.h"
#include "sink/report/stack_tree.h"
#include "sink/sink_io.h"

#define DATA_VERSION 1

double report_seconds(const struct report *r, uint64_t ns)
{
	return round(((double)ns - (double)r->base_ns) * 1e-6) / 1e3;
}

void report_add(cJSON *o, const char *name, const char *text)
{
	char *clean = utf8_dup(text ? text : "");
	cJSON *item = cJSON_CreateString(clean ? clean : "");

	if (name)
		cJSON_AddItemToObject(o, name, item);
	else
		cJSON_AddItemToArray(o, item);
	free(clean);
}

static int report_open(const char *path, struct sink **ret_sink)
{
	struct report *r = calloc(1, sizeof(*r));
	int fd;

	if (!r)
		return -ENOMEM;
	fd = open_output(path);
	if (fd < 0) {
		free(r);
		return fd;
	}
	r->base.class = &sink_report;
	r->fd = fd;
	*ret_sink = &r->base; /* lint: returned by the address of its first member */
	return 0;
}

static int report_event(struct sink *base, const struct event *e, const struct model *m)
{
	struct report *r = (struct report *)base;

	if (!r->base_ns)
		r->base_ns = m->resumed_ns ? m->resumed_ns : m->start_ns ? m->start_ns : e->ts_ns;
	report_note(r, e, m);
	return 0;
}

static int report_op_ended(struct sink *base, const struct op *op, const struct model *m)
{
	(void)m;
	report_op((struct report *)base, op);
	return 0;
}

static int report_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	return report_keep((struct report *)base, i, m);
}

/* --- the data --- */

static void add_head(cJSON *o, const struct report *r, const struct model *m)
{
	char from[48], to[48];
	cJSON *jobs = cJSON_AddArrayToObject(o, "jobs");
	const char *last = NULL;

	json_time(from, r->base_ns, m);
	json_time(to, m->now_ns, m);
	cJSON_AddNumberToObject(o, "version", DATA_VERSION);
	cJSON_AddStringToObject(o, "from", from);
	cJSON_AddStringToObject(o, "to", to);
	cJSON_AddNumberToObject(o, "seconds", report_seconds(r, m->now_ns));
	report_add(o, "host", m->host);
	for (const struct proc *p = m->procs; p && cJSON_GetArraySize(jobs) < 8; p = p->next)
		if (!p->is_child && p->members && *p->job->shown && (!last || strcmp(last, p->job->shown))) {
			report_add(jobs, NULL, p->job->shown);
			last = p->job->shown;
		}
}

static cJSON *report_data(struct report *r, const struct model *m)
{
	cJSON *o = cJSON_CreateObject();

	if (!o)
		return NULL;
	report_rounds_end(r, m);
	add_head(o, r, m);
	cJSON_AddItemToObject(o, "summary", report_story(r, m));
	cJSON_AddItemToObject(o, "findings", report_findings(r));
	cJSON_AddItemToObject(o, "heat", heat_maps(&r->heat, r->base_ns, m->now_ns, HEAT_MAP_TEXT_MAX));
	if (!r->stacks) {
		r->stacks = stack_tree(m);
		r->stacks_ns = m->now_ns;
	}
	if (r->stacks) {
		cJSON_AddItemToObject(o, "stacks", cJSON_Duplicate(r->stacks, true));
		cJSON_AddNumberToObject(o, "stacks_s", report_seconds(r, r->stacks_ns));
	}
	cJSON_AddItemToObject(o, "comms", report_comms(r, m));
	cJSON_AddItemToObject(o, "ranks", report_ranks(r, m));
	cJSON_AddItemToObject(o, "storage", report_storage(m));
	cJSON_AddItemToObject(o, "machines", report_machines(m));
	cJSON_AddItemToObject(o, "libs", report_libs(r));
	cJSON_AddItemToObject(o, "notes", report_notes(r));
	cJSON_AddItemToObject(o, "unseen", report_unseen(r, m));
	cJSON_AddItemToObject(o, "next", report_next(r, m));
	return o;
}

static void report_free(struct report *r)
{
	struct comm_stats *s, *next;
	struct round *one;

	while ((one = rounds_take(&r->rounds)))
		round_free(one);
	HASH_ITER (hh, r->comms, s, next) {
		HASH_DEL(r->comms, s);
		free(s);
	}
	for (size_t i = 0; i < r->n_notes; i++)
		free(r->notes[i].text);
	for (size_t i = 0; i < r->n_libs; i++) {
		free(r->libs[i].path);
		free(r->libs[i].build_id);
	}
	heat_free(&r->heat);
	report_incidents_free(r);
	cJSON_Delete(r->stacks);
	free(r);
}

static int report_close(struct sink *base, const struct model *m)
{
	struct report *r = (struct report *)base;
	cJSON *o = report_data(r, m);
	char *json = o ? cJSON_PrintUnformatted(o) : NULL;
	int err = json ? report_write(r->fd, json) : -ENOMEM, closed = close_output(r->fd);

	free(json);
	cJSON_Delete(o);
	report_free(r);
	return err ? err : closed;
}

const struct sink_class sink_report = {
	.name = "report",
	.help = "one self-contained HTML page of what happened",
	.suffix = ".html",
	.open = report_open,
	.event = report_event,
	.op = report_op_ended,
	.incident = report_incident,
	.close = report_close,
};
