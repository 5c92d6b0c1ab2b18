/* SPDX-License-Identifier: Apache-2.0
 *
 * report_finding.c - what the node found, as a part of the message: by names, as incident.schema.json has them, so that
 * a hub that is older or newer passes over what it does not know, and no more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/report_part.h"
#include "sink/incident_text.h"

static char *text_part(const char *text)
{
	return text && strnlen(text, REPORT_TEXT_MAX) < REPORT_TEXT_MAX ? report_text(text) : NULL;
}

static void place_put(Cluster__Subject *to, const struct subject *s)
{
	to->has_rank = s->rank >= 0;
	to->rank = s->rank;
	to->has_pid = s->proc != 0;
	to->pid = (uint32_t)s->proc;
	to->has_tid = s->tid != 0;
	to->tid = s->tid;
	to->has_gpu = s->type == SUBJECT_GPU && s->gpu != SUBJECT_NO_GPU;
	to->gpu = s->gpu;
	to->has_pci = s->type == SUBJECT_GPU && s->pci != GPU_PCI_NONE;
	to->pci = s->pci;
	to->has_port = s->port != 0;
	to->port = s->port;
	to->has_comm = s->comm != 0;
	to->comm = s->comm;
	to->has_parent = s->parent != 0;
	to->parent = s->parent;
}

static void ends_put(struct report_block *b, Cluster__Subject *to, const struct subject *s)
{
	if (!s->procs[0] && !s->procs[1])
		return;
	to->pids = report_alloc(b, 2 * sizeof(*to->pids));
	to->ranks = to->pids ? report_alloc(b, 2 * sizeof(*to->ranks)) : NULL;
	for (int i = 0; to->ranks && i < 2; i++) {
		to->pids[to->n_pids++] = (uint32_t)s->procs[i];
		to->ranks[to->n_ranks++] = s->ranks[i];
	}
}

static Cluster__Subject *subject_part(struct report_block *b, const struct subject *s)
{
	static const Cluster__Subject none = CLUSTER__SUBJECT__INIT;
	Cluster__Subject *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	to->type = (char *)subject_type_name(s->type);
	to->device = text_part(s->device);
	to->address = text_part(s->address);
	to->netdev = text_part(s->netdev);
	to->a = text_part(s->a);
	to->b = text_part(s->b);
	place_put(to, s);
	ends_put(b, to, s);
	return to;
}

static Cluster__Evidence *evidence_part(struct report_block *b, const struct evidence *e)
{
	static const Cluster__Evidence none = CLUSTER__EVIDENCE__INIT;
	Cluster__Evidence *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	to->name = (char *)evidence_name(e->id);
	to->has_number = !evidence_is_text(e->id);
	if (to->has_number)
		to->number = e->number;
	else
		to->text = text_part(e->text);
	return to;
}

static void evidence_put(struct report_block *b, Cluster__Finding *to, const struct finding *f)
{
	to->evidence = report_list(b, f->n_evidence);
	for (int i = 0; to->evidence && i < f->n_evidence; i++) {
		Cluster__Evidence *e = evidence_part(b, &f->evidence[i]);

		if (e && (e->has_number || e->text))
			to->evidence[to->n_evidence++] = e;
	}
}

static void operation_put(Cluster__Finding *to, const struct finding *f)
{
	to->has_comm = f->comm != 0;
	to->comm = f->comm;
	to->has_seq = f->has_op;
	to->seq = f->seq;
	to->op = f->has_op ? (char *)op_kind_name(f->op) : NULL;
	to->has_peer = f->has_op && f->peer >= 0;
	to->peer = f->peer;
}

Cluster__Finding *report_finding(struct report_block *b, const struct finding *f, uint64_t now_ns)
{
	static const Cluster__Finding none = CLUSTER__FINDING__INIT;
	Cluster__Finding *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	to->kind = (char *)finding_kind_name(f->kind);
	to->hang_class = report_text(hang_class_name(f->class));
	to->cause = report_text(cause_name(f->cause));
	to->severity = (char *)severity_name(f->severity);
	to->n_ranks = to->n_pids = f->n_ranks;
	to->ranks = (int32_t *)f->ranks;
	to->pids = (uint32_t *)f->pids;
	to->has_n_ranks_all = f->n_ranks_all > f->n_ranks;
	to->n_ranks_all = (uint32_t)f->n_ranks_all;
	to->has_since_age_ns = to->has_confidence_percent = 1;
	to->since_age_ns = report_age(now_ns, f->since_ns);
	to->confidence_percent = (uint32_t)(f->confidence * 100 + 0.5);
	operation_put(to, f);
	to->subject = subject_part(b, &f->subject);
	evidence_put(b, to, f);
	return to;
}

void report_summary(const struct incident *i, char *to, size_t size)
{
	struct text t = { 0 };

	incident_text_sentence(&t, i);
	snprintf(to, size, "%s", t.data ? t.data : "");
	free(t.data);
}
