/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_places.c - see comm_places.h.
 */
#include "tracers/nccl/comm_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/reader/reader.h"
#include "schemas/collector.h"
#include "tracers/nccl/wire/comm.h"

#define SLEPT_MAX 4  /* times: its file system does not answer */
#define MISSED_MAX 3 /* samples in a row: its memory is freed */

/* --- layouts --- */

struct layout_known {
	uint64_t dev, ino, size, mtime_ns;
	int err; /* why there is none */
	int n_slept;
	struct nccl_layout layout;
	struct layout_known *next;
};

void layout_cache_free(struct layout_cache *c)
{
	struct layout_known *k;

	while ((k = c->rows)) {
		c->rows = k->next;
		free(k);
	}
}

/* No word on the file: the machine was overloaded, or its page cache cold. */
static bool is_worth_another(const struct layout_known *k)
{
	return reader_is_late(k->err) && k->n_slept <= SLEPT_MAX;
}

static void layout_fetch(struct layout_known *k, struct reader *r, int fd)
{
	k->err = nccl_layout_fetch(r, fd, &k->layout);
	if (!k->err && k->n_slept < SLEPT_MAX) /* else the last try does without */
		k->err = nccl_proxy_layout_fetch(r, fd, &k->layout.proxy);
	k->n_slept += k->err == -ETIMEDOUT;
}

static const struct layout_known *layout_known(struct layout_cache *c, struct reader *r, const struct target_file *f)
{
	struct layout_known *k;

	for (k = c->rows; k; k = k->next) {
		if (k->dev != f->dev || k->ino != f->ino || k->size != f->size || k->mtime_ns != f->mtime_ns)
			continue;
		if (is_worth_another(k) && f->fd >= 0)
			layout_fetch(k, r, f->fd);
		return k;
	}
	k = f->fd < 0 ? NULL : calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	*k = (struct layout_known){
		.dev = f->dev, .ino = f->ino, .size = f->size, .mtime_ns = f->mtime_ns, .next = c->rows
	};
	layout_fetch(k, r, f->fd);
	c->rows = k;
	return k;
}

static bool layout_listed(const struct comm_places *c, const struct nccl_layout *l)
{
	for (size_t i = 0; i < c->n_layouts; i++)
		if (!memcmp(&c->layouts[i], l, sizeof(*l)))
			return true;
	return false;
}

void comm_layouts_learn(struct layout_cache *cache, struct reader *r, const struct target_proc *p,
			struct comm_places *c)
{
	for (size_t i = 0; i < p->n_libs && c->n_layouts < NCCL_LAYOUTS_MAX; i++) {
		const struct layout_known *k;

		if (!(p->libs[i].tracers & 1u << WIRE_NCCL))
			continue;
		c->has_nccl = true;
		k = layout_known(cache, r, p->libs[i].file);
		c->no_layout |= !k || k->err;
		if (k && !k->err && !layout_listed(c, &k->layout))
			c->layouts[c->n_layouts++] = k->layout;
	}
}

/* --- places --- */

static void rows_free(struct comm_places *c)
{
	free(c->places);
	free(c->states);
	c->places = NULL;
	c->states = NULL;
	c->n_places = 0;
}

void comm_places_free(struct comm_places *c)
{
	rows_free(c);
	free(c->gone);
	c->gone = NULL;
	c->n_gone = c->cap_gone = 0;
}

static void error_note(struct comm_places *c, int err)
{
	c->held |= err == -ETIMEDOUT || err == -EBUSY;
	c->denied |= err == -EPERM || err == -EACCES;
}

static const struct nccl_state *state_at(const struct comm_places *c, uint64_t addr)
{
	for (size_t i = 0; i < c->n_places; i++)
		if (c->places[i].addr == addr)
			return &c->states[i];
	return NULL;
}

static bool is_found(const struct nccl_places *found, uint64_t addr)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->at[i].addr == addr)
			return true;
	return false;
}

/* What the scan missed stays, as long as it can be read where it was. */
static size_t missed_keep(const struct comm_places *c, const struct nccl_places *found, struct nccl_place *places,
			  struct nccl_state *states)
{
	size_t n = found->n;

	for (size_t i = 0; i < c->n_places && n < NCCL_PLACES_MAX; i++) {
		if (is_found(found, c->places[i].addr))
			continue;
		places[n] = c->places[i];
		states[n++] = c->states[i]; /* lint: without states the number of places is 0 */
	}
	return n;
}

int comm_places_take(struct comm_places *c, const struct nccl_places *found)
{
	struct nccl_place *places = calloc(found->n + c->n_places + 1, sizeof(*places));
	struct nccl_state *states = calloc(found->n + c->n_places + 1, sizeof(*states));
	size_t n;

	if (!places || !states) {
		free(places);
		free(states);
		return -ENOMEM;
	}
	memcpy(places, found->at, found->n * sizeof(*places));
	for (size_t i = 0; i < found->n; i++) {
		const struct nccl_state *before = state_at(c, places[i].addr);

		if (before)
			states[i] = *before;
	}
	n = missed_keep(c, found, places, states);
	rows_free(c);
	c->places = places;
	c->states = states;
	c->n_places = n;
	c->cut = found->cut;
	return 0;
}

