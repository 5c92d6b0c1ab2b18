/* SPDX-License-Identifier: Apache-2.0
 *
 * procs.c - see procs.h. Finds the communicators once, then reads them at each sample.
 */
#include "autopsy/procs.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracers/process/proc_record.h"
#include "tracers/nccl/comm_proxies.h"
#include "tracers/nccl/wire/comm.h"
#include "tracers/sched/freezer.h"
#include "autopsy/procs_pool.h"
#include "autopsy/procs_threads.h"

#define FIND_TIMEOUT_NS 15000000000ull /* while some rank shows no communicator */

int procs_add(struct autopsy_procs *s, const struct target_proc *p)
{
	size_t cap = s->cap ? 2 * s->cap : 16;
	struct autopsy_proc *grown;

	if (s->n == s->cap) {
		grown = realloc(s->all, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->all = grown;
		s->cap = cap;
	}
	s->all[s->n++] = (struct autopsy_proc){ .proc = p,
						.frozen = freezer_holds_process(p->tgid),
						.comms = { .denied = p->status == TARGET_DENIED,
							   .held = p->status == TARGET_BLOCKED } };
	return 0;
}

void procs_free(struct autopsy_procs *s)
{
	for (size_t i = 0; i < s->n; i++) {
		comm_places_free(&s->all[i].comms);
		free(s->all[i].found);
		proc_threads_free(&s->all[i]);
	}
	free(s->all);
	layout_cache_free(&s->layouts);
}

int procs_emit(struct autopsy_procs *s, procs_emit_fn *emit, void *to)
{
	uint64_t now_ns = clock_monotonic_ns();
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++) {
		err = proc_record_emit(s->all[i].proc, now_ns, emit, to);
		if (!err)
			err = proc_threads_emit(&s->all[i], emit, to);
	}
	return err;
}

/* Errors that end the autopsy; all others become a flag of the process. */
static int lasting(int err)
{
	return err == -ENOMEM || err == -EPIPE ? err : 0;
}

static int places_find(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of)
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

static int places_take(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of)
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

static const struct autopsy_proc *proc_of_tgid(const struct autopsy_procs *s, uint32_t tgid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].proc->tgid == tgid)
			return &s->all[i];
	return NULL;
}

static bool is_searched(const struct autopsy_proc *s)
{
	return s->comms.n_layouts && !s->proc->is_child && !s->comms.denied && !s->comms.held;
}

/* Only ranks count: a launcher maps NCCL too and has no communicator. */
static bool all_show_one(const struct autopsy_procs *s, const size_t *order, size_t n)
{
	size_t n_found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct autopsy_proc *of = &s->all[order[i]];

		if (of->proc->rank >= 0 && !of->found->n)
			return false;
		n_found += of->found->n;
	}
	return n_found;
}

/* First the near memory of all processes, then the rest of those that are not finished. */
static int places_search(struct autopsy_procs *s, size_t *order, size_t n, uint64_t find_ns)
{
	uint64_t begin_ns = clock_monotonic_ns();
	size_t n_left = 0;
	int err;

	s->find_until_ns = begin_ns + (s->find_max_ns ? s->find_max_ns : FIND_TIMEOUT_NS);
	err = procs_each(s, order, n, places_find);
	if (err)
		return err;
	if (all_show_one(s, order, n))
		s->find_until_ns = begin_ns + find_ns;
	for (size_t i = 0; i < n; i++)
		if (s->all[order[i]].cut_short)
			order[n_left++] = order[i];
	return procs_each(s, order, n_left, places_find);
}

int procs_comms_find(struct autopsy_procs *s, uint64_t find_ns)
{
	size_t *order = calloc(s->n + 1, sizeof(*order)), *left = calloc(s->n + 1, sizeof(*left)), n = 0;
	int err = order && left ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < s->n; i++) {
		if (!s->all[i].proc->is_child)
			comm_layouts_learn(&s->layouts, s->reader, s->all[i].proc, &s->all[i].comms);
		if (!is_searched(&s->all[i]))
			continue;
		left[n] = i;
		order[n++] = i;
	}
	if (!err)
		err = places_search(s, left, n, find_ns);
	if (!err)
		err = procs_each(s, order, n, places_take);
	free(order);
	free(left);
	for (size_t i = s->n;
	     !err &&
	     i-- > 0;) { /* children come after their parents in the list, so this drops a child's copies first */
		const struct autopsy_proc *parent = proc_of_tgid(s, s->all[i].proc->parent_tgid);

		comm_copies_drop(&s->all[i].comms, parent ? &parent->comms : NULL);
		s->n_comms += s->all[i].comms.n_places;
	}
	return err;
}

/* A record says that a process has no communicator only if all of its memory could be read. */
static int scans_emit(struct autopsy_procs *s, procs_emit_fn *emit, void *to)
{
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++) {
		const struct comm_places *c = &s->all[i].comms;
		struct record_comm_scan f = {
			.hdr = { .size = sizeof(f),
				 .tracer = WIRE_COLLECTOR,
				 .kind = RECORD_COMM_SCAN,
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

/* Reads all before it emits the first, so that they share one time stamp. */
int procs_sample_comms(struct autopsy_procs *s, procs_emit_fn *emit, void *to)
{
	struct nccl_state *now = calloc(s->n_comms + 1, sizeof(*now));
	size_t at = 0;
	uint64_t now_ns;
	int err = now ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < s->n; i++) {
		err = lasting(comm_states_sample(&s->all[i].comms, s->reader, s->all[i].proc->tgid, now + at));
		at += s->all[i].comms.n_places;
	}
	if (!err && !s->scans_emitted)
		err = scans_emit(s, emit, to);
	s->scans_emitted = true;
	now_ns = clock_monotonic_ns();
	for (size_t i = 0, n = 0; !err && i < s->n; i++)
		for (size_t k = 0; !err && k < s->all[i].comms.n_places; k++, n++)
			if (now[n].valid)
				err = comm_sample_emit(s->all[i].proc->tgid, s->all[i].comms.places[k].addr, &now[n],
						       now_ns, emit, to);
	free(now);
	return err;
}

int procs_sample_proxies(struct autopsy_procs *s, procs_emit_fn *emit, void *to)
{
	struct proxies_seen seen;
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++)
		if (s->all[i].comms.n_places && !s->all[i].comms.held)
			err = comm_proxies_sample(&s->all[i].comms, s->reader, s->all[i].proc->tgid, emit, to, &seen);
	return err;
}
