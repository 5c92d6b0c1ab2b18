/* SPDX-License-Identifier: Apache-2.0
 *
 * node_findings.c - see node_findings.h. What a node says of waiting is taken only where it rests on calls, which no
 * report has, and where the hub says nothing of it. What begins on several hosts at once is one event: the later ones
 * are consequences of the first.
 */
#include "hub/node_findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "detect/network/link_place.h"

#define FORGET_NS 600000000000ull  /* a host that is silent for so long */
#define TOGETHER_NS 30000000000ull /* that begin so close to each other are one event */
#define OVER_MAX 1024              /* so many that are over wait for the next tick; of a flood the others are lost */

struct held {
	uint32_t host;
	uint64_t heard_ns; /* its report was made then */
	uint64_t alike;    /* equal for findings that say the same of different hosts */
	struct finding f;
	bool judged;       /* the detectors had it */
	bool over;         /* its host does not say it any more; it waits for the detectors */
	struct held *next; /* in order of appearance, by host */
};

static void held_free(struct held *t)
{
	finding_drop(&t->f);
	free(t);
}

void node_findings_free(struct node_findings *n)
{
	struct held *t;

	while ((t = n->all)) {
		n->all = t->next;
		held_free(t);
	}
}

/* --- names back to numbers; one past the last: not known --- */

static int number_of(const char *name, int n, const char *(*name_of)(int number))
{
	int i = 0;

	while (name && i < n && strcmp(name_of(i), name))
		i++;
	return name ? i : n;
}

static const char *kind_named(int number)
{
	return finding_kind_name((enum finding_kind)number);
}

static const char *class_named(int number)
{
	return hang_class_name((enum hang_class)number);
}

static const char *cause_named(int number)
{
	return cause_name((enum finding_cause)number);
}

static const char *op_named(int number)
{
	return op_kind_name((enum op_kind)number);
}

static const char *subject_named(int number)
{
	return subject_type_name((enum subject_type)number);
}

static const char *evidence_named(int number)
{
	return evidence_name((enum evidence_id)number);
}

/* --- which --- */

/* Of the host, not of waiting; or a call that differs from another's: causes. That threads are blocked in the kernel,
 * and on which storage, the hub's own detectors say (blocked_records.c). */
static bool is_cause(enum finding_kind kind)
{
	switch (kind) {
	case FINDING_CPU_STARVED:
	case FINDING_XID:
	case FINDING_GPU_HEALTH:
	case FINDING_LINK:
	case FINDING_MISMATCH: return true;
	default: return false;
	}
}

static bool rests_on_calls(const struct finding *f)
{
	if (f->kind == FINDING_STRAGGLER)
		return true;
	return f->kind == FINDING_HANG &&
	       (f->class == HANG_DEADLOCK || f->class == HANG_P2P_UNMATCHED || f->class == HANG_INIT);
}

static const Cluster__Process *process_of(const Cluster__NodeReport *r, uint32_t pid)
{
	for (size_t i = 0; i < r->n_processes; i++)
		if (r->processes[i]->pid == pid)
			return r->processes[i];
	return NULL;
}

static bool is_process_of(const Cluster__Process *p, const char *job)
{
	return !strcmp(p->job ? p->job : "", job);
}

static bool has_process_of(const Cluster__NodeReport *r, const char *job)
{
	for (size_t i = 0; i < r->n_processes; i++)
		if (is_process_of(r->processes[i], job))
			return true;
	return false;
}

/* What names no process, or one that is not listed, as a data loader, may be any job's of that host. */
static bool is_of_job(const Cluster__NodeReport *r, const Cluster__Finding *f, const char *job)
{
	bool any = false;

	for (size_t i = 0; i < f->n_pids; i++) {
		const Cluster__Process *p = process_of(r, f->pids[i]);

		if (p && is_process_of(p, job))
			return true;
		any |= p != NULL;
	}
	return !any && has_process_of(r, job);
}

/* --- in --- */

struct reading {
	struct node_findings *n;
	const struct host *host;
	const Cluster__NodeReport *r;
	int err;
};

static const char *text_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static uint64_t key_of(const struct host *h, const char *id)
{
	uint64_t key = hash_text(hash_mix(47, h->number), id);

	return key ? key : 1;
}

static struct subject subject_read(const struct reading *rd, const Cluster__Finding *f)
{
	struct subject s = subject_node(rd->host->number);
	const Cluster__Subject *from = f->subject;
	int type = from ? number_of(from->type, SUBJECT_TYPE_MAX, subject_named) : SUBJECT_TYPE_MAX;

