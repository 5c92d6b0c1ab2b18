/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - see graph.h. Read graph_object() first.
 *
 * Of each communicator there is at most one node: the first operation that a rank lacks. From it an edge leads to the
 * rank that lacks it, or to the operation in which that rank waits itself. A node's depth is its distance from a rank
 * that waits in none. A large job's nodes of one depth and use are drawn as one.
 */
#include "sink/report/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/utf8.h"
#include "sink/incident_parts.h"
#include "sink/incident_text.h"
#include "sink/report/spans.h"

#define NODES_ALONE 12 /* with more operations, those alike are one node */
#define ROOTS_SHOWN 8
#define SPANS_SHOWN 6
#define PASSES_MAX 64

struct wait { /* an operation that some entered and some lack */
	const struct comm *comm;
	int space;
	uint64_t seq;
	size_t n_in, n_lacking;
	int depth;     /* 0: not connected */
	int node;      /* its number in the drawing; -1 none */
	bool is_start; /* of the finding */
	UT_hash_handle hh;
};

struct graph {
	const struct finding *f;
	const struct model *m;
	struct wait *waits; /* by communicator */
	size_t n;
	cJSON *nodes, *edges;
	int n_nodes;
};

/* --- who waits in what --- */

static bool counts(const struct member *mb, int space)
{
	return !mb->gone && member_comparable(mb, space);
}

static bool bounds_of(const struct comm *c, int space, uint64_t *lo, uint64_t *hi)
{
	*lo = UINT64_MAX;
	*hi = 0;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		uint64_t n = mb->entered_seq[space];

		if (!counts(mb, space))
			continue;
		*lo = n < *lo ? n : *lo;
		*hi = n > *hi ? n : *hi;
	}
	return *hi > *lo && *lo != UINT64_MAX;
}

static bool is_in(const struct member *mb, const struct wait *w)
{
	return counts(mb, w->space) && mb->entered_seq[w->space] > w->seq;
}

static bool lacks(const struct member *mb, const struct wait *w)
{
	return counts(mb, w->space) && mb->entered_seq[w->space] == w->seq;
}

static struct wait *wait_of(const struct graph *g, const struct comm *c)
{
	struct wait *w;

	HASH_FIND_PTR(g->waits, &c, w);
	return w;
}

static bool is_culprit(const struct finding *f, int rank)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (f->ranks[i] == rank)
			return true;
	return false;
}

static void wait_add(struct graph *g, const struct comm *c)
{
	static const int spaces[] = { SEQ_COLL, SEQ_GRAPH };
	uint64_t lo, hi;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		struct wait *w = bounds_of(c, spaces[i], &lo, &hi) ? calloc(1, sizeof(*w)) : NULL;

		if (!w)
			continue;
		*w = (struct wait){ .comm = c, .space = spaces[i], .seq = lo, .node = -1 };
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
			bool lacking = lacks(mb, w);

			w->n_in += is_in(mb, w);
			w->n_lacking += lacking;
			w->is_start |= c->hash == g->f->comm || (lacking && is_culprit(g->f, member_rank(mb)));
		}
		HASH_ADD_PTR(g->waits, comm, w);
		g->n++;
		return;
	}
}

/* The next operation in which the process of `mb` waits; *at goes through its communicators. */
static struct wait *waits_next(const struct graph *g, const struct member *mb, const struct member **at)
{
	struct wait *w = NULL;

	for (; *at && !w; *at = (*at)->next_in_proc) {
		struct wait *of = wait_of(g, (*at)->comm);

		if (of && is_in(*at, of) && member_rank(*at) == member_rank(mb))
			w = of;
	}
	return w;
}

static bool waits_somewhere(const struct graph *g, const struct member *mb)
{
	const struct member *at = mb->proc->members;

	return waits_next(g, mb, &at) != NULL;
}

/* --- depth --- */

static bool depth_lower(struct wait *w, int depth)
{
	if (w->depth && w->depth <= depth)
		return false;
	w->depth = depth;
	return true;
}

static bool depth_from_next(const struct graph *g, struct wait *w)
{
	bool changed = false;

	for (const struct member *mb = w->comm->members; mb; mb = mb->next_in_comm) {
		const struct member *at = mb->proc->members;
		struct wait *next;

		while (lacks(mb, w) && (next = waits_next(g, mb, &at)))
			if (next->depth)
				changed |= depth_lower(w, next->depth + 1);
	}
	return changed;
}

static bool has_root(const struct graph *g, const struct wait *w)
{
	for (const struct member *mb = w->comm->members; mb; mb = mb->next_in_comm)
		if (lacks(mb, w) && !waits_somewhere(g, mb))
			return true;
	return false;
}

