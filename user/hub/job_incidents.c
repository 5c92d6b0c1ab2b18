/* SPDX-License-Identifier: Apache-2.0
 *
 * job_incidents.c - see job_incidents.h. An incident has an entry here from its opening on, on every hub; `due` says
 * what of it is not in the log yet. Nothing is written twice that did not change.
 */
#include "hub/job_incidents.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/log.h"
#include "sink/incident_json.h"

#define ORPHAN_NS 15000000000ull /* an incident of the log that does not hold here: time to see that it does not */
#define SEC 1000000000ull

struct job_incident {
	struct incident last; /* as the pipeline said it; its id is the pipeline's own */
	uint64_t key;
	char id[FINDING_ID_MAX]; /* in the log */
	bool due, in_log;
	struct job_incident *next; /* in order of opening: causes are before consequences */
};

struct incident_sink {
	struct sink base;
	struct hub_job *job;
};

/* --- what an incident is about, in words that are the same on every hub --- */

static uint64_t proc_words(uint64_t h, const struct model *m, uint64_t proc)
{
	const struct proc *p = proc ? model_proc(m, proc) : NULL;

	return p ? hash_mix(hash_text(h, p->node->name), p->tgid) : hash_mix(h, 0);
}

static uint64_t node_words(uint64_t h, const struct model *m, uint32_t node)
{
	const struct node *n = node == SUBJECT_NO_NODE ? NULL : model_node(m, node);

	return hash_text(h, n ? n->name : "");
}

static uint64_t subject_words(uint64_t h, const struct subject *s, const struct model *m)
{
	const char *texts[] = { s->device, s->address, s->a, s->b };

	h = hash_mix(hash_mix(h, s->type), s->type == SUBJECT_RANK && !s->proc ? (uint64_t)s->rank : s->tid);
	h = proc_words(proc_words(proc_words(h, m, s->proc), m, s->procs[0]), m, s->procs[1]);
	if (s->type == SUBJECT_GPU || s->type == SUBJECT_PORT || s->type == SUBJECT_NODE)
		h = hash_mix(node_words(h, m, s->node), s->gpu ^ s->pci);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		h = hash_text(h, texts[i] ? texts[i] : "");
	return hash_mix(hash_mix(hash_mix(h, s->port), s->comm), s->parent);
}

/* A set of ranks may grow; who is in it first does not change while it does. */
static uint64_t key_of(const struct finding *f, const struct model *m)
{
	uint64_t h = hash_mix(hash_mix(0, f->kind), f->subject.type == SUBJECT_RANKS ? f->comm : 0);

	if (f->kind == FINDING_HANG && f->n_ranks)
		return hash_mix(proc_words(h, m, finding_proc(f, 0)), (uint64_t)f->ranks[0]);
	return subject_words(h, &f->subject, m);
}

/* Two that are about the same at the same time (two links of one port) are numbered. */
static uint64_t key_free(const struct hub_job *j, uint64_t key)
{
	for (const struct job_incident *o = j->incidents; o;)
		if (o->key == key) {
			key = hash_mix(key, 1);
			o = j->incidents;
		} else {
			o = o->next;
		}
	return key;
}

static void id_make(char to[FINDING_ID_MAX], const struct hub_job *j, uint64_t open_ns, uint64_t key)
{
	time_t open = (time_t)(open_ns / SEC);
	char when[24] = "0";
	struct tm utc;

	if (gmtime_r(&open, &utc))
		strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &utc);
	snprintf(to, FINDING_ID_MAX, "hub-%.40s-%s-%08" PRIx32, j->log.token, when, (uint32_t)(key ^ key >> 32));
}

/* --- from the pipeline --- */

static struct job_incident *incident_find(const struct hub_job *j, const char *id)
{
	for (struct job_incident *o = j->incidents; o; o = o->next)
		if (!strcmp(o->last.id, id))
			return o;
	return NULL;
}

uint64_t job_incident_key(const struct hub_job *j, const char *id)
{
	const struct job_incident *o = incident_find(j, id);

	return o ? o->key : 0;
}

static struct job_incident *incident_new(struct hub_job *j, const struct incident *i, const struct model *m)
{
	struct job_incident *o = calloc(1, sizeof(*o)), **end = &j->incidents;
	const struct logged *l;

	if (!o)
		return NULL;
	o->key = key_free(j, key_of(&i->f, m));
	l = j->taken ? incident_log_find(&j->log, o->key) : NULL;
	o->in_log = l != NULL; /* it was open when this hub took over, and is seen only now */
	if (l)
		memcpy(o->id, l->id, sizeof(o->id));
	else
		id_make(o->id, j, i->open_ns + m->realtime_offset_ns, o->key);
	while (*end)
		end = &(*end)->next;
	*end = o;
	return o;
}

