/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_walk.c - see memory_walk.h.
 */
#include "inspect/reader/memory_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGES_AT_ONCE 1024     /* whose presence is asked for at once */
#define RUN_BYTES (1u << 18)   /* read at once: what fits in a core's cache */
#define SLICE_SPACE (4u << 20) /* pages of address space whose presence is asked for in a slice: 16 GB */
#define MAPS_CAP (48u << 20)
#define NEAR_BYTES (256ull << 20) /* arenas of malloc are 64 MB, and neighbours are one mapping */

bool memory_read(pid_t pid, uint64_t addr, void *to, size_t len)
{
	struct iovec here = { to, len }, there = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

/* Every word of a run of present pages. A page that went meanwhile ends the run: the next ones are read by themselves.
 */
static void run_read(struct memory_walk *w, uint64_t addr, size_t len)
{
	static uint64_t words[RUN_BYTES / 8];

	while (len) {
		struct iovec here = { words, len }, there = { (void *)(uintptr_t)addr, len };
		ssize_t got = process_vm_readv(w->pid, &here, 1, &there, 1, 0);
		size_t step = got > 0 ? (size_t)got : w->page_bytes;

		if (got > 0)
			w->words(w->of, addr, words, (size_t)got / 8);
		step = step < len ? step : len;
		addr += step;
		len -= step;
	}
}

static void runs_read(struct memory_walk *w, const uint64_t *pages, size_t n)
{
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1;
		     k < n && pages[k] == pages[k - 1] + w->page_bytes && (k - i) * w->page_bytes < RUN_BYTES; k++)
			;
		run_read(w, pages[i], (k - i) * w->page_bytes);
	}
}

/* The present ones of up to PAGES_AT_ONCE pages from `addr`. */
static size_t pages_present(struct memory_walk *w, uint64_t addr, size_t n, uint64_t *pages)
{
	static uint64_t entries[PAGES_AT_ONCE];
	ssize_t got = pread(w->pagemap, entries, n * 8, addr / w->page_bytes * 8);
	size_t k = 0;

	for (ssize_t i = 0; i < got / 8; i++)
		if (entries[i] >> 63) /* present; bit 62: swapped out, left alone */
			pages[k++] = addr + i * w->page_bytes;
	return k;
}

static bool slice_full(const struct memory_walk *w)
{
	return w->pages >= w->pages_max || w->space >= SLICE_SPACE;
}

/* Up to which address it was sampled. */
static uint64_t mapping_walk(struct memory_walk *w, uint64_t from, uint64_t end)
{
	static uint64_t pages[PAGES_AT_ONCE];

	while (from < end && !slice_full(w)) {
		size_t n = (end - from) / w->page_bytes < PAGES_AT_ONCE ? (end - from) / w->page_bytes : PAGES_AT_ONCE;
		size_t k = pages_present(w, from, n, pages);

		runs_read(w, pages, k);
		w->pages += k;
		w->space += n;
		from += n * w->page_bytes;
	}
	return from;
}

static bool in_part(enum memory_part part, const struct mapping *m)
{
	bool near = m->end - m->start <= NEAR_BYTES || !strcmp(m->path, "[heap]");

	return part == MEMORY_ALL || near == (part == MEMORY_NEAR);
}

static bool worth_reading(const struct mapping *m)
{
	return !m->shared && (m->prot & MAPPING_WRITE) && (m->prot & MAPPING_READ) && strncmp(m->path, "/dev/", 5) &&
	       strcmp(m->path, "[vvar]");
}

int memory_maps_load(pid_t pid, struct maps *ret)
{
	char path[64], *text = NULL, *grown;
	size_t len = 0, cap = 1 << 16;
	ssize_t n = 1;
	int fd, err = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (!err && n > 0) {
		grown = len + 4096 > cap || !text ? realloc(text, cap *= 2) : text;
		if (!grown || cap > MAPS_CAP) {
			err = grown ? -E2BIG : -ENOMEM;
			text = grown ? grown : text;
			break;
		}
		text = grown;
		n = read(fd, text + len, cap - len);
		len += n > 0 ? n : 0;
	}
	if (!err)
		err = n < 0 ? -errno : maps_parse(text, len, ret);
	close(fd);
	free(text);
	return err;
}

int memory_walk_slice(struct memory_walk *w, const struct maps *maps)
{
	char path[64];

	w->next = w->pages = w->space = 0;
	w->page_bytes = sysconf(_SC_PAGESIZE);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", w->pid);
	w->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (w->pagemap < 0)
		return -errno;
	for (size_t i = 0; i < maps->n && !w->next; i++) {
		const struct mapping *m = &maps->rows[i];
		uint64_t from = m->start > w->from ? m->start : w->from;

		if (from >= m->end || !worth_reading(m) || !in_part(w->part, m))
			continue;
		from = mapping_walk(w, from, m->end);
		w->next = slice_full(w) ? from : 0;
	}
	close(w->pagemap);
	return 0;
}
