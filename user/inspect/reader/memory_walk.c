/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_walk.c - see memory_walk.h.
 */
#include "inspect/reader/memory_walk.h"

#include <string.h>
#include <unistd.h>

#define PAGES_AT_ONCE 1024        /* whose presence is asked for at once */
#define RUN_BYTES (1u << 18)      /* read at once: what fits in a core's cache */
#define SLICE_SPACE (4u << 20)    /* pages of address space whose presence is asked for in a slice: 16 GB */
#define NEAR_BYTES (256ull << 20) /* arenas of malloc are 64 MB, and neighbours are one mapping */

/* Every word of a run of present pages. A page that went meanwhile ends the run: the next ones are read by themselves.
 */
static void run_read(struct memory_walk *w, uint64_t addr, size_t len)
{
	static uint64_t words[RUN_BYTES / 8];

	while (len) {
		ssize_t got = pread(w->memory->bytes, words, len, addr);
		size_t step = got > 0 ? (size_t)got : w->memory->page_bytes;

		if (got > 0)
			w->words(w->of, addr, words, (size_t)got / 8);
		step = step < len ? step : len;
		addr += step;
		len -= step;
	}
}

static void runs_read(struct memory_walk *w, const uint64_t *pages, size_t n)
{
	uint64_t bytes = w->memory->page_bytes;

	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && pages[k] == pages[k - 1] + bytes && (k - i) * bytes < RUN_BYTES; k++)
			;
		run_read(w, pages[i], (k - i) * bytes);
	}
}

/* The present ones of `n` pages from `addr`. */
static size_t pages_present(struct memory_walk *w, const struct mapping *m, uint64_t addr, size_t n, uint64_t *pages)
{
	static uint8_t which[PAGES_AT_ONCE];
	size_t known = memory_pages(w->memory, m, addr, n, which), k = 0;

	for (size_t i = 0; i < known; i++)
		if (which[i] == MEMORY_PRESENT) /* what is swapped out is left alone */
			pages[k++] = addr + i * w->memory->page_bytes;
	return k;
}

static bool slice_full(const struct memory_walk *w)
{
	return w->pages >= w->pages_max || w->space >= SLICE_SPACE;
}

/* Up to which address it was sampled. */
static uint64_t mapping_walk(struct memory_walk *w, const struct mapping *m, uint64_t from)
{
	static uint64_t pages[PAGES_AT_ONCE];
	uint64_t bytes = w->memory->page_bytes;

	while (from < m->end && !slice_full(w)) {
		size_t n = (m->end - from) / bytes < PAGES_AT_ONCE ? (m->end - from) / bytes : PAGES_AT_ONCE;
		size_t k = pages_present(w, m, from, n, pages);

		runs_read(w, pages, k);
		w->pages += k;
		w->space += n;
		from += n * bytes;
	}
	return from;
}

/* No allocator gives out a library's data. */
static bool in_part(enum memory_part part, const struct mapping *m)
{
	bool near = m->end - m->start <= NEAR_BYTES || !strcmp(m->path, "[heap]");

	return part == MEMORY_ALL || (*m->path != '/' && near == (part == MEMORY_NEAR));
}

static bool worth_reading(const struct mapping *m)
{
	return !m->shared && (m->prot & MAPPING_WRITE) && (m->prot & MAPPING_READ) && strncmp(m->path, "/dev/", 5) &&
	       strcmp(m->path, "[vvar]");
}

void memory_walk_slice(struct memory_walk *w)
{
	const struct maps *maps = &w->memory->maps;

	w->next = w->pages = w->space = 0;
	for (size_t i = 0; i < maps->n && !w->next; i++) {
		const struct mapping *m = &maps->rows[i];
		uint64_t from = m->start > w->from ? m->start : w->from;

		if (from >= m->end || !worth_reading(m) || !in_part(w->part, m))
			continue;
		from = mapping_walk(w, m, from);
		w->next = slice_full(w) ? from : 0;
	}
}
