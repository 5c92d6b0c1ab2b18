/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - findings as JSON lines, one each time a finding opens, changes or closes: schemas/incident.schema.json.
 * One line is one write(2), so that what a killed tracer leaves behind is whole lines.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "sink/line_sink.h"
#include "sink/sink_io.h"

static int json_open(const char *path, struct sink **ret_sink)
{
	return line_sink_open(&sink_json, path, ret_sink);
}

/* NULL and, for those that may be unknown, "" become null. */
static void add_text(cJSON *o, const char *name, const char *text, bool empty_is_null)
{
	char *clean = text && (*text || !empty_is_null) ? utf8_dup(text) : NULL;

	if (clean)
		cJSON_AddStringToObject(o, name, clean);
	else
		cJSON_AddNullToObject(o, name);
	free(clean);
}

/* cJSON keeps numbers as double: nanoseconds past 104 days of uptime would lose digits. */
static void add_u64(cJSON *o, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	cJSON_AddRawToObject(o, name, text);
}

static void add_hex(cJSON *o, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%016" PRIx64, v);
	add_text(o, name, v ? text : NULL, true);
}

static double round_to(double v, double unit)
{
	double scaled = v / unit;

	if (!(scaled > -9e15 && scaled < 9e15))
		return v;
	return (double)(int64_t)(scaled + (scaled < 0 ? -0.5 : 0.5)) * unit;
}

static void add_numbers(cJSON *o, const struct finding *f)
{
	cJSON *ranks = cJSON_AddArrayToObject(o, "ranks"), *pids = cJSON_AddArrayToObject(o, "pids");

	for (int i = 0; i < f->n_ranks; i++) {
		cJSON_AddItemToArray(ranks, cJSON_CreateNumber(f->ranks[i]));
		cJSON_AddItemToArray(pids, cJSON_CreateNumber(f->pids[i]));
	}
}

static void add_op(cJSON *o, const struct finding *f)
{
	add_hex(o, "comm", f->comm);
	add_text(o, "op", f->has_op ? op_kind_name(f->op) : NULL, true);
	if (f->has_op)
		add_u64(o, "seq", f->seq);
	else
		cJSON_AddNullToObject(o, "seq");
}

static void add_evidence(cJSON *o, const struct finding *f)
{
	cJSON *evidence = cJSON_AddObjectToObject(o, "evidence");

	for (int i = 0; i < f->n_evidence; i++) {
		const struct evidence *e = &f->evidence[i];
		const char *name = evidence_name(e->id);

		if (finding_evidence(f, e->id) != e)
			continue; /* a key twice is not valid to every reader: the first, more important one stays */
		if (evidence_is_text(e->id))
			add_text(evidence, name, e->text, false);
		else
			cJSON_AddNumberToObject(evidence, name, e->number);
	}
	if (f->has_op && f->peer >= 0 && !finding_evidence(f, EVIDENCE_PEER))
		cJSON_AddNumberToObject(evidence, evidence_name(EVIDENCE_PEER), f->peer);
}

static const char *job_of(const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

	if (f->job && *f->job)
		return f->job;
	if (p && p->job && *p->job)
		return p->job;
	for (p = m->procs; p; p = p->next)
		if (p->job && *p->job)
			return p->job;
	return NULL;
}

static cJSON *incident_object(const struct incident *i, const struct model *m)
{
	static const char *const phases[] = { "open", "update", "close" };
	const struct finding *f = &i->f;
	uint64_t after = i->open_ns > f->since_ns ? i->open_ns - f->since_ns : 0;
	cJSON *o = cJSON_CreateObject();

	add_text(o, "id", i->id, false);
	add_text(o, "phase", phases[i->phase], false);
	add_text(o, "kind", finding_kind_name(f->kind), false);
	add_text(o, "class", hang_class_name(f->class), true);
	add_text(o, "cause", cause_name(f->cause), true);
	add_text(o, "caused_by", i->caused_by, true);
	add_text(o, "job", job_of(f, m), true);
	add_text(o, "host", f->host ? f->host : m->host, true);
	add_numbers(o, f);
	add_op(o, f);
	add_u64(o, "since_ns", f->since_ns);
	add_u64(o, "t_ns", i->t_ns);
	cJSON_AddNumberToObject(o, "detected_after_s", round_to((double)after / 1e9, 1e-3));
	cJSON_AddNumberToObject(o, "confidence", round_to(f->confidence, 1e-3));
	cJSON_AddNumberToObject(o, "cost_s", round_to(i->cost_s, 1e-3));
	add_evidence(o, f);
	return o;
}

static int json_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct line_sink *s = (struct line_sink *)base;
	cJSON *o = incident_object(i, m);
	char *line = o ? cJSON_PrintUnformatted(o) : NULL;
	int err = -ENOMEM;

	cJSON_Delete(o);
	if (line) {
		size_t len = strlen(line);

		line[len] = '\n'; /* the terminating zero is not needed any more */
		err = write_whole(s->fd, line, len + 1, NULL);
	}
	free(line);
	return err;
}

const struct sink_class sink_json = {
	.name = "json",
	.help = "findings as JSON lines (schemas/incident.schema.json)",
	.suffix = ".jsonl",
	.open = json_open,
	.incident = json_incident,
	.close = line_sink_close,
};