/* From the finding's operations outwards; of a deadlock, which has no root, they are the first. */
static bool depths_set(struct graph *g)
{
	bool some = false, changed = true;

	for (struct wait *w = g->waits; w; w = w->hh.next)
		if (w->is_start && has_root(g, w))
			some |= depth_lower(w, 1);
	for (struct wait *w = g->waits; !some && w; w = w->hh.next)
		if (w->is_start)
			w->depth = 1;
	for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
		changed = false;
		for (struct wait *w = g->waits; w; w = w->hh.next)
			changed |= depth_from_next(g, w);
	}
	for (struct wait *w = g->waits; w; w = w->hh.next)
		some |= w->depth != 0;
	return some;
}

/* --- drawing --- */

static void add_clean(cJSON *o, const char *name, const char *text)
{
	char *clean = utf8_dup(text ? text : "");

	cJSON_AddStringToObject(o, name, clean ? clean : "");
	free(clean);
}

static int node_add(struct graph *g, const char *type, const char *title, const char *sub, int depth, bool culprit)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "type", type);
	add_clean(o, "title", title);
	add_clean(o, "sub", sub);
	cJSON_AddNumberToObject(o, "depth", depth);
	if (culprit)
		cJSON_AddTrueToObject(o, "culprit");
	cJSON_AddItemToArray(g->nodes, o);
	return g->n_nodes++;
}

static void edge_add(struct graph *g, int from, int to, const char *label)
{
	cJSON *e, *o;

	if (from < 0 || to < 0)
		return;
	cJSON_ArrayForEach(e, g->edges)
	{
		if (cJSON_GetObjectItem(e, "from")->valueint == from && cJSON_GetObjectItem(e, "to")->valueint == to)
			return;
	}
	o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "from", from);
	cJSON_AddNumberToObject(o, "to", to);
	add_clean(o, "label", label);
	cJSON_AddItemToArray(g->edges, o);
}

/* "AllReduce #29", by a call of one that is in it; else by the finding. */
static void op_title(const struct graph *g, const struct wait *w, char *to, size_t size)
{
	const struct finding *f = g->f;

	for (const struct member *mb = w->comm->members; mb; mb = mb->next_in_comm)
		for (const struct op *op = is_in(mb, w) ? mb->ops_tail : NULL; op; op = op->prev)
			if (op->seq == w->seq && op_space(op) == w->space) {
				snprintf(to, size, "%s #%" PRIu64, op_kind_name(op->kind), op->seq);
				return;
			}
	if (f->has_op && f->comm == w->comm->hash && f->seq == w->seq)
		snprintf(to, size, "%s #%" PRIu64, op_kind_name(f->op), f->seq);
	else
		snprintf(to, size, "collective #%" PRIu64, w->seq);
}

static void op_node(struct graph *g, struct wait *w)
{
	const char *use = parallelism_name(w->comm->parallelism);
	char title[80], sub[160];

	op_title(g, w, title, sizeof(title));
	snprintf(sub, sizeof(sub), "%zu of %d ranks wait%s%s, 0x%.4" PRIx64 "\u2026", w->n_in,
		 w->comm->nranks > 0 ? w->comm->nranks : (int)(w->n_in + w->n_lacking), use ? ", " : "", use ? use : "",
		 w->comm->hash >> 48);
	w->node = node_add(g, "op", title, sub, w->depth, false);
}

static bool is_alike(const struct wait *a, const struct wait *b)
{
	return a->depth == b->depth && a->comm->parallelism == b->comm->parallelism && a->is_start == b->is_start;
}

/* All that are like `w`, as one. */
static void class_node(struct graph *g, const struct wait *w)
{
	const char *use = parallelism_name(w->comm->parallelism);
	size_t n = 0, n_in = 0;
	char title[80], sub[120];

	for (struct wait *o = g->waits; o; o = o->hh.next)
		if (o->depth && is_alike(o, w)) {
			n++;
			n_in += o->n_in;
			o->node = g->n_nodes;
		}
	snprintf(title, sizeof(title), "%zu operations%s%s", n, use ? " of " : "", use ? use : "");
	snprintf(sub, sizeof(sub), "%zu ranks wait in them, each of another communicator", n_in);
	node_add(g, "op", title, sub, w->depth, false);
}

static void op_nodes(struct graph *g)
{
	size_t n = 0;

	for (const struct wait *w = g->waits; w; w = w->hh.next)
		n += w->depth != 0;
	for (struct wait *w = g->waits; w; w = w->hh.next)
		if (w->depth && w->node < 0 && (n <= NODES_ALONE || w->is_start))
			op_node(g, w);
	for (struct wait *w = g->waits; w; w = w->hh.next)
		if (w->depth && w->node < 0)
			class_node(g, w);
}

/* Ranks that lack `w`, wait in nothing, and are at the same place as `first`. */
static size_t alike_at(const struct graph *g, const struct wait *w, const struct member *first, int *ranks)
{
	size_t n = 0;

	for (const struct member *mb = first; mb; mb = mb->next_in_comm)
		if (lacks(mb, w) && !waits_somewhere(g, mb) && !strcmp(main_place(mb->proc), main_place(first->proc)))
			ranks[n++] = member_rank(mb);
	return n;
}

