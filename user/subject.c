/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.c - who is looked at, and their communicators: found once, then read at each look.
 */
#include "subject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc_fact.h"
#include "subject_tasks.h"
#include "target/lib_open.h"

#define LOOK_DEADLINE_MS READER_DEADLINE_MS

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
	s->all[s->n++] = (struct subject){ .proc = p, .denied = p->status == TARGET_DENIED, .held = p->status == TARGET_BLOCKED };
	return 0;
}

void subjects_free(struct subjects *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->all[i].places);
		free(s->all[i].states);
		subject_threads_free(&s->all[i]);
	}
	free(s->all);
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

/* --- layouts --- */

static void error_note(struct subject *s, int err)
{
	s->held |= err == -ETIMEDOUT || err == -EBUSY;
	s->denied |= err == -EPERM || err == -EACCES;
}

/* Many ranks map one file, and its DWARF is large: asked once for each file. */
static const struct nccl_layout *layout_known(const struct subjects *s, const struct subject *upto,
					      const struct target_file *file, bool *ret_known)
{
	*ret_known = false;
	for (const struct subject *o = s->all; o < upto; o++)
		for (size_t i = 0, k = 0; i < o->proc->n_libs; i++) {
			bool nccl = o->proc->libs[i].tracers & 1u << WIRE_NCCL;

			if (nccl && o->proc->libs[i].file == file) {
				*ret_known = o->no_layout || k < o->n_layouts;
				return k < o->n_layouts ? &o->layouts[k] : NULL;
			}
			k += nccl;
		}
	return NULL;
}

static int lib_layout(struct subjects *s, struct subject *of, const struct target_lib *lib, struct nccl_layout *ret)
{
	bool known;
	const struct nccl_layout *l = layout_known(s, of, lib->file, &known);

	if (known && l)
		*ret = *l;
	if (known)
		return l ? 0 : -ENODATA;
	return lib->file->fd < 0 ? -EBADF : nccl_layout_fetch(s->reader, lib->file->fd, ret);
}

static bool layout_listed(const struct subject *s, const struct nccl_layout *l)
{
	for (size_t i = 0; i < s->n_layouts; i++)
		if (!memcmp(&s->layouts[i], l, sizeof(*l)))
			return true;
	return false;
}

static void layouts_learn(struct subjects *s, struct subject *of)
{
	for (size_t i = 0; i < of->proc->n_libs && of->n_layouts < NCCL_LAYOUTS_MAX; i++) {
		struct nccl_layout l;
		int err;

		if (!(of->proc->libs[i].tracers & 1u << WIRE_NCCL))
			continue;
		of->has_nccl = true;
		err = lib_layout(s, of, &of->proc->libs[i], &l);
		of->no_layout |= err != 0;
		if (!err && !layout_listed(of, &l))
			of->layouts[of->n_layouts++] = l;
	}
}

/* --- communicators --- */

static int places_take(struct subject *s, const struct nccl_places *found)
{
	struct nccl_place *places = calloc(found->n + 1, sizeof(*places));
	struct nccl_state *states = calloc(found->n + 1, sizeof(*states));

	if (!places || !states) {
		free(places);
		free(states);
		return -ENOMEM;
	}
	free(s->places);
	free(s->states);
	memcpy(places, found->at, found->n * sizeof(*places));
	s->places = places;
	s->states = states;
	s->n_places = found->n;
	s->cut = found->cut;
	return 0;
}

static int places_find(struct subjects *s, struct subject *of)
{
	static struct nccl_places found;
	int err = nccl_scan(s->reader, of->proc->tgid, of->layouts, of->n_layouts, &found);

	error_note(of, err);
	if (!err)
		err = places_take(of, &found);
	if (!err && of->n_places)
		err = nccl_states_read(s->reader, of->proc->tgid, of->layouts, of->places, of->n_places, LOOK_DEADLINE_MS,
				       of->states);
	if (err)
		of->n_places = 0;
	return err == -ENOMEM || err == -EPIPE ? err : 0;
}

static const struct subject *subject_of(const struct subjects *s, uint32_t tgid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].proc->tgid == tgid)
			return &s->all[i];
	return NULL;
}