static bool same_generation(const struct nccl_state *a, const struct nccl_state *b)
{
	return a->valid && b->valid && a->hash == b->hash && a->rank == b->rank && a->nranks == b->nranks;
}

static void invalid_drop(struct comm_places *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_places; i++)
		if (c->states[i].valid) {
			c->places[n] = c->places[i];
			c->states[n++] = c->states[i];
		}
	c->n_places = n;
}

/* Without memory it stays unsaid: the model finds out by itself that it is not sampled any more. */
static void gone_note(struct comm_places *c, size_t i)
{
	size_t cap = c->n_gone < c->cap_gone ? c->cap_gone : c->n_gone ? 2 * c->n_gone : 8;
	struct comm_gone *grown;

	if (!c->states[i].valid)
		return;
	grown = cap == c->cap_gone ? c->gone : realloc(c->gone, cap * sizeof(*grown));
	if (!grown)
		return;
	c->cap_gone = cap;
	c->gone = grown;
	c->gone[c->n_gone++] = (struct comm_gone){ c->places[i].addr, c->states[i].hash };
}

bool comm_gone_next(struct comm_places *c, struct comm_gone *ret)
{
	if (!c->n_gone) {
		invalid_drop(c);
		return false;
	}
	*ret = c->gone[--c->n_gone];
	return true;
}

static int states_read(struct comm_places *c, struct reader *r, uint32_t tgid, struct nccl_state *ret)
{
	int err = c->n_places ? nccl_states_read(r, tgid, c->layouts, c->places, c->n_places, READER_DEADLINE_MS,
						 c->states, ret)
			      : 0;

	error_note(c, err);
	for (size_t i = 0; err && i < c->n_places; i++)
		ret[i].valid = false;
	c->standing = !err && nccl_counters_stand(ret, c->n_places);
	for (size_t i = 0; c->standing && i < c->n_places; i++)
		ret[i].n_counters = 0;
	return err;
}

int comm_states_begin(struct comm_places *c, struct reader *r, uint32_t tgid)
{
	struct nccl_state *now = calloc(c->n_places + 1, sizeof(*now));
	int err = now ? states_read(c, r, tgid, now) : -ENOMEM;

	for (size_t i = 0; !err && i < c->n_places; i++) {
		if (same_generation(&c->states[i], &now[i]) || (c->states[i].valid && !now[i].read))
			continue;
		gone_note(c, i);
		c->states[i] = now[i];
	}
	if (!err)
		invalid_drop(c);
	for (size_t i = 0; !err && i < c->n_places; i++)
		c->uncounted |= !c->states[i].n_counters;
	free(now);
	return err;
}

static bool has_same(const struct comm_places *c, const struct nccl_place *at, const struct nccl_state *st)
{
	for (size_t i = 0; i < c->n_places; i++)
		if (c->places[i].addr == at->addr && c->states[i].hash == st->hash && c->states[i].rank == st->rank)
			return true;
	return false;
}

void comm_copies_drop(struct comm_places *c, const struct comm_places *parent)
{
	for (size_t i = 0; parent && i < c->n_places; i++)
		if (has_same(parent, &c->places[i], &c->states[i]))
			c->states[i].valid = false;
	invalid_drop(c);
}

int comm_states_sample(struct comm_places *c, struct reader *r, uint32_t tgid, struct nccl_state *ret)
{
	int err = states_read(c, r, tgid, ret);

	for (size_t i = 0; !err && i < c->n_places; i++) {
		struct nccl_state *known = &c->states[i];

		ret[i].valid = same_generation(known, &ret[i]);
		known->n_missed = ret[i].valid ? 0 : ret[i].read ? MISSED_MAX : known->n_missed + 1;
		if (known->n_missed < MISSED_MAX)
			continue;
		gone_note(c, i);
		known->valid = false;
	}
	return err;
}

int comm_gone_emit(uint32_t tgid, const struct comm_gone *gone, uint64_t now_ns,
		   int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct record_comm_vanished f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_COMM_VANISHED,
			 .tgid = tgid,
			 .tid = tgid,
			 .ts_ns = now_ns },
		.comm = gone->addr,
		.hash = gone->hash,
	};

	return emit(to, &f.hdr);
}

int comm_sample_emit(uint32_t tgid, uint64_t addr, const struct nccl_state *now, uint64_t now_ns,
		     int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct record_comm_sample f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_COMM_SAMPLE,
			 .tgid = tgid,
			 .tid = tgid,
			 .ts_ns = now_ns },
		.body.comm = addr,
		.body.hash = now->hash,
		.body.rank = now->rank,
		.body.nranks = now->nranks,
		.body.device = now->device,
		.body.n_counters = now->n_counters,
		.body.async_result = now->async_result,
		.body.init_state = now->init_state,
		.body.abort = now->abort,
		.body.known = (now->has_async_result ? COMM_SAMPLE_ASYNC_RESULT : 0) |
			      (now->has_init_state ? COMM_SAMPLE_INIT_STATE : 0) |
			      (now->has_abort ? COMM_SAMPLE_ABORT : 0),
	};

	_Static_assert(COMM_SAMPLE_COUNTERS == NCCL_SEQ_MAX, "as many counters as a layout may have");
	memcpy(f.body.counters, now->counters, sizeof(f.body.counters));
	return emit(to, &f.hdr);
}
