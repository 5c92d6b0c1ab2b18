/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - the incidents of a report: each as it was last reported, with the words that the terminal has for it, the
 * line of the JSON sink, and of a hang who waited for whom. Past INCIDENTS_KEPT the least severe go, and are counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "remedy.h"
#include "sink/incident_json.h"
#include "sink/incident_text.h"
#include "sink/report/graph.h"
#include "sink/report/report.h"
#include "sink/report/stack_tree.h"

static void kept_free(struct kept_incident *k)
{
	free(k->sentence);
	free(k->block);
	free(k->evidence);
	free(k->json);
	cJSON_Delete(k->graph);
	finding_drop(&k->i.f);
}

void report_incidents_free(struct report *r)
{
	for (size_t i = 0; i < r->n_incidents; i++)
		kept_free(&r->incidents[i]);
	free(r->incidents);
}

static struct kept_incident *kept_find(struct report *r, uint64_t number)
{
	for (size_t i = r->n_incidents; i--;)
		if (r->incidents[i].i.number == number)
			return &r->incidents[i];
	return NULL;
}

/* The place of the least severe, oldest one; NULL: all are worse than that. */
static struct kept_incident *place_of(struct report *r, enum severity than)
{
	struct kept_incident *least = NULL;

	for (size_t i = 0; i < r->n_incidents; i++)
		if (!least || r->incidents[i].i.f.severity < least->i.f.severity)
			least = &r->incidents[i];
	r->n_dropped++;
	if (!least || least->i.f.severity >= than)
		return NULL;
	kept_free(least);
	return least;
}

static struct kept_incident *kept_new(struct report *r, const struct incident *i)
{
	struct kept_incident *k;

	if (!r->incidents)
		r->incidents = calloc(INCIDENTS_KEPT, sizeof(*r->incidents));
	if (!r->incidents)
		return NULL;
	k = r->n_incidents < INCIDENTS_KEPT ? &r->incidents[r->n_incidents++] : place_of(r, i->f.severity);
	if (k)
		*k = (struct kept_incident){ 0 };
	return k;
}

static void text_set(char **to, struct text *t)
{
	if (!t->data)
		return;
	free(*to);
	*to = t->data;
}

static void words_set(struct kept_incident *k, const struct incident *i, const struct model *m)
{
	struct text sentence = { 0 }, block = { 0 }, evidence = { 0 };
	cJSON *o = incident_json(i, m);
	char *json = o ? cJSON_PrintUnformatted(o) : NULL;

	cJSON_Delete(o);
	if (json) {
		free(k->json);
		k->json = json;
	}
	incident_text_place(&sentence, i, m);
	incident_text_sentence(&sentence, i);
	text_set(&k->sentence, &sentence);
	if (i->phase == PHASE_CLOSE && k->block)
		return;
	incident_text_block(&block, i, m);
	text_set(&k->block, &block);
	incident_text_evidence(&evidence, &i->f, m);
	text_set(&k->evidence, &evidence);
}

static size_t graphs_kept(const struct report *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_incidents; i++)
		n += r->incidents[i].graph != NULL;
	return n;
}

static bool has_graph(const struct incident *i)
{
	return i->f.kind == FINDING_HANG && i->phase != PHASE_CLOSE && !*i->caused_by;
}

/* Of a hang what only now can be seen: it may be over when the page is written. */
static void hang_draw(struct report *r, struct kept_incident *k, const struct incident *i, const struct model *m)
{
	cJSON *stacks;

	if (!has_graph(i) || (!k->graph && graphs_kept(r) >= GRAPHS_KEPT))
		return;
	cJSON_Delete(k->graph);
	k->graph = graph_object(&i->f, m);
	stacks = stack_tree(m);
	if (stacks) {
		cJSON_Delete(r->stacks);
		r->stacks = stacks;
		r->stacks_ns = i->t_ns;
	}
}

int report_keep(struct report *r, const struct incident *i, const struct model *m)
{
	struct kept_incident *k = kept_find(r, i->number);

	if (!k)
		k = kept_new(r, i);
	if (!k)
		return r->incidents ? 0 : -ENOMEM;
	if (incident_keep(&k->i, i))
		return -ENOMEM;
	k->closed = i->phase == PHASE_CLOSE;
	words_set(k, i, m);
	hang_draw(r, k, i, m);
	return 0;
}

bool kept_is_root(const struct kept_incident *k)
{
	return !*k->i.caused_by || k->i.explains;
}

static bool is_worse(const struct kept_incident *a, const struct kept_incident *b)
{
	if (a->i.f.severity != b->i.f.severity)
		return a->i.f.severity > b->i.f.severity;
	if (a->closed != b->closed)
		return b->closed;
	return a->i.cost_s > b->i.cost_s;
}

const struct kept_incident *report_main(const struct report *r)
{
	const struct kept_incident *best = NULL;

	for (size_t i = 0; i < r->n_incidents; i++) {
		const struct kept_incident *k = &r->incidents[i];

		if (kept_is_root(k) && k->i.f.severity >= SEVERITY_WARNING && (!best || is_worse(k, best)))
			best = k;
	}
	return best;
}

static cJSON *kept_object(const struct report *r, const struct kept_incident *k)
{
	const struct incident *i = &k->i;
	cJSON *o = cJSON_CreateObject();
	char remedy[REMEDY_MAX];

	finding_remedy(&i->f, remedy, sizeof(remedy));
	cJSON_AddStringToObject(o, "shown", finding_kind_shown(&i->f));
	cJSON_AddNumberToObject(o, "since_s", report_seconds(r, i->f.since_ns));
	cJSON_AddNumberToObject(o, "open_s", report_seconds(r, i->open_ns));
	if (k->closed)
		cJSON_AddNumberToObject(o, "close_s", report_seconds(r, i->t_ns));
	cJSON_AddBoolToObject(o, "root", kept_is_root(k));
	report_add(o, "sentence", k->sentence);
	report_add(o, "do", remedy);
	report_add(o, "block", k->block);
	report_add(o, "evidence", k->evidence);
	cJSON_AddRawToObject(o, "json", k->json ? k->json : "null");
	if (k->graph)
		cJSON_AddItemToObject(o, "graph", cJSON_Duplicate(k->graph, true));
	return o;
}

cJSON *report_findings(const struct report *r)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < r->n_incidents; i++)
		cJSON_AddItemToArray(list, kept_object(r, &r->incidents[i]));
	return list;
}