static bool has_same(const struct subject *s, const struct nccl_place *at, const struct nccl_state *st)
{
	for (size_t i = 0; s && i < s->n_places; i++)
		if (s->places[i].addr == at->addr && s->states[i].hash == st->hash && s->states[i].rank == st->rank)
			return true;
	return false;
}

/* A forked child has a copy of its parent's communicators, as they were then: nobody's. */
static void copies_drop(const struct subjects *s, struct subject *of)
{
	const struct subject *parent = subject_of(s, of->proc->parent_tgid);
	size_t n = 0;

	for (size_t i = 0; i < of->n_places; i++) {
		if (!of->states[i].valid || has_same(parent, &of->places[i], &of->states[i]))
			continue;
		of->places[n] = of->places[i];
		of->states[n++] = of->states[i];
	}
	of->n_places = n;
	for (size_t i = 0; i < n; i++)
		of->uncounted |= !of->states[i].n_counters;
}

static bool is_looked_at(const struct subject *s)
{
	return s->n_layouts && !s->proc->is_child && !s->denied && !s->held;
}

int subjects_comms_find(struct subjects *s)
{
	int err = 0;

	for (size_t i = 0; !err && i < s->n; i++) {
		struct subject *of = &s->all[i];

		if (!of->proc->is_child)
			layouts_learn(s, of);
		if (is_looked_at(of))
			err = places_find(s, of);
	}
	for (size_t i = s->n; !err && i-- > 0;) { /* children after their parents in the list, and so before them here */
		copies_drop(s, &s->all[i]);
		s->n_comms += s->all[i].n_places;
	}
	return err;
}

static int comm_tell(const struct subject *s, size_t i, const struct nccl_state *now, uint64_t now_ns, subject_emit *emit, void *to)
{
	struct fact_comm_sample f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_FACT, .kind = FACT_COMM_SAMPLE, .tgid = s->proc->tgid,
			 .tid = s->proc->tgid, .ts_ns = now_ns },
		.comm = s->places[i].addr, .hash = now->hash, .rank = now->rank, .nranks = now->nranks, .device = now->device,
		.n_counters = now->n_counters, .async_result = now->async_result, .init_state = now->init_state,
		.abort = now->abort,
		.known = (now->has_async_result ? COMM_SAMPLE_ASYNC_RESULT : 0) |
			 (now->has_init_state ? COMM_SAMPLE_INIT_STATE : 0) | (now->has_abort ? COMM_SAMPLE_ABORT : 0),
	};

	_Static_assert(COMM_SAMPLE_COUNTERS == NCCL_SEQ_MAX, "as many counters as a layout may have");
	memcpy(f.counters, now->counters, sizeof(f.counters));
	return emit(to, &f.hdr);
}

static bool same_generation(const struct nccl_state *a, const struct nccl_state *b)
{
	return a->valid && b->valid && a->hash == b->hash && a->rank == b->rank && a->nranks == b->nranks;
}

/* All are read before the first is told: one time for all, and no time lost in between. */
int subjects_comms_look(struct subjects *s, subject_emit *emit, void *to)
{
	struct nccl_state *now = calloc(s->n_comms + 1, sizeof(*now));
	size_t at = 0;
	uint64_t now_ns;
	int err = now ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < s->n; i++) {
		struct subject *of = &s->all[i];
		int e = of->n_places ? nccl_states_read(s->reader, of->proc->tgid, of->layouts, of->places, of->n_places,
							LOOK_DEADLINE_MS, now + at) : 0;

		error_note(of, e);
		for (size_t k = 0; e && k < of->n_places; k++)
			now[at + k].valid = false;
		at += of->n_places;
		err = e == -ENOMEM || e == -EPIPE ? e : 0;
	}
	now_ns = clock_monotonic_ns();
	for (size_t i = 0, n = 0; !err && i < s->n; i++)
		for (size_t k = 0; !err && k < s->all[i].n_places; k++, n++)
			if (same_generation(&s->all[i].states[k], &now[n]))
				err = comm_tell(&s->all[i], k, &now[n], now_ns, emit, to);
	free(now);
	return err;
}
