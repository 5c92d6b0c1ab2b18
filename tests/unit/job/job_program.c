/* SPDX-License-Identifier: Apache-2.0
 *
 * job_program.c - what the ranks of the scripted job run: their communicators, the instructions of a step, and how a
 * fault changes these.
 */
#include "tests/unit/job/job_state.h"

static int comm_def(struct job_state *s, int kind, int index, const int *ranks, int n)
{
	struct comm_def *c = &s->comms[s->n_comms];

	if (n < 2)
		return -1;
	memset(c, 0, sizeof(*c));
	c->hash = 0xc0000000 + (uint64_t)s->generation * 65536 + kind * 256 + index;
	memcpy(c->ranks, ranks, n * sizeof(*ranks));
	c->n = n;
	return s->n_comms++;
}

void layout(struct job *j)
{
	struct job_state *s = j->state;
	int tp = j->o.tp, dp = j->o.dp, pp = j->o.pp, list[RANKS_MAX], c;

	s->n_comms = 0;
	for (int r = 0; r < j->o.ranks; r++)
		list[r] = r;
	s->world = comm_def(s, 0, 0, list, j->o.ranks);
	for (int i = 0; i < dp * pp; i++) {
		for (int k = 0; k < tp; k++)
			list[k] = i * tp + k;
		c = comm_def(s, 1, i, list, tp);
		for (int k = 0; k < tp; k++)
			s->tp_of[list[k]] = c;
	}
	for (int p = 0; p < pp; p++)
		for (int t = 0; t < tp; t++) {
			for (int k = 0; k < dp; k++)
				list[k] = p * dp * tp + k * tp + t;
			c = comm_def(s, 2, p * tp + t, list, dp);
			for (int k = 0; k < dp; k++)
				s->dp_of[list[k]] = c;
		}
	for (int i = 0; i < dp * tp; i++) {
		for (int k = 0; k < pp; k++)
			list[k] = k * dp * tp + i;
		c = comm_def(s, 3, i, list, pp);
		for (int k = 0; k < pp; k++)
			s->pp_of[list[k]] = c;
	}
}

static void add(struct host *h, enum ins_kind kind, int comm, int peer, uint64_t count, double s, size_t *cap)
{
	struct ins *i = PUSH(h->code, h->n_code, *cap);

	*i = (struct ins){ kind, comm, peer, count, s };
}

void program(struct job *j, int r)
{
	struct job_state *s = j->state;
	struct host *h = &s->hosts[r];
	int stage = r / (j->o.tp * j->o.dp);
	size_t cap = 0;

	h->n_code = h->pc = 0;
	h->code = NULL;
	add(h, INS_STEP, 0, 0, 0, 0, &cap);
	for (int pass = 0; pass < 2; pass++) { /* forward, backward */
		int from = pass ? stage + 1 : stage - 1, to = pass ? stage - 1 : stage + 1;

		if (s->pp_of[r] >= 0 && from >= 0 && from < j->o.pp)
			add(h, INS_RECV, s->pp_of[r], from, 4096, 0, &cap);
		for (int layer = 0; layer < 2; layer++) {
			add(h, INS_COMPUTE, 0, 0, 0, 0.25 * j->o.step_s, &cap);
			if (s->tp_of[r] >= 0)
				add(h, INS_COLL, s->tp_of[r], 0, 8192, 0, &cap);
			if (s->tp_of[r] >= 0 && !j->o.run_ahead)
				add(h, INS_SYNC, 0, 0, 0, 0, &cap);
		}
		if (s->pp_of[r] >= 0 && to >= 0 && to < j->o.pp)
			add(h, INS_SEND, s->pp_of[r], to, 4096, 0, &cap);
	}
	if (j->o.check_sync)
		add(h, INS_SYNC, 0, 0, 0, 0, &cap);
	if (j->o.grouped)
		add(h, INS_GROUP, 0, 0, 0, 0, &cap);
	for (int b = 0; b < 3 && s->dp_of[r] >= 0; b++) {
		add(h, INS_COLL, s->dp_of[r], 0, 1048576 + b, 0, &cap);
		if (j->o.block_each)
			add(h, INS_SYNC, 0, 0, 0, 0, &cap);
	}
	if (j->o.grouped)
		add(h, INS_GROUP_END, 0, 0, 0, 0, &cap);
	add(h, INS_COLL, s->world, 0, 16, 0, &cap);
	add(h, INS_SYNC, 0, 0, 0, 0, &cap);
}

const struct fault *fault_at(struct job *j, int r, int step, enum fault_kind kind)
{
	for (int i = 0; i < JOB_FAULTS; i++)
		if (j->o.faults[i].kind == kind && j->o.faults[i].rank == r && j->o.faults[i].step == step)
			return &j->o.faults[i];
	return NULL;
}

/* The instruction at this place, as a fault changes the program: NULL left out. */
const struct ins *ins_now(struct job *j, int r)
{
	struct host *h = &j->state->hosts[r];
	const struct ins *in = &h->code[h->pc], *loss = NULL, *last = NULL;
	enum fault_kind skip = in->kind == INS_SEND ? FAULT_SKIP_SEND : FAULT_SKIP_RECV;

	for (size_t i = 0; i < h->n_code; i++) {
		last = h->code[i].kind == INS_COLL && h->code[i].comm != j->state->world ? &h->code[i] : last;
		loss = h->code[i].kind == INS_COLL && h->code[i].comm == j->state->world ? &h->code[i] : loss;
	}
	if ((in == loss || in == last) && last && fault_at(j, r, h->step, FAULT_ORDER))
		return in == loss ? last : loss;
	if ((in->kind != INS_SEND && in->kind != INS_RECV) || !fault_at(j, r, h->step, skip))
		return in;
	while (in-- > h->code) /* only the first */
		if (in->kind == h->code[h->pc].kind)
			return &h->code[h->pc];
	return NULL;
}
