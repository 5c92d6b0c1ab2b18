/* SPDX-License-Identifier: Apache-2.0
 *
 * write_findings.c - what is open, of which kind, how bad, whom it names; and how many there were.
 */
#include "metrics/write.h"

#include <stdio.h>
#include <string.h>

#include "sink/incident_text.h"

#define RANKS_NAMED 4

struct finding_labels {
	char rank[48], gpu[16];
	const char *job, *host, *kind, *class, *cause, *severity, *root;
};

/* "5", "3,5", "0,1,2,3 and 4 more". */
static void ranks_name(char *to, size_t size, const struct finding *f)
{
	size_t at = 0;
	int n = f->n_ranks < RANKS_NAMED ? f->n_ranks : RANKS_NAMED;

	*to = 0;
	for (int i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(to + at, size - at, "%s%d", i ? "," : "", f->ranks[i]);
	if (f->n_ranks_all > n && n && at < size)
		snprintf(to + at, size - at, " and %d more", f->n_ranks_all - n);
}

static struct finding_labels labels_of(const struct incident *i, const struct model *m)
{
	const struct finding *f = &i->f;
	const struct gpu *g = incident_gpu(f, m);
	const char *job = incident_job(f, m);
	struct finding_labels l = { .job = job ? job : "",
				    .host = f->host ? f->host : m->host,
				    .kind = finding_kind_name(f->kind),
				    .class = hang_class_name(f->class),
				    .cause = cause_name(f->cause),
				    .severity = severity_name(f->severity),
				    .root = *i->caused_by ? "no" : "yes" };

	ranks_name(l.rank, sizeof(l.rank), f);
	if (g)
		snprintf(l.gpu, sizeof(l.gpu), "%u", g->device.index);
	return l;
}

static bool labels_same(const struct finding_labels *a, const struct finding_labels *b)
{
	return !strcmp(a->job, b->job) && a->kind == b->kind && a->class == b->class && a->cause == b->cause &&
	       a->severity == b->severity && !strcmp(a->host, b->host) && a->root == b->root &&
	       !strcmp(a->rank, b->rank) && !strcmp(a->gpu, b->gpu);
}

/* Of several with the same labels the first that opened: it is the oldest. */
void write_finding_ages(struct page *p, enum metric_id id, const struct incidents *open, const struct model *m)
{
	const struct incident *i = incidents_next_open(open, NULL);
	struct finding_labels all[WRITE_INCIDENTS_MAX];
	size_t n = 0;

	for (; i && n < WRITE_INCIDENTS_MAX; i = incidents_next_open(open, i)) {
		struct finding_labels *l = &all[n];
		uint64_t since_ns = i->f.since_ns, now_ns = m->now_ns;
		size_t k = 0;

		*l = labels_of(i, m);
		while (k < n && !labels_same(&all[k], l))
			k++;
		if (k < n)
			continue;
		n++;
		page_put(p, id, now_ns > since_ns ? (double)(now_ns - since_ns) * 1e-9 : 0, l->job, l->kind, l->class,
			 l->cause, l->severity, l->rank, l->gpu, l->root, l->host);
	}
	for (; i; i = incidents_next_open(open, i))
		p->left_out++;
}

void finding_counts_add(struct finding_counts *to, const struct incidents *open, const struct tally_findings *t)
{
	const struct incident *i = open ? incidents_next_open(open, NULL) : NULL;

	for (; i; i = incidents_next_open(open, i))
		to->open[i->f.kind][i->f.severity]++;
	for (enum finding_kind k = 0; k < FINDING_KIND_MAX; k++)
		for (enum severity s = 0; s < SEVERITY_MAX; s++)
			to->all[k][s] += t->n[k][s];
}

/* Kinds that there were: a series that is there stays, at 0. */
void write_finding_counts(struct page *p, enum metric_id open, enum metric_id all, const struct finding_counts *c)
{
	for (enum finding_kind k = 0; k < FINDING_KIND_MAX; k++)
		for (enum severity s = 0; s < SEVERITY_MAX; s++) {
			if (!c->all[k][s])
				continue;
			page_put(p, open, (double)c->open[k][s], finding_kind_name(k), severity_name(s));
			page_put(p, all, (double)c->all[k][s], finding_kind_name(k), severity_name(s));
		}
}

void write_findings(struct page *p, const struct incidents *open, const struct tally *t, const struct model *m)
{
	struct finding_counts counts = { 0 };

	finding_counts_add(&counts, open, &t->findings);
	write_finding_counts(p, METRIC_FINDINGS_OPEN, METRIC_FINDINGS, &counts);
	write_finding_ages(p, METRIC_FINDING_AGE, open, m);
}