	if (type == SUBJECT_TYPE_MAX || type == SUBJECT_NONE)
		return s;
	s.type = (enum subject_type)type;
	s.rank = from->rank;
	s.proc = from->pid ? proc_key(rd->host->number, from->pid) : 0;
	s.tid = from->tid;
	s.set = s.type == SUBJECT_RANKS ? key_of(rd->host, f->id) : 0;
	s.gpu = from->has_gpu ? from->gpu : SUBJECT_NO_GPU;
	s.pci = from->has_pci ? from->pci : GPU_PCI_NONE;
	s.device = text_or_null(from->device);
	s.address = text_or_null(from->address);
	s.netdev = text_or_null(from->netdev);
	s.port = from->port;
	s.a = text_or_null(from->a);
	s.b = text_or_null(from->b);
	s.comm = from->comm;
	s.parent = from->parent;
	for (size_t i = 0; i < from->n_pids; i++) {
		s.procs[i] = from->pids[i] ? proc_key(rd->host->number, from->pids[i]) : 0;
		s.ranks[i] = from->ranks[i];
	}
	if (s.type == SUBJECT_JOB)
		s.job = s.job_name = "";
	return s;
}

static void evidence_read(const Cluster__Finding *from, struct finding *f)
{
	for (size_t i = 0; i < from->n_evidence; i++) {
		const Cluster__Evidence *e = from->evidence[i];
		int id = number_of(e->name, EVIDENCE_ID_MAX, evidence_named);

		if (id == EVIDENCE_ID_MAX)
			continue;
		if (e->text && evidence_is_text((enum evidence_id)id))
			finding_note_text(f, (enum evidence_id)id, e->text);
		else if (e->has_number && !evidence_is_text((enum evidence_id)id))
			finding_note(f, (enum evidence_id)id, e->number);
	}
}

static void operation_read(const Cluster__Finding *from, struct finding *f)
{
	int op = number_of(from->op, OP_KIND_MAX, op_named);

	f->comm = from->comm;
	f->has_op = from->has_seq && op != OP_KIND_MAX;
	f->op = f->has_op ? (enum op_kind)op : 0;
	f->seq = from->seq;
	f->peer = from->peer;
}

/* False: of a kind, class or cause that this hub does not know. */
static bool names_read(const Cluster__Finding *from, struct finding *f)
{
	int kind = number_of(from->kind, FINDING_KIND_MAX, kind_named);
	int class = number_of(from->hang_class ? from->hang_class : "", HANG_CLASS_MAX, class_named);
	int cause = number_of(from->cause ? from->cause : "", CAUSE_MAX, cause_named);

	if (kind == FINDING_KIND_MAX || class == HANG_CLASS_MAX || cause == CAUSE_MAX)
		return false;
	f->kind = (enum finding_kind)kind;
	f->class = (enum hang_class) class;
	f->cause = (enum finding_cause)cause;
	return true;
}

static void ranks_read(const struct reading *rd, const Cluster__Finding *from, struct finding *f)
{
	for (size_t i = 0; i < from->n_ranks; i++)
		finding_add_rank(f, from->ranks[i], from->pids[i] ? proc_key(rd->host->number, from->pids[i]) : 0);
	if (from->has_n_ranks_all && (int)from->n_ranks_all > f->n_ranks)
		f->n_ranks_all = (int)from->n_ranks_all;
	f->node = rd->host->number;
}

/* The same mismatch is seen by every node of its communicator. */
static uint64_t alike_of(const struct finding *f)
{
	uint64_t h = hash_mix(hash_mix(hash_mix(0, f->kind), f->class), f->cause);

	if (f->kind == FINDING_MISMATCH || f->kind == FINDING_HANG)
		h = hash_mix(hash_mix(h, f->comm), f->seq);
	if (f->kind == FINDING_XID)
		h = hash_mix(h, (uint64_t)finding_number(f, EVIDENCE_XID));
	return h;
}

static struct held *held_new(const struct reading *rd, const struct finding *f)
{
	struct held *t = calloc(1, sizeof(*t));

	if (!t || finding_keep(&t->f, f)) {
		free(t);
		return NULL;
	}
	t->host = rd->host->number;
	t->heard_ns = rd->host->at_ns;
	t->alike = alike_of(f);
	return t;
}

static struct held *held_read(struct reading *rd, const Cluster__Finding *from)
{
	struct finding f = { .peer = -1, .node = rd->host->number };
	struct held *t;

	if (!names_read(from, &f) || (!is_cause(f.kind) && !rests_on_calls(&f)))
		return NULL;
	f.key = key_of(rd->host, from->id);
	f.caused_by_key = from->caused_by ? key_of(rd->host, from->caused_by) : 0;
	f.since_ns = host_time(rd->host, from->since_age_ns < rd->r->now_ns ? rd->r->now_ns - from->since_age_ns : 1);
	f.confidence = from->confidence_percent / 100.0;
	operation_read(from, &f);
	ranks_read(rd, from, &f);
	f.subject = subject_read(rd, from);
	evidence_read(from, &f);
	t = held_new(rd, &f);
	rd->err = t ? rd->err : -ENOMEM;
	return t;
}

static bool is_in(const struct reading *rd, const struct held *t)
{
	for (size_t i = 0; i < rd->r->n_findings; i++)
		if (key_of(rd->host, rd->r->findings[i]->id) == t->f.key)
			return true;
	return false;
}

