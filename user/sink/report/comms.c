/* SPDX-License-Identifier: Apache-2.0
 *
 * comms.c - operations of a report: what each communicator carried, who was late in it, and the ranks' table.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "sink/autopsy_stacks.h"
#include "sink/op_size.h"
#include "sink/report/report.h"
#include "sink/report/spans.h"

#define LATE_COUNTED_S 1e-3 /* a rank is the last of a round if it came that much after the first */
#define RANKS_SHOWN 16384

static double rounded(double v)
{
	return v > 0 && isfinite(v) ? three_digits(v) : 0;
}

/* --- operations --- */

static struct comm_stats *stats_of(struct report *r, uint64_t hash)
{
	struct comm_stats *s;

	HASH_FIND(hh, r->comms, &hash, sizeof(hash), s);
	if (s)
		return s;
	if (r->n_comms >= COMMS_KEPT || !(s = calloc(1, sizeof(*s)))) {
		r->n_comms_dropped++;
		return NULL;
	}
	s->hash = hash;
	s->worst_rank = -1;
	HASH_ADD(hh, r->comms, hash, sizeof(s->hash), s);
	if (!s->hh.tbl) {
		free(s);
		return NULL;
	}
	r->n_comms++;
	return s;
}

static void stats_add(struct comm_stats *s, const struct op *op)
{
	const struct comm *c = op->member->comm;
	uint64_t bytes = op_size_bytes(op->kind, op->count, op->dtype, c->nranks);

	s->nranks = c->nranks;
	s->n_seen = c->n_seen > s->n_seen ? c->n_seen : s->n_seen;
	s->use = parallelism_name(c->parallelism);
	s->n_ops++;
	s->bytes += bytes;
	if (op->end_ns > op->start_bound_ns && op->start_bound_ns &&
	    op->end_error_ns < op->end_ns - op->start_bound_ns) {
		s->n_ended++;
		s->duration_s += (op->end_ns - op->start_bound_ns) * 1e-9;
		s->busy_bytes += (double)bytes * op_bus_factor(op->kind, c->nranks);
	}
}

static void round_end(struct report *r, struct round *one)
{
	size_t last;
	uint64_t first_ns = round_first_ns(one, &last);
	struct comm_stats *s = stats_of(r, one->key.hash);
	struct heat_row *row = one->entries[last].row;
	double late_s = (one->entries[last].ns - first_ns) * 1e-9;

	for (size_t i = 0; i < one->n; i++)
		heat_late(one->entries[i].row, one->entries[i].ns, (one->entries[i].ns - first_ns) * 1e-9);
	if (late_s >= LATE_COUNTED_S) {
		row->n_last++;
		row->late_s += late_s;
	}
	if (!s)
		return;
	s->n_rounds++;
	s->wait_s += late_s;
	if (late_s > s->worst_s) {
		s->worst_s = late_s;
		s->worst_seq = one->key.seq;
		s->worst_op = one->op;
		s->worst_rank = row->key.rank;
	}
}

void report_op(struct report *r, const struct op *op)
{
	const struct member *mb = op->member;
	struct heat_row *row;
	struct comm_stats *s;
	struct round *one;

	if (op->captured || !mb->comm || !mb->comm->hash || member_rank(mb) < 0)
		return;
	row = heat_row(&r->heat, mb);
	s = stats_of(r, mb->comm->hash);
	if (s)
		stats_add(s, op);
	r->n_late_ops += op->seq_from_attach;
	if (!row)
		return;
	heat_op(&r->heat, row, op);
	if (op_kind_p2p(op->kind) || !op->enqueue_ns || mb->comm->n_seen < 2 || !member_comparable(mb, op_space(op)))
		return;
	one = rounds_add(&r->rounds, op, (size_t)mb->comm->n_seen, row);
	if (one && one->n > 1)
		round_end(r, one);
	round_free(one);
}

/* --- the end: rounds that not all entered --- */

static const struct comm *comm_of(const struct model *m, uint64_t hash)
{
	const struct comm *c = m->comms;

	while (c && c->hash != hash)
		c = c->next;
	return c;
}

static bool entered(const struct round *one, const struct member *mb)
{
	for (size_t i = 0; i < one->n; i++)
		if (one->entries[i].rank == mb->rank)
			return true;
	return false;
}

/* Who lacks an operation that others were still in when all ended: it has waited for that rank until now. */
static void lacking_mark(struct report *r, const struct round *one, const struct comm *c, const struct model *m)
{
	size_t last;
	double s = (m->now_ns - round_first_ns(one, &last)) * 1e-9;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		struct heat_row *row;

		if (mb->gone || !member_comparable(mb, (int)one->key.space) || member_rank(mb) < 0 ||
		    mb->entered_seq[one->key.space] != one->key.seq || entered(one, mb))
			continue;
		row = heat_row(&r->heat, mb);
		if (row && s > row->missing_s)
			row->missing_s = (float)s;
	}
}

static bool is_open_hang(const struct report *r)
{
	for (size_t i = 0; i < r->n_incidents; i++)
		if (r->incidents[i].i.f.kind == FINDING_HANG && !r->incidents[i].closed)
			return true;
	return false;
}