static bool is_first_at(const struct graph *g, const struct wait *w, const struct member *mb)
{
	for (const struct member *o = w->comm->members; o != mb; o = o->next_in_comm)
		if (lacks(o, w) && !waits_somewhere(g, o) && !strcmp(main_place(o->proc), main_place(mb->proc)))
			return false;
	return true;
}

/* Ranks that several operations lack are drawn once. */
static int rank_node(struct graph *g, const char *title, const char *sub, int depth, bool culprit)
{
	int i = 0;
	cJSON *o;

	cJSON_ArrayForEach(o, g->nodes)
	{
		if (!strcmp(cJSON_GetObjectItem(o, "type")->valuestring, "rank") &&
		    !strcmp(cJSON_GetObjectItem(o, "title")->valuestring, title))
			return i;
		i++;
	}
	return node_add(g, "rank", title, sub, depth, culprit);
}

static void root_node(struct graph *g, const struct wait *w, const struct member *mb)
{
	int *ranks = calloc(w->n_lacking, sizeof(*ranks));
	size_t n = ranks ? alike_at(g, w, mb, ranks) : 0;
	const char *place = main_place(mb->proc);
	const char *host = g->m->merged && n == 1 && mb->proc->node ? mb->proc->node->name : "";
	struct text title = { 0 }, sub = { 0 };

	if (n) {
		text_spans(&title, ranks, n, SPANS_SHOWN);
		text_add(&sub, "%s%s%s%s%s", *place && !mb->proc->dead ? "at " : "", place, *place && *host ? ", " : "",
			 *host ? "on " : "", host);
		edge_add(g, w->node,
			 rank_node(g, title.data, sub.data, w->depth - 1, is_culprit(g->f, member_rank(mb))),
			 n == 1 ? "has not entered" : "have not entered");
	}
	free(title.data);
	free(sub.data);
	free(ranks);
}

static void roots_of(struct graph *g, const struct wait *w)
{
	int n = 0;

	for (const struct member *mb = w->comm->members; mb; mb = mb->next_in_comm)
		if (lacks(mb, w) && !waits_somewhere(g, mb) && n < ROOTS_SHOWN && is_first_at(g, w, mb)) {
			root_node(g, w, mb);
			n++;
		}
}

static void edges_of(struct graph *g, const struct wait *w)
{
	for (const struct member *mb = w->comm->members; mb; mb = mb->next_in_comm) {
		const struct member *at = mb->proc->members;
		const struct wait *next;
		char label[40];

		snprintf(label, sizeof(label), "rank %d is in it", member_rank(mb));
		while (lacks(mb, w) && (next = waits_next(g, mb, &at)))
			if (next->depth && next->node != w->node)
				edge_add(g, w->node, next->node, label);
	}
}

/* --- what no counters show: Send and Recv, the creation of a communicator, all are in --- */

static void plain(struct graph *g)
{
	const struct finding *f = g->f;
	const char *place = finding_text(f, EVIDENCE_PYTHON);
	double n = finding_number(f, EVIDENCE_N_WAITING);
	struct text title = { 0 }, who = { 0 };
	char sub[80] = "";
	int op;

	n = n > 0 ? n : finding_number(f, EVIDENCE_PEERS_WAITING);
	n = n > 0 ? n : finding_number(f, EVIDENCE_N_CALLED);
	text_op(&title, f);
	text_ranks(&who, f);
	if (n > 0)
		snprintf(sub, sizeof(sub), n == 1 ? "%.0f rank waits" : "%.0f ranks wait", n);
	place = place ? place : finding_text(f, EVIDENCE_NATIVE_FRAME);
	place = place ? place : finding_text(f, EVIDENCE_KERNEL_WAIT);
	op = node_add(g, "op", title.data, sub, 1, false);
	if (f->n_ranks)
		edge_add(g, op, node_add(g, "rank", who.data, place ? place : finding_cause_shown(f), 0, true), "");
	free(title.data);
	free(who.data);
}

static void graph_free(struct graph *g)
{
	struct wait *w, *next;

	HASH_ITER (hh, g->waits, w, next) {
		HASH_DEL(g->waits, w);
		free(w);
	}
}

cJSON *graph_object(const struct finding *f, const struct model *m)
{
	struct graph g = { .f = f, .m = m };
	cJSON *o = cJSON_CreateObject();

	g.nodes = cJSON_AddArrayToObject(o, "nodes");
	g.edges = cJSON_AddArrayToObject(o, "edges");
	for (const struct comm *c = m->comms; c; c = c->next)
		wait_add(&g, c);
	if (depths_set(&g)) {
		op_nodes(&g);
		for (const struct wait *w = g.waits; w; w = w->hh.next) {
			if (w->depth)
				edges_of(&g, w);
			if (w->depth == 1)
				roots_of(&g, w);
		}
	} else {
		plain(&g);
	}
	graph_free(&g);
	return o;
}
