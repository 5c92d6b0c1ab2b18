/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_scan.c - the slices of a scan: each reads the maps anew (they change under us), goes on where the last one ended
 * and gives up after so many pages, so that no call outlasts its deadline. scan_slice() and what is above it run in the
 * parser and depend on their argument alone.
 */
#include "tracers/nccl/nccl_scan.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/reader/memory_walk.h"
#include "tracers/nccl/nccl_state.h"
#include "inspect/reader/reader.h"

#define SLICE_PAGES (16u << 10) /* read in one call: 64 MB */
#define CHECKS_MAX 100000       /* magic numbers followed up in one slice */
#define DEADLINE_MS 1000        /* of a slice, while it sleeps; it may run for longer on a busy machine */

struct slice_arg {
	uint32_t n_layouts, pages_max;
	uint64_t from; /* address */
	enum memory_part part;
	struct nccl_layout layouts[NCCL_LAYOUTS_MAX];
};

struct slice_answer {
	uint64_t next; /* address to go on at; 0 the end */
	uint64_t pages, space;
	uint32_t n, cut;
	struct nccl_place places[NCCL_PLACES_MAX];
};

struct scan { /* one slice at work */
	const struct slice_arg *arg;
	struct slice_answer *out;
	const struct memory *memory;
	uint32_t checks;
};

/* --- in the parser --- */

static bool place_fits(const struct memory *m, const struct nccl_layout *l, uint64_t comm)
{
	uint64_t magic = 0, end_magic = 0, hash = 0;
	int rank = -1, nranks = 0;

	return memory_read(m, comm + l->end_magic, &end_magic, 8) && end_magic == NCCL_MAGIC &&
	       memory_read(m, comm + l->magic, &magic, 8) && memory_read(m, comm + l->hash, &hash, 8) &&
	       memory_read(m, comm + l->rank, &rank, 4) && memory_read(m, comm + l->nranks, &nranks, 4) &&
	       nccl_identity_sane(magic, end_magic, hash, rank, nranks);
}

/* A magic number lies at `addr`. Where two layouts fit, it is not known which is right. */
static void magic_found(struct scan *s, uint64_t addr)
{
	struct nccl_place at = { 0 };
	int fits = 0;

	if (++s->checks > CHECKS_MAX) {
		s->out->cut = 1;
		return;
	}
	for (uint32_t i = 0; i < s->arg->n_layouts; i++) {
		uint64_t comm = addr - s->arg->layouts[i].magic;

		if (addr < s->arg->layouts[i].magic || !place_fits(s->memory, &s->arg->layouts[i], comm))
			continue;
		at = (struct nccl_place){ .addr = comm, .layout = i };
		fits++;
	}
	if (fits != 1)
		return;
	if (s->out->n == NCCL_PLACES_MAX)
		s->out->cut = 1;
	else
		s->out->places[s->out->n++] = at;
}

static void words_scan(void *of, uint64_t addr, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i] == NCCL_MAGIC)
			magic_found(of, addr + 8 * i);
}

static int scan_slice(struct reader_job *job)
{
	struct memory memory;
	struct scan s = { .arg = job->arg, .out = (void *)job->out, .memory = &memory };
	struct memory_walk w = { .memory = &memory,
				 .from = s.arg->from,
				 .pages_max = s.arg->pages_max,
				 .words = words_scan,
				 .part = s.arg->part,
				 .of = &s };
	int err = memory_open(job->fds, &memory);

	if (err)
		return err;
	*s.out = (struct slice_answer){ 0 };
	memory_walk_slice(&w);
	memory_free(&memory);
	s.out->next = w.next;
	s.out->pages = w.pages;
	s.out->space = w.space;
	job->out_len = sizeof(*s.out);
	return 0;
}

/* --- in the collector --- */

static void places_add(struct nccl_places *to, const struct slice_answer *a)
{
	to->pages += a->pages;
	to->cut |= a->cut;
	for (uint32_t i = 0; i < a->n && i < NCCL_PLACES_MAX; i++)
		if (to->n < NCCL_PLACES_MAX)
			to->at[to->n++] = a->places[i];
		else
			to->cut = true;
}

int nccl_scan_step(struct reader *r, pid_t pid, const struct nccl_layout *layouts, size_t n_layouts, uint32_t pages_max,
		   struct nccl_scan_at *at, struct nccl_places *ret)
{
	struct slice_arg arg = { .n_layouts = n_layouts,
				 .pages_max = pages_max,
				 .from = at->addr,
				 .part = at->far ? MEMORY_FAR : MEMORY_NEAR };
	struct slice_answer a;
	size_t len;
	int err;

	if (n_layouts > NCCL_LAYOUTS_MAX)
		return -E2BIG;
	memcpy(arg.layouts, layouts, n_layouts * sizeof(*layouts));
	err = parser_run_memory(r, pid, scan_slice, &arg, sizeof(arg), NULL, 0, DEADLINE_MS, &a, sizeof(a), &len);
	if (!err && (len != sizeof(a) || (a.next && a.next <= arg.from)))
		err = -EPROTO;
	if (err)
		return err;
	places_add(ret, &a);
	at->space += a.space;
	at->addr = a.next;
	if (at->space >= MEMORY_WALK_SPACE_MAX) {
		ret->cut |= a.next || !at->far;
		return 0;
	}
	if (a.next || at->far)
		return a.next != 0;
	at->far = true;
	return 1;
}

int nccl_scan(struct reader *r, pid_t pid, const struct nccl_layout *layouts, size_t n_layouts, uint64_t until_ns,
	      struct nccl_scan_at *at, struct nccl_places *ret)
{
	bool far = at->far;
	int more = 1;

	while (more > 0 && at->far == far && (!until_ns || clock_monotonic_ns() < until_ns))
		more = nccl_scan_step(r, pid, layouts, n_layouts, SLICE_PAGES, at, ret);
	return more;
}