void report_rounds_end(struct report *r, const struct model *m)
{
	bool hang = is_open_hang(r);
	struct round *one;

	while ((one = rounds_take(&r->rounds))) {
		const struct comm *c = hang && one->n ? comm_of(m, one->key.hash) : NULL;

		if (c)
			lacking_mark(r, one, c, m);
		if (one->n > 1)
			round_end(r, one);
		round_free(one);
	}
}

/* --- tables --- */

static cJSON *stats_object(const struct comm_stats *s)
{
	cJSON *o = cJSON_CreateObject();
	char hash[24];

	snprintf(hash, sizeof(hash), "0x%016" PRIx64, s->hash);
	cJSON_AddStringToObject(o, "comm", hash);
	cJSON_AddNumberToObject(o, "nranks", s->nranks);
	cJSON_AddNumberToObject(o, "n_seen", s->n_seen);
	if (s->use)
		cJSON_AddStringToObject(o, "use", s->use);
	cJSON_AddNumberToObject(o, "n_ops", (double)s->n_ops);
	cJSON_AddNumberToObject(o, "bytes", (double)s->bytes);
	cJSON_AddNumberToObject(o, "n_rounds", (double)s->n_rounds);
	cJSON_AddNumberToObject(o, "wait_s", rounded(s->wait_s));
	cJSON_AddNumberToObject(o, "worst_s", rounded(s->worst_s));
	if (s->worst_s > 0) {
		cJSON_AddStringToObject(o, "worst_op", op_kind_name(s->worst_op));
		cJSON_AddNumberToObject(o, "worst_seq", (double)s->worst_seq);
		cJSON_AddNumberToObject(o, "worst_rank", (double)s->worst_rank);
	}
	cJSON_AddNumberToObject(o, "mean_s", s->n_ended ? rounded(s->duration_s / s->n_ended) : 0);
	cJSON_AddNumberToObject(o, "busbw", s->duration_s > 0 ? rounded(s->busy_bytes / s->duration_s) : 0);
	return o;
}

/* How many collectives its ranks have entered, least and most, as of the end. */
static void add_entered(cJSON *o, const struct comm *c)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		uint64_t n = mb->entered_seq[SEQ_COLL];

		if (mb->gone || !member_comparable(mb, SEQ_COLL))
			continue;
		lo = n < lo ? n : lo;
		hi = n > hi ? n : hi;
	}
	if (lo <= hi) {
		cJSON_AddNumberToObject(o, "entered_min", (double)lo);
		cJSON_AddNumberToObject(o, "entered_max", (double)hi);
	}
}

/* Of those that no operation was seen of: by samples of NCCL's counters. */
static void comms_sampled(struct report *r, const struct model *m)
{
	for (const struct comm *c = m->comms; c; c = c->next) {
		struct comm_stats *s = c->hash ? stats_of(r, c->hash) : NULL;

		if (!s)
			continue;
		s->nranks = c->nranks;
		s->n_seen = c->n_seen > s->n_seen ? c->n_seen : s->n_seen;
		s->use = parallelism_name(c->parallelism);
	}
}

cJSON *report_comms(const struct report *r, const struct model *m)
{
	cJSON *list = cJSON_CreateArray();

	comms_sampled((struct report *)r, m);
	for (const struct comm_stats *s = r->comms; s; s = s->hh.next) {
		const struct comm *c = comm_of(m, s->hash);
		cJSON *o = stats_object(s);

		if (c)
			add_entered(o, c);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static const struct heat_row *row_of(const struct report *r, const struct proc *p)
{
	struct heat_key key;
	struct heat_row *row;

	memset(&key, 0, sizeof(key));
	key = (struct heat_key){ p->key, autopsy_rank(p) };
	HASH_FIND(hh, r->heat.rows, &key, sizeof(key), row);
	return row;
}

static void rank_row(cJSON *o, const struct report *r, const struct proc *p)
{
	const struct gpu *g = proc_gpu(p);
	const struct heat_row *row = row_of(r, p);
	const struct task *main = main_thread(p);

	cJSON_AddNumberToObject(o, "rank", autopsy_rank(p));
	cJSON_AddNumberToObject(o, "pid", p->tgid);
	report_add(o, "host", p->node ? p->node->name : "");
	report_add(o, "job", p->job->shown);
	if (g)
		cJSON_AddNumberToObject(o, "gpu", g->device.index);
	else if (p->members && p->members->device >= 0)
		cJSON_AddNumberToObject(o, "gpu", p->members->device);
	report_add(o, "state", p->dead ? "ended" : main && main->seen_ns ? task_state_name(main->state) : "");
	report_add(o, "at", main_place(p));
	if (!row)
		return;
	cJSON_AddNumberToObject(o, "steps", (double)row->n_steps);
	cJSON_AddNumberToObject(o, "last", (double)row->n_last);
	cJSON_AddNumberToObject(o, "late_s", rounded(row->late_s));
}

cJSON *report_ranks(const struct report *r, const struct model *m)
{
	cJSON *list = cJSON_CreateArray();
	size_t n = 0;

	for (const struct proc *p = m->procs; p && n < RANKS_SHOWN; p = p->next) {
		cJSON *o = p->is_child || (autopsy_rank(p) < 0 && !p->members) ? NULL : cJSON_CreateObject();

		if (!o)
			continue;
		rank_row(o, r, p);
		cJSON_AddItemToArray(list, o);
		n++;
	}
	return list;
}