static void incident_drop(struct hub_job *j, struct job_incident *o)
{
	struct job_incident **at = &j->incidents;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	finding_drop(&o->last.f);
	free(o);
}

/* What closes while the job is another hub's is not for us to write. */
static int sink_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct hub_job *j = ((struct incident_sink *)base)->job;
	struct job_incident *o = incident_find(j, i->id);

	if (j->taken && tally_incident(&j->findings, i))
		return -ENOMEM;
	o = o || i->phase == PHASE_CLOSE ? o : incident_new(j, i, m);
	if (!o)
		return i->phase == PHASE_CLOSE ? 0 : -ENOMEM;
	if (incident_keep(&o->last, i))
		return -ENOMEM;
	o->due = true;
	if (i->phase == PHASE_CLOSE && !j->taken)
		incident_drop(j, o);
	return 0;
}

static int sink_close(struct sink *base, const struct model *m)
{
	(void)m;
	free(base);
	return 0;
}

static const struct sink_class incident_sink_class = {
	.name = "hub",
	.help = "incidents of a job, to its log",
	.incident = sink_incident,
	.close = sink_close,
};

struct sink *job_incidents_sink(struct hub_job *j)
{
	struct incident_sink *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base.class = &incident_sink_class;
	s->job = j;
	return &s->base; /* lint: returned by the address of its first member */
}

void job_incidents_free(struct hub_job *j)
{
	while (j->incidents)
		incident_drop(j, j->incidents);
}

/* --- to the log --- */

void job_incidents_taken(struct hub_job *j)
{
	for (struct job_incident *o = j->incidents; o; o = o->next) {
		const struct logged *l = incident_log_find(&j->log, o->key);

		o->due = true;
		o->in_log = l != NULL;
		if (l)
			memcpy(o->id, l->id, sizeof(o->id));
	}
}

void job_incidents_lost(struct hub_job *j)
{
	struct job_incident *next;

	for (struct job_incident *o = j->incidents; o; o = next) {
		next = o->next;
		if (o->last.phase == PHASE_CLOSE)
			incident_drop(j, o);
	}
}

/* With the log's ids in the place of the pipeline's. */
static char *line_of(const struct hub_job *j, const struct job_incident *o)
{
	const struct job_incident *cause = *o->last.caused_by ? incident_find(j, o->last.caused_by) : NULL;
	struct incident i = o->last;

	memcpy(i.id, o->id, sizeof(i.id));
	memset(i.caused_by, 0, sizeof(i.caused_by));
	if (cause)
		memcpy(i.caused_by, cause->id, sizeof(i.caused_by));
	if (!o->in_log) /* also one that has closed meanwhile: it is closed next */
		i.phase = PHASE_OPEN;
	if (i.phase == PHASE_OPEN && o->in_log)
		i.phase = PHASE_UPDATE;
	return json_incident_text(&i, pipeline_model(j->pipeline));
}

static int incident_write(struct hub_job *j, struct job_incident *o)
{
	bool closes = o->last.phase == PHASE_CLOSE && o->in_log;
	char *line = line_of(j, o);
	int err = line ? incident_log_append(&j->log, j->bus, o->key, o->id, closes, line) : -ENOMEM;

	free(line);
	if (err)
		return err;
	if (!o->in_log)
		freezes_note(&j->freezes, &o->last, o->id, pipeline_model(j->pipeline), j->mono_ns);
	o->due = o->last.phase == PHASE_CLOSE;
	o->in_log = true;
	if (closes)
		incident_drop(j, o);
	return 0;
}

static bool holds_here(const struct hub_job *j, const struct logged *l)
{
	for (const struct job_incident *o = j->incidents; o; o = o->next)
		if (o->key == l->key)
			return true;
	return false;
}

/* It was open in the log when this hub took over, and does not hold: it ended in between. */
static int orphans_close(struct hub_job *j)
{
	for (struct logged *l = j->log.open, *next; l; l = next) {
		int err;

		next = l->next;
		if (holds_here(j, l))
			continue;
		err = incident_log_close(&j->log, j->bus, l);
		if (err)
			return err;
	}
	return 0;
}

int job_incidents_write(struct hub_job *j)
{
	struct job_incident *next;
	int err = 0;

	for (struct job_incident *o = j->incidents; o && !err; o = next) {
		next = o->next;
		if (o->due && !o->in_log)
			err = incident_write(j, o);
		if (o->due && o->in_log && !err)
			err = incident_write(j, o);
	}
	if (!err && j->tick_ns > j->taken_ns + ORPHAN_NS)
		err = orphans_close(j);
	return err;
}