/* Several reports of a host may come between two ticks: what only the first one holds is judged once all the same. */
static bool stays(const struct reading *rd, struct held *t)
{
	if (t->judged || is_in(rd, t)) {
		rd->n->n_over -= t->over;
		return false;
	}
	if (!t->over && rd->n->n_over < OVER_MAX) {
		t->over = true;
		rd->n->n_over++;
	}
	return t->over;
}

static struct held **host_clear(const struct reading *rd)
{
	struct held **at = &rd->n->all, *t;

	while ((t = *at)) {
		if (t->host != rd->host->number || stays(rd, t)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		held_free(t);
	}
	return at;
}

/* What was over at the last tick: incidents have copies of its texts by now. */
static void judged_drop(struct node_findings *n)
{
	struct held **at = &n->all, *t;

	while ((t = *at)) {
		if (!t->judged || !t->over) {
			at = &t->next;
			continue;
		}
		n->n_over--;
		*at = t->next;
		held_free(t);
	}
}

int node_findings_take(struct node_findings *n, const struct host *h, const Cluster__NodeReport *r, const char *job)
{
	struct reading rd = { .n = n, .host = h, .r = r };
	struct held **end;

	if (!n->all && !r->n_findings)
		return 0;
	judged_drop(n);
	end = host_clear(&rd);
	for (size_t i = 0; i < r->n_findings && !rd.err; i++) {
		struct held *t = is_of_job(r, r->findings[i], job) ? held_read(&rd, r->findings[i]) : NULL;

		if (!t)
			continue;
		*end = t;
		end = &t->next;
	}
	return rd.err;
}

/* --- out --- */

static bool holds(const struct held *t, const struct model *m)
{
	return m->now_ns < t->heard_ns + FORGET_NS;
}

static bool is_earlier(const struct held *a, const struct held *b)
{
	return a->f.since_ns < b->f.since_ns || (a->f.since_ns == b->f.since_ns && a->host < b->host);
}

/* The first that says the same, and began at most so long before; NULL: it is the first itself. */
static const struct held *first_alike(const struct node_findings *n, const struct held *t, const struct model *m)
{
	const struct held *first = NULL;

	for (const struct held *o = n->all; o; o = o->next)
		if (o->host != t->host && o->alike == t->alike && holds(o, m) && is_earlier(o, t) &&
		    t->f.since_ns - o->f.since_ns < TOGETHER_NS && (!first || is_earlier(o, first)))
			first = o;
	return first;
}

static bool key_is_held(const struct node_findings *n, uint64_t key)
{
	for (const struct held *o = n->all; o; o = o->next)
		if (o->f.key == key)
			return true;
	return false;
}

static int held_add(const struct node_findings *n, const struct held *t, const struct held *first,
		    struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	*f = t->f;
	if (!key_is_held(n, f->caused_by_key))
		f->caused_by_key = first ? first->f.key : 0;
	return 0;
}

/* Causes before their consequences: the first of several that are alike is read first. */
int node_findings_causes(struct node_findings *n, const struct model *m, struct finding_list *found)
{
	int err = 0;

	judged_drop(n);
	for (int later = 0; later < 2; later++)
		for (const struct held *t = n->all; t && !err; t = t->next) {
			const struct held *first = is_cause(t->f.kind) ? first_alike(n, t, m) : NULL;

			if (is_cause(t->f.kind) && holds(t, m) && (first != NULL) == later)
				err = held_add(n, t, first, found);
		}
	return err ? err : link_places_join(found, m->now_ns);
}

/* A file system that does not answer blocks threads on all hosts that use it. */
static void blocked_join(struct finding_list *found)
{
	const struct finding *first = NULL;

	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];

		if (f->kind == FINDING_D_STATE && !f->caused_by_key && (!first || f->since_ns < first->since_ns))
			first = f;
	}
	for (size_t i = 0; i < found->n && first; i++) {
		struct finding *f = &found->items[i];

		if (f->kind == FINDING_D_STATE && !f->caused_by_key && f->node != first->node &&
		    f->cause == first->cause && f->since_ns - first->since_ns < TOGETHER_NS)
			f->caused_by_key = first->key;
	}
}

static bool names_same(const struct finding *a, const struct finding *b)
{
	for (int i = 0; i < a->n_ranks; i++)
		for (int k = 0; k < b->n_ranks; k++)
			if (finding_proc(a, i) == finding_proc(b, k) && a->ranks[i] == b->ranks[k])
				return true;
	return a->kind == FINDING_HANG && a->comm && a->comm == b->comm;
}

/* The hub, or a node before, says it. */
static bool is_said(const struct finding_list *found, const struct finding *f)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == f->kind && names_same(f, &found->items[i]))
			return true;
	return false;
}

static void judged_note(struct node_findings *n)
{
	for (struct held *t = n->all; t; t = t->next)
		t->judged = true;
}

int node_findings_others(struct node_findings *n, const struct model *m, struct finding_list *found)
{
	int err = 0;

	blocked_join(found);
	for (const struct held *t = n->all; t && !err; t = t->next)
		if (!is_cause(t->f.kind) && holds(t, m) && !is_said(found, &t->f))
			err = held_add(n, t, first_alike(n, t, m), found);
	judged_note(n);
	return err;
}
