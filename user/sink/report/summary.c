/* SPDX-License-Identifier: Apache-2.0
 *
 * summary.c - the top of a report: what happened in three sentences (who does what; where and why; what to do), the
 * figures beside them, and the steps that come next.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "remedy.h"
#include "sink/autopsy_stacks.h"
#include "sink/incident_text.h"
#include "sink/report/report.h"
#include "sink/report/spans.h"

#define NEXT_ROOTS 4 /* findings whose remedy is listed */

struct counts {
	size_t n_ranks, n_hosts, n_jobs, roots[SEVERITY_MAX], n_consequences;
	uint64_t n_steps;
};

/* Of the rank with most; 0 where most ranks have no clock. */
static uint64_t steps_of(const struct report *r)
{
	uint64_t most = 0;
	size_t n = 0;

	for (const struct heat_row *row = r->heat.rows; row; row = row->hh.next) {
		most = row->n_steps > most ? row->n_steps : most;
		n += row->n >= HEAT_STEPS_MIN;
	}
	return 2 * n >= r->heat.n_rows ? most : 0;
}

static struct counts counts_take(const struct report *r, const struct model *m)
{
	struct counts c = { 0 };
	const char *job = NULL;

	for (const struct proc *p = m->procs; p; p = p->next) {
		if (p->is_child || (autopsy_rank(p) < 0 && !p->members))
			continue;
		c.n_ranks++;
		c.n_jobs += !job || strcmp(job, p->job->shown);
		job = p->job->shown;
	}
	c.n_ranks = r->heat.n_rows > c.n_ranks ? r->heat.n_rows : c.n_ranks;
	for (const struct node *n = model_next_node(m, NULL); n; n = model_next_node(m, n))
		c.n_hosts++;
	for (size_t i = 0; i < r->n_incidents; i++) {
		const struct kept_incident *k = &r->incidents[i];

		if (kept_is_root(k))
			c.roots[k->i.f.severity]++;
		else
			c.n_consequences++;
	}
	c.n_steps = steps_of(r);
	return c;
}

static double seconds_of(const struct report *r, const struct model *m)
{
	return m->now_ns > r->base_ns ? (m->now_ns - r->base_ns) * 1e-9 : 0;
}

static void sentence_put(cJSON *list, struct text *t)
{
	if (t->data && *t->data >= 'a' && *t->data <= 'z' && strncmp(t->data, "mlx", 3) != 0)
		*t->data -= 'a' - 'A';
	if (t->data && t->len && !strchr(".!?", t->data[t->len - 1]))
		text_add(t, ".");
	report_add(list, NULL, t->data ? t->data : "");
	free(t->data);
	*t = (struct text){ 0 };
}

/* --- a fault --- */

/* Which process it is, where nothing says what it does. */
static void process_say(struct text *t, const struct finding *f, const struct model *m)
{
	const struct gpu *g = incident_gpu(f, m);
	const char *host = f->host ? f->host : m->host;

	text_add(t, "It is ");
	if (f->n_ranks == 1 && f->pids[0])
		text_add(t, "pid %u ", f->pids[0]);
	if (g && f->n_ranks == 1)
		text_add(t, "with GPU %u ", g->device.index);
	text_add(t, "on host ");
	text_foreign(t, host ? host : "?", " ");
}

static void where_say(struct text *t, const struct kept_incident *k, const struct model *m)
{
	const struct finding *f = &k->i.f;
	const char *at = finding_text(f, EVIDENCE_PYTHON), *waits = finding_text(f, EVIDENCE_WAITS_FOR),
		   *cycle = finding_text(f, EVIDENCE_CYCLE), *cause = f->cause ? cause_help(f->cause) : "";

	at = at ? at : finding_text(f, EVIDENCE_NATIVE_FRAME);
	if (cycle) {
		text_foreign(t, cycle, "; ");
		return;
	}
	if (at) {
		text_add(t, "It is at ");
		text_foreign(t, at, " ");
	}
	if (waits) {
		text_add(t, at ? " and " : "It ");
		text_foreign(t, waits, " ");
	}
	if (!at && !waits && *cause && !(k->sentence && strstr(k->sentence, cause)))
		text_add(t, "The cause: %s", cause);
	else if (!at && !waits)
		process_say(t, f, m);
}

static void others_say(struct text *t, const struct counts *c)
{
	size_t more = c->roots[SEVERITY_CRITICAL] + c->roots[SEVERITY_WARNING] - 1;

	if (more)
		text_add(t, "; %zu other %s not caused by it", more, more == 1 ? "finding is" : "findings are");
	if (c->n_consequences)
		text_add(t, "%s%zu %s of others", more ? ", " : "; ", c->n_consequences,
			 c->n_consequences == 1 ? "finding is a consequence" : "findings are consequences");
}

static void fault_say(cJSON *said, const struct kept_incident *k, const struct model *m, const struct counts *c)
{
	struct text t = { 0 };
	char remedy[REMEDY_MAX];

	text_foreign(&t, k->sentence ? k->sentence : "", " ");
	sentence_put(said, &t);
	where_say(&t, k, m);
	others_say(&t, c);
	sentence_put(said, &t);
	finding_remedy(&k->i.f, remedy, sizeof(remedy));
	text_add(&t, "What to do: ");
	text_foreign(&t, remedy, " ");
	sentence_put(said, &t);
}

/* --- none --- */

/* "61,000" */
static void text_count(struct text *t, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);

	for (int i = 0; i < len; i++)
		text_add(t, "%s%c", i && (len - i) % 3 == 0 ? "," : "", digits[i]);
}

static bool counters_moved(const struct model *m)
{
	for (const struct comm *c = m->comms; c; c = c->next)
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
			if (mb->samples.moved)
				return true;
	return false;
}

