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
#include <time.h>

#include <cjson/cJSON.h>

#include "base/hash.h"
#include "remedy.h"
#include "sink/incident_json.h"
#include "sink/incident_text.h"
#include "sink/line_sink.h"
#include "sink/sink_io.h"

#define SCHEMA_VERSION 1 /* raised when a field changes its meaning; new ones do not */

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
	cJSON_AddNumberToObject(o, "n_ranks", f->n_ranks_all);
}

/* NULL: of a session with one host that of the session. */
static const char *host_of(const struct subject *s, const struct model *m)
{
	const struct node *n = m->merged ? model_node(m, s->node) : NULL;

	return n ? n->name : s->node == SUBJECT_NO_NODE && m->merged ? NULL : m->host;
}

static void add_number_if(cJSON *o, const char *name, double v, bool known)
{
	if (known)
		cJSON_AddNumberToObject(o, name, v);
}

static void add_text_if(cJSON *o, const char *name, const char *text)
{
	if (text && *text)
		add_text(o, name, text, false);
}

static void add_process(cJSON *o, const struct subject *s, const struct model *m)
{
	add_text_if(o, "host", host_of(s, m));
	add_number_if(o, "rank", s->rank, s->rank >= 0);
	add_number_if(o, "pid", (uint32_t)s->proc, s->proc);
	add_number_if(o, "tid", s->tid, s->tid);
}

static void add_gpu(cJSON *o, const struct subject *s, const struct model *m)
{
	char text[24];

	add_text_if(o, "host", host_of(s, m));
	add_number_if(o, "gpu", s->gpu, s->gpu != SUBJECT_NO_GPU);
	if (s->pci == GPU_PCI_NONE)
		return;
	snprintf(text, sizeof(text), "%04x:%02x:%02x", (unsigned int)(s->pci >> 16), (unsigned int)(s->pci >> 8 & 0xff),
		 (unsigned int)(s->pci & 0xff));
	add_text(o, "pci", text, false);
}

static void add_port(cJSON *o, const struct subject *s, const struct model *m)
{
	add_text_if(o, "host", s->address ? NULL : host_of(s, m));
	add_text_if(o, "device", s->device);
	add_number_if(o, "port", s->port, s->port);
	add_text_if(o, "address", s->address);
	add_text_if(o, "netdev", s->netdev);
	add_number_if(o, "rank", s->rank, s->rank >= 0);
}

/* All ways: no ends. */
static void add_path(cJSON *o, const struct subject *s)
{
	const char *const ends[] = { s->a, s->b };
	const bool of_ranks = s->procs[0] || s->procs[1];
	cJSON *list = of_ranks || s->a ? cJSON_AddArrayToObject(o, of_ranks ? "ranks" : "addresses") : NULL;

	for (int i = 0; list && i < 2; i++)
		cJSON_AddItemToArray(list, of_ranks ? cJSON_CreateNumber(s->ranks[i]) : cJSON_CreateString(ends[i]));
}

static void add_subject(cJSON *line, const struct subject *s, const struct model *m)
{
	cJSON *o = cJSON_AddObjectToObject(line, "subject");

	add_text(o, "type", subject_type_name(s->type), true);
	switch (s->type) {
	case SUBJECT_RANK:
	case SUBJECT_PROCESS:
	case SUBJECT_THREAD: add_process(o, s, m); break;
	case SUBJECT_GPU: add_gpu(o, s, m); break;
	case SUBJECT_PORT: add_port(o, s, m); break;
	case SUBJECT_PATH: add_path(o, s); break;
	case SUBJECT_COMMUNICATOR:
		add_hex(o, "comm", s->comm);
		if (s->parent)
			add_hex(o, "parent", s->parent);
		break;
	case SUBJECT_JOB: add_text_if(o, "job", s->job); break;
	case SUBJECT_NODE: add_text_if(o, "host", host_of(s, m)); break;
	default: break;
	}
}

