/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.c - who is looked at, and their communicators: found once, then read at each look.
 */
#include "autopsy/subject.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracers/process/proc_fact.h"
#include "tracers/nccl/comm_proxies.h"
#include "autopsy/subject_pool.h"
#include "autopsy/subject_tasks.h"

#define FIND_PATIENT_NS 15000000000ull /* while some rank shows no communicator */

int subjects_add(struct subjects *s, const struct target_proc *p)
{
	size_t cap = s->cap ? 2 * s->cap : 16;
	struct subject *grown;

	if (s->n == s->cap) {
		grown = realloc(s->all, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->all = grown;
		s->cap = cap;
	}
	s->all[s->n++] = (struct subject){
		.proc = p, .comms = { .denied = p->status == TARGET_DENIED, .held = p->status == TARGET_BLOCKED }
	};
	return 0;
}

void subjects_free(struct subjects *s)
{
	for (size_t i = 0; i < s->n; i++) {
		comm_places_free(&s->all[i].comms);
		free(s->all[i].found);
		subject_threads_free(&s->all[i]);
	}
	free(s->all);
	layout_cache_free(&s->layouts);
}

int subjects_tell(struct subjects *s, subject_emit *emit, void *to)
{
	uint64_t now_ns = clock_monotonic_ns();
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++) {
		err = proc_fact_emit(s->all[i].proc, now_ns, emit, to);
		if (!err)
			err = subject_threads_tell(&s->all[i], emit, to);
	}
	return err;
}

/* All else is a flag of the process. */
static int lasting(int err)
{
	return err == -ENOMEM || err == -EPIPE ? err : 0;
}

static int places_find(struct subjects *s, struct reader *r, struct subject *of)
{
	int err;

	if (!of->found)
		of->found = calloc(1, sizeof(*of->found));
	err = of->found ? nccl_scan(r, of->proc->tgid, of->comms.layouts, of->comms.n_layouts, s->find_until_ns,
				    &of->at, of->found)
			: -ENOMEM;
	of->cut_short = err > 0;
	of->comms.held |= err == -ETIMEDOUT || err == -EBUSY;
	of->comms.denied |= err == -EPERM || err == -EACCES;
	if (err < 0 && of->found)
		of->found->n = 0;
	return err < 0 ? lasting(err) : 0;
}

static int places_take(struct subjects *s, struct reader *r, struct subject *of)
{
	int err;

	(void)s;
	of->found->cut |= of->cut_short;
	err = comm_places_take(&of->comms, of->found);
	if (!err)
		err = comm_states_begin(&of->comms, r, of->proc->tgid);
	if (err)
		of->comms.n_places = 0;
	free(of->found);
	of->found = NULL;
	return lasting(err);
}

static const struct subject *subject_of(const struct subjects *s, uint32_t tgid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].proc->tgid == tgid)
			return &s->all[i];
	return NULL;
}

static bool is_looked_at(const struct subject *s)
{
	return s->comms.n_layouts && !s->proc->is_child && !s->comms.denied && !s->comms.held;
}

/* Of those that say a rank; a launcher maps NCCL, too, and has none. */
static bool all_show_one(const struct subjects *s, const size_t *order, size_t n)
{
	size_t n_found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct subject *of = &s->all[order[i]];

		if (of->proc->rank >= 0 && !of->found->n)
			return false;
		n_found += of->found->n;
	}
	return n_found;
}

/* What is near, of all; then the rest, of those that are not through. */
static int places_look(struct subjects *s, size_t *order, size_t n, uint64_t find_ns)
{
	uint64_t begin_ns = clock_monotonic_ns();
	size_t n_left = 0;
	int err;

	s->find_until_ns = begin_ns + FIND_PATIENT_NS;
	err = subjects_each(s, order, n, places_find);
	if (err)
		return err;
	if (all_show_one(s, order, n))
		s->find_until_ns = begin_ns + find_ns;
	for (size_t i = 0; i < n; i++)
		if (s->all[order[i]].cut_short)
			order[n_left++] = order[i];
	return subjects_each(s, order, n_left, places_find);
}

int subjects_comms_find(struct subjects *s, uint64_t find_ns)
{
	size_t *order = calloc(s->n + 1, sizeof(*order)), *left = calloc(s->n + 1, sizeof(*left)), n = 0;
	int err = order && left ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < s->n; i++) {
		if (!s->all[i].proc->is_child)
			comm_layouts_learn(&s->layouts, s->reader, s->all[i].proc, &s->all[i].comms);
		if (!is_looked_at(&s->all[i]))
			continue;
		left[n] = i;
		order[n++] = i;
	}
	if (!err)
		err = places_look(s, left, n, find_ns);
	if (!err)
		err = subjects_each(s, order, n, places_take);
	free(order);
	free(left);
	for (size_t i = s->n;
	     !err && i-- > 0;) { /* children after their parents in the list, and so before them here */
		const struct subject *parent = subject_of(s, s->all[i].proc->parent_tgid);

		comm_copies_drop(&s->all[i].comms, parent ? &parent->comms : NULL);
		s->n_comms += s->all[i].comms.n_places;
	}
	return err;
}

/* Who has no communicator is known where all of the memory could be read. */
static int scans_tell(struct subjects *s, subject_emit *emit, void *to)
{
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++) {
		const struct comm_places *c = &s->all[i].comms;
		struct fact_comm_scan f = {
			.hdr = { .size = sizeof(f),
				 .tracer = WIRE_FACT,
				 .kind = FACT_COMM_SCAN,
				 .tgid = s->all[i].proc->tgid,
				 .tid = s->all[i].proc->tgid,
				 .ts_ns = clock_monotonic_ns() },
			.n_found = c->n_places,
		};

		if (!s->all[i].proc->is_child && !c->denied && !c->held && !c->cut)
			err = emit(to, &f.hdr);
	}
	return err;
}

/* All are read before the first is told: one time for all, and no time lost in between. */
int subjects_comms_look(struct subjects *s, subject_emit *emit, void *to)
{
	struct nccl_state *now = calloc(s->n_comms + 1, sizeof(*now));
	size_t at = 0;
	uint64_t now_ns;
	int err = now ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < s->n; i++) {
		err = lasting(comm_states_look(&s->all[i].comms, s->reader, s->all[i].proc->tgid, now + at));
		at += s->all[i].comms.n_places;
	}
	if (!err && !s->scans_told)
		err = scans_tell(s, emit, to);
	s->scans_told = true;
	now_ns = clock_monotonic_ns();
	for (size_t i = 0, n = 0; !err && i < s->n; i++)
		for (size_t k = 0; !err && k < s->all[i].comms.n_places; k++, n++)
			if (now[n].valid)
				err = comm_sample_emit(s->all[i].proc->tgid, s->all[i].comms.places[k].addr, &now[n],
						       now_ns, emit, to);
	free(now);
	return err;
}

int subjects_proxies_look(struct subjects *s, subject_emit *emit, void *to)
{
	struct proxies_seen seen;
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++)
		if (s->all[i].comms.n_places && !s->all[i].comms.held)
			err = comm_proxies_look(&s->all[i].comms, s->reader, s->all[i].proc->tgid, emit, to, &seen);
	return err;
}