static void health_say(cJSON *said, const struct report *r, const struct model *m, const struct counts *c)
{
	size_t infos = c->roots[SEVERITY_INFO];
	struct text t = { 0 };

	text_add(&t, "No fault was found in ");
	text_duration(&t, seconds_of(r, m));
	text_add(&t, " of ");
	text_count(&t, c->n_ranks);
	text_add(&t, " rank%s on ", c->n_ranks == 1 ? "" : "s");
	text_count(&t, c->n_hosts);
	text_add(&t, " host%s", c->n_hosts == 1 ? "" : "s");
	sentence_put(said, &t);
	if (c->n_steps || m->n_ops) {
		text_count(&t, c->n_steps ? c->n_steps : m->n_ops);
		text_add(&t,
			 c->n_steps ? " steps and " : " operations were called, in no order that repeats as steps do");
		if (c->n_steps)
			text_count(&t, m->n_ops);
		text_add(&t, c->n_steps ? " operations went on to the end" : "");
	} else {
		text_add(&t, counters_moved(m) ? "Their collectives went on while they were sampled"
					       : "Whether they went on is not known: no call and no counter moved");
	}
	sentence_put(said, &t);
	if (infos)
		text_add(&t, "%zu observation%s worth knowing %s below; no one has to act", infos,
			 infos == 1 ? "" : "s", infos == 1 ? "is" : "are");
	else
		text_add(&t, "There is nothing to do");
	sentence_put(said, &t);
}

static void add_figure(cJSON *list, const char *name, const char *value)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", name);
	report_add(o, "value", value);
	cJSON_AddItemToArray(list, o);
}

static void add_count(cJSON *list, const char *name, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	add_figure(list, name, text);
}

static void figures_add(cJSON *o, const struct report *r, const struct model *m, const struct counts *c)
{
	cJSON *list = cJSON_AddArrayToObject(o, "figures");
	struct text t = { 0 };

	add_count(list, c->n_ranks == 1 ? "rank" : "ranks", c->n_ranks);
	add_count(list, c->n_hosts == 1 ? "host" : "hosts", c->n_hosts);
	text_duration(&t, seconds_of(r, m));
	add_figure(list, "recorded", t.data ? t.data : "");
	free(t.data);
	if (c->n_steps)
		add_count(list, "steps", c->n_steps);
	add_count(list, "operations", m->n_ops);
	add_count(list, "critical", c->roots[SEVERITY_CRITICAL]);
	add_count(list, c->roots[SEVERITY_WARNING] == 1 ? "warning" : "warnings", c->roots[SEVERITY_WARNING]);
	add_count(list, "records lost", m->lost);
}

cJSON *report_story(const struct report *r, const struct model *m)
{
	const struct kept_incident *k = report_main(r);
	struct counts c = counts_take(r, m);
	cJSON *o = cJSON_CreateObject(), *said = cJSON_AddArrayToObject(o, "said");
	const char *severity = k ? severity_name(k->i.f.severity) : "ok";

	if (!k && !c.n_ranks)
		severity = "unknown";
	cJSON_AddStringToObject(o, "severity", severity);
	cJSON_AddBoolToObject(o, "over", k && k->closed);
	cJSON_AddStringToObject(o, "kind", k ? finding_kind_shown(&k->i.f) : "");
	if (k)
		fault_say(said, k, m, &c);
	else
		health_say(said, r, m, &c);
	figures_add(o, r, m, &c);
	return o;
}

/* --- what to do next --- */

static void next_put(cJSON *list, const char *text, const char *command)
{
	cJSON *o = cJSON_CreateObject();

	report_add(o, "text", text);
	if (command)
		report_add(o, "command", command);
	cJSON_AddItemToArray(list, o);
}

static void next_roots(cJSON *list, const struct report *r)
{
	int n = 0;

	for (int severity = SEVERITY_CRITICAL; severity >= SEVERITY_WARNING; severity--)
		for (size_t i = 0; i < r->n_incidents && n < NEXT_ROOTS; i++) {
			const struct kept_incident *k = &r->incidents[i];
			char remedy[REMEDY_MAX];

			if (!kept_is_root(k) || (int)k->i.f.severity != severity)
				continue;
			finding_remedy(&k->i.f, remedy, sizeof(remedy));
			next_put(list, remedy, NULL);
			n++;
		}
}

static bool stacks_known(const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next) {
		const struct task *t = main_thread(p);

		if (t && t->stack.ns)
			return true;
	}
	return false;
}

cJSON *report_next(const struct report *r, const struct model *m)
{
	const struct kept_incident *k = report_main(r);
	cJSON *list = cJSON_CreateArray();
	const struct comm *c = m->comms;

	next_roots(list, r);
	for (; c && c->n_seen >= c->nranks; c = c->next)
		;
	if (k && c)
		next_put(list,
			 "Ranks of other hosts are not in this recording. Sample all hosts of the job, then merge.",
			 "ranktrace autopsy --raw /shared/%h.rtr   # on each; then: ranktrace report /shared/*.rtr");
	if (k && !k->closed && !stacks_known(m))
		next_put(list, "No stack is in this recording: read them while the job still stands.",
			 "ranktrace ps --stacks");
	if (!m->n_ops && !k)
		next_put(list, "For steps and lateness the calls have to be probed for a while.",
			 "ranktrace record --all -d 60 -o run.rtr");
	if (m->n_ops)
		next_put(list, "Each call and wait of the same recording on a timeline (ui.perfetto.dev).",
			 "ranktrace replay FILE.rtr -o run.pftrace");
	next_put(list, "The same findings as text, or as JSON lines with all evidence.",
		 "ranktrace replay FILE.rtr; ranktrace replay --json FILE.rtr");
	return list;
}
