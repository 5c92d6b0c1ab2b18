/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_scan.c - the slices of a scan: each reads the maps anew (they change under us), goes on where the last one ended
 * and gives up after so many pages, so that no call outlasts its deadline. scan_slice() and what is above it run in the
 * helper and depend on their argument alone.
 */
#include "target/nccl_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/maps.h"
#include "target/nccl_state.h"
#include "target/reader.h"

#define PAGES_AT_ONCE 1024        /* whose presence is asked for at once */
#define RUN_BYTES (1u << 18)      /* read at once: what fits in a core's cache */
#define SLICE_PAGES (64u << 10)   /* read in one call: 256 MB */
#define SLICE_SPACE (4u << 20)    /* pages of address space whose presence is asked for: 16 GB */
#define SPACE_MAX (64u << 20)     /* of a whole scan: 256 GB */
#define CHECKS_MAX 100000         /* magic numbers followed up in one slice */
#define MAPS_CAP (48u << 20)
#define DEADLINE_MS 1000          /* of a slice, while it sleeps; it may run for longer on a busy machine */

struct slice_arg {
	pid_t pid;
	uint32_t n_layouts;
	uint64_t from;       /* address */
	struct nccl_layout layouts[NCCL_LAYOUTS_MAX];
};

struct slice_answer {
	uint64_t next;       /* address to go on at; 0 the end */
	uint64_t pages, space;
	uint32_t n, cut;
	struct nccl_place places[NCCL_PLACES_MAX];
};

struct scan { /* one slice at work */
	const struct slice_arg *arg;
	struct slice_answer *out;
	uint64_t page;       /* bytes */
	int pagemap;
	uint32_t checks;
};

/* --- in the helper --- */

static bool field_read(pid_t pid, uint64_t addr, void *to, size_t len)
{
	struct iovec here = { to, len }, there = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

static bool place_fits(pid_t pid, const struct nccl_layout *l, uint64_t comm)
{
	uint64_t magic = 0, end_magic = 0, hash = 0;
	int rank = -1, nranks = 0;

	return field_read(pid, comm + l->end_magic, &end_magic, 8) && end_magic == NCCL_MAGIC &&
	       field_read(pid, comm + l->magic, &magic, 8) && field_read(pid, comm + l->hash, &hash, 8) &&
	       field_read(pid, comm + l->rank, &rank, 4) && field_read(pid, comm + l->nranks, &nranks, 4) &&
	       nccl_identity_sane(magic, end_magic, hash, rank, nranks);
}

/* A magic number lies at `addr`. Where two layouts fit, nobody knows which is right. */
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

		if (addr < s->arg->layouts[i].magic || !place_fits(s->arg->pid, &s->arg->layouts[i], comm))
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

/* Every word of a run of present pages. A page that went meanwhile ends the run: the next ones are read by themselves. */
static void run_read(struct scan *s, uint64_t addr, size_t len)
{
	static uint64_t words[RUN_BYTES / 8];

	while (len) {
		struct iovec here = { words, len }, there = { (void *)(uintptr_t)addr, len };
		ssize_t got = process_vm_readv(s->arg->pid, &here, 1, &there, 1, 0);
		size_t step = got > 0 ? (size_t)got : s->page;

		for (size_t i = 0; got > 0 && i < (size_t)got / 8; i++)
			if (words[i] == NCCL_MAGIC)
				magic_found(s, addr + 8 * i);
		step = step < len ? step : len;
		addr += step;
		len -= step;
	}
}

static void runs_read(struct scan *s, const uint64_t *pages, size_t n)
{
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && pages[k] == pages[k - 1] + s->page && (k - i) * s->page < RUN_BYTES; k++)
			;
		run_read(s, pages[i], (k - i) * s->page);
	}
}

/* The present ones of up to PAGES_AT_ONCE pages from `addr`. */
static size_t pages_present(struct scan *s, uint64_t addr, size_t n, uint64_t *pages)
{
	static uint64_t entries[PAGES_AT_ONCE];
	ssize_t got = pread(s->pagemap, entries, n * 8, addr / s->page * 8);
	size_t k = 0;

	for (ssize_t i = 0; i < got / 8; i++)
		if (entries[i] >> 63) /* present; bit 62: swapped out, left alone */
			pages[k++] = addr + i * s->page;
	return k;
}

static bool slice_full(const struct scan *s)
{
	return s->out->pages >= SLICE_PAGES || s->out->space >= SLICE_SPACE;
}

/* Up to which address it was looked at. */
static uint64_t mapping_scan(struct scan *s, uint64_t from, uint64_t end)
{
	static uint64_t pages[PAGES_AT_ONCE];

	while (from < end && !slice_full(s)) {
		size_t n = (end - from) / s->page < PAGES_AT_ONCE ? (end - from) / s->page : PAGES_AT_ONCE;
		size_t k = pages_present(s, from, n, pages);

		runs_read(s, pages, k);
		s->out->pages += k;
		s->out->space += n;
		from += n * s->page;
	}
	return from;
}

static bool worth_a_look(const struct mapping *m)
{
	return !m->shared && (m->prot & MAPPING_WRITE) && (m->prot & MAPPING_READ) && strncmp(m->path, "/dev/", 5) &&
	       strcmp(m->path, "[vvar]");
}

static int maps_load(pid_t pid, struct maps *ret)
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

static int scan_slice(struct reader_job *job)
{
	struct scan s = { .arg = job->arg, .out = (void *)job->out, .page = sysconf(_SC_PAGESIZE) };
	struct maps maps = { 0 };
	char path[64];
	int err = maps_load(s.arg->pid, &maps);

	*s.out = (struct slice_answer){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/pagemap", s.arg->pid);
	s.pagemap = err ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (!err && s.pagemap < 0)
		err = -errno;
	for (size_t i = 0; !err && i < maps.n && !s.out->next; i++) {
		const struct mapping *m = &maps.rows[i];
		uint64_t from = m->start > s.arg->from ? m->start : s.arg->from;

		if (from >= m->end || !worth_a_look(m))
			continue;
		from = mapping_scan(&s, from, m->end);
		s.out->next = slice_full(&s) ? from : 0;
	}
	if (s.pagemap >= 0)
		close(s.pagemap);
	maps_free(&maps);
	job->out_len = sizeof(*s.out);
	return err;
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

int nccl_scan(struct reader *r, pid_t pid, const struct nccl_layout *layouts, size_t n_layouts,
	      struct nccl_places *ret)
{
	struct slice_arg arg = { .pid = pid, .n_layouts = n_layouts };
	struct slice_answer a;
	uint64_t space = 0;
	size_t len;
	int err;

	*ret = (struct nccl_places){ 0 };
	if (n_layouts > NCCL_LAYOUTS_MAX)
		return -E2BIG;
	memcpy(arg.layouts, layouts, n_layouts * sizeof(*layouts));
	do {
		err = reader_run(r, pid, scan_slice, &arg, sizeof(arg), -1, DEADLINE_MS, &a, sizeof(a), &len, NULL);
		if (!err && (len != sizeof(a) || (a.next && a.next <= arg.from)))
			err = -EPROTO;
		if (err)
			break;
		places_add(ret, &a);
		space += a.space;
		arg.from = a.next;
	} while (a.next && space < SPACE_MAX);
	ret->cut |= !err && a.next;
	return err;
}