static void add_op(cJSON *o, const struct finding *f, const struct model *m)
{
	uint64_t bytes = incident_op_bytes(f, m);
	int64_t seq;

	add_hex(o, "comm", f->comm);
	add_text_if(o, "parallelism", incident_parallelism(f, m));
	add_text_if(o, "process_group", incident_process_group(f, m, &seq));
	if (seq >= 0)
		add_u64(o, "process_group_seq", seq);
	add_text(o, "op", f->has_op ? op_kind_name(f->op) : NULL, true);
	if (f->has_op)
		add_u64(o, "seq", f->seq);
	else
		cJSON_AddNullToObject(o, "seq");
	if (bytes)
		add_u64(o, "bytes", bytes);
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

/* The first `len` bytes of a list's text; of ranks "?" is null. */
static cJSON *list_item(enum evidence_type type, const char *text, size_t len)
{
	bool is_number = type == EVIDENCE_TYPE_RANKS || type == EVIDENCE_TYPE_PIDS;
	char *one = is_number ? NULL : strndup(text, len), *clean = one ? utf8_dup(one) : NULL;
	cJSON *item = clean ? cJSON_CreateString(clean) : NULL;

	free(one);
	free(clean);
	if (is_number)
		item = *text == '?' ? cJSON_CreateNull() : cJSON_CreateNumber((double)strtol(text, NULL, 10));
	return item;
}

/* Evidence that holds several values in one text, once more as arrays. */
static void add_lists(cJSON *o, const struct finding *f)
{
	cJSON *lists = cJSON_AddObjectToObject(o, "lists"), *list;

	for (int i = 0; i < f->n_evidence; i++) {
		const struct evidence *e = &f->evidence[i];
		enum evidence_type type = evidence_type(e->id);
		const char *at, *between = type == EVIDENCE_TYPE_LINES ? "\n" : ",";

		if (!evidence_is_list(e->id) || finding_evidence(f, e->id) != e)
			continue;
		list = cJSON_AddArrayToObject(lists, evidence_name(e->id));
		for (at = e->text; *at; at += strspn(at, between)) {
			cJSON_AddItemToArray(list, list_item(type, at, strcspn(at, between)));
			at += strcspn(at, between);
		}
	}
}

/* Where the culprit lives; of several the first. Only what is known. */
static void add_place(cJSON *o, const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;
	const struct gpu *g = incident_gpu(f, m);
	const struct node *n = p ? p->node : model_node(m, 0);
	uint64_t step;

	add_text_if(o, "boot_id", p || !m->merged ? n->boot_id : NULL);
	add_text_if(o, "gpu_uuid", g ? g->uuid : NULL);
	if (!p)
		return;
	add_text_if(o, "container", p->container);
	add_text_if(o, "pod", *p->pod_name ? p->pod_name : p->pod);
	add_text_if(o, "pod_uid", p->pod);
	add_text_if(o, "namespace", p->namespace);
	add_text_if(o, "slurm_job", p->slurm_job);
	add_text_if(o, "slurm_step", p->slurm_step);
	if (rank_step(p, f->ranks[0], &step))
		add_u64(o, "step", step);
}

void json_time(char to[48], uint64_t ns, const struct model *m)
{
	uint64_t real_ns = ns + m->realtime_offset_ns;
	time_t sec = (time_t)(real_ns / 1000000000u);
	struct tm tm;
	size_t n = gmtime_r(&sec, &tm) ? strftime(to, 24, "%Y-%m-%dT%H:%M:%S", &tm) : 0;

	to[n] = '\0';
	if (n)
		snprintf(to + n, 48 - n, ".%03uZ", (unsigned int)(real_ns / 1000000u % 1000u));
}

static void add_time(cJSON *o, const char *name, uint64_t ns, const struct model *m)
{
	char text[48];

	json_time(text, ns, m);
	add_text(o, name, text, true);
}

static void add_summary(cJSON *o, const struct incident *i)
{
	struct text t = { 0 };

	incident_text_sentence(&t, i);
	add_text(o, "summary", t.data ? t.data : "", false);
	free(t.data);
}

/* The same fault again, in this session or another one, has the same: of job, kind, class, subject and call site. */
static void add_fingerprint(cJSON *o, const struct finding *f, const struct model *m)
{
	const struct subject *s = &f->subject;
	const char *texts[] = { incident_job(f, m),
				finding_kind_name(f->kind),
				hang_class_name(f->class),
				s->device,
				s->address,
				s->a,
				s->b,
				finding_text(f, EVIDENCE_PYTHON) };
	uint64_t h = 0;

	if (!texts[7])
		texts[7] = finding_text(f, EVIDENCE_NATIVE_FRAME);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		h = hash_text(h, texts[i] ? texts[i] : "");
	for (int i = 0; i < f->n_ranks; i++)
		h = hash_mix(h, (uint64_t)(int64_t)f->ranks[i]);
	h = hash_mix(hash_mix(h, s->type), s->type == SUBJECT_GPU ? s->gpu : s->port);
	add_hex(o, "fingerprint", h ? h : 1);
}

cJSON *incident_json(const struct incident *i, const struct model *m)
{
	static const char *const phases[] = { "open", "update", "close" };
	const struct finding *f = &i->f;
	uint64_t after = i->open_ns > f->since_ns ? i->open_ns - f->since_ns : 0;
	cJSON *o = cJSON_CreateObject();
	char remedy[REMEDY_MAX];

	finding_remedy(f, remedy, sizeof(remedy));
	add_text(o, "id", i->id, false);
	add_text(o, "phase", phases[i->phase], false);
	cJSON_AddNumberToObject(o, "schema_version", SCHEMA_VERSION);
	add_time(o, "time", i->t_ns, m);
	add_time(o, "since", f->since_ns, m);
	add_summary(o, i);
	add_text(o, "remedy", remedy, false);
	add_fingerprint(o, f, m);
	add_text(o, "kind", finding_kind_name(f->kind), false);
	add_text(o, "severity", severity_name(f->severity), false);
	add_text(o, "class", hang_class_name(f->class), true);
	add_text(o, "cause", cause_name(f->cause), true);
	add_text(o, "caused_by", i->caused_by, true);
	if (i->explains)
		cJSON_AddBoolToObject(o, "explains", true);
	add_text(o, "job", incident_job(f, m), true);
	add_text(o, "host", f->host ? f->host : m->host, true);
	add_place(o, f, m);
	add_subject(o, &f->subject, m);
	add_numbers(o, f);
	add_op(o, f, m);
	add_u64(o, "since_ns", f->since_ns);
	add_u64(o, "t_ns", i->t_ns);
	cJSON_AddNumberToObject(o, "detected_after_s", round_to((double)after / 1e9, 1e-3));
	cJSON_AddNumberToObject(o, "confidence", round_to(f->confidence, 1e-3));
	cJSON_AddNumberToObject(o, "cost_s", round_to(i->cost_s, 1e-3));
	add_evidence(o, f);
	add_lists(o, f);
	return o;
}

char *json_incident_text(const struct incident *i, const struct model *m)
{
	cJSON *o = incident_json(i, m);
	char *line = o ? cJSON_PrintUnformatted(o) : NULL;

	cJSON_Delete(o);
	return line;
}

static int json_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct line_sink *s = (struct line_sink *)base;
	char *line = json_incident_text(i, m);
	int err = -ENOMEM;

	if (line) {
		size_t len = strlen(line);

		line[len] = '\n'; /* the terminating zero is not needed any more */
		err = lines_out_put(&s->out, line, len + 1);
	}
	free(line);
	return err;
}

const struct sink_class sink_json = {
	.name = "json",
	.help = "findings as JSON lines (schemas/incident.schema.json)",
	.suffix = ".jsonl",
	.lines = true,
	.open = json_open,
	.incident = json_incident,
	.flush = line_sink_flush,
	.close = line_sink_close,
};
