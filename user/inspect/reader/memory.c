/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - which pages may be read. /proc/PID/mem reads more than process_vm_readv(): what a program may not read
 * itself, and the registers of a device whose driver allows that. Neither is wanted.
 */
#include "inspect/reader/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_CAP (48u << 20)
#define PAGES_AT_ONCE 1024
/* Of an entry of pagemap. */
#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)
#define PAGE_OF_FILE (1ull << 61)

/* By way of the directory, which is that process' for good. */
int memory_files_open(pid_t pid, int fds[MEMORY_FILES])
{
	static const char *const names[MEMORY_FILES] = { "mem", "pagemap", "maps" };
	char path[32];
	int err = 0, n = 0, dir;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = dir < 0 ? -errno : 0;
	for (; !err && n < MEMORY_FILES; n += !err) {
		fds[n] = openat(dir, names[n], O_RDONLY | O_CLOEXEC);
		err = fds[n] < 0 ? -errno : 0;
	}
	while (err && n)
		close(fds[--n]);
	if (dir >= 0)
		close(dir);
	return err == -ENOENT ? -ESRCH : err;
}

static int maps_load(int fd, struct maps *ret)
{
	size_t len = 0, cap = 1 << 16;
	char *text = NULL, *grown;
	ssize_t n = 1;
	int err = 0;

	while (!err && n > 0) {
		grown = len + 4096 > cap || !text ? realloc(text, cap *= 2) : text;
		if (!grown || cap > MAPS_CAP) {
			err = grown ? -E2BIG : -ENOMEM;
			text = grown ? grown : text;
			break;
		}
		text = grown;
		n = pread(fd, text + len, cap - len, len);
		len += n > 0 ? n : 0;
	}
	if (!err)
		err = n < 0 ? -errno : !len ? -ESRCH : maps_parse(text, len, ret);
	free(text);
	return err;
}

int memory_open(const int fds[MEMORY_FILES], struct memory *ret)
{
	*ret = (struct memory){ .bytes = fds[MEMORY_BYTES],
				.pages = fds[MEMORY_PAGES],
				.page_bytes = sysconf(_SC_PAGESIZE) };
	return maps_load(fds[MEMORY_MAPS], &ret->maps);
}

void memory_free(struct memory *m)
{
	maps_free(&m->maps);
}

/* A shared mapping of a file has pages of that file, or it is a device's. */
static enum memory_page page_of(const struct mapping *row, uint64_t entry)
{
	if (row->shared && !(entry & PAGE_OF_FILE))
		return MEMORY_GONE;
	return entry & PAGE_PRESENT ? MEMORY_PRESENT : entry & PAGE_SWAPPED ? MEMORY_SWAPPED : MEMORY_GONE;
}

static bool row_readable(const struct mapping *row)
{
	return row->prot & MAPPING_READ && (row->shared || strncmp(row->path, "/dev/", 5));
}

size_t memory_pages(const struct memory *m, const struct mapping *row, uint64_t addr, size_t n, uint8_t *ret)
{
	static uint64_t entries[PAGES_AT_ONCE];
	ssize_t got;

	if (!row_readable(row))
		return 0;
	n = n < PAGES_AT_ONCE ? n : PAGES_AT_ONCE;
	got = pread(m->pages, entries, n * sizeof(*entries), addr / m->page_bytes * sizeof(*entries));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*entries); i++)
		ret[i] = page_of(row, entries[i]);
	return got > 0 ? got / sizeof(*entries) : 0;
}

size_t memory_read_part(const struct memory *m, uint64_t addr, void *to, size_t len)
{
	const struct mapping *row = NULL;
	size_t done = 0;
	uint8_t page = MEMORY_GONE;

	while (done < len) {
		uint64_t at = addr + done, left = m->page_bytes - at % m->page_bytes;
		size_t part = left < len - done ? left : len - done;

		if (!row || at < row->start || at >= row->end)
			row = maps_find(&m->maps, at);
		if (!row || memory_pages(m, row, at, 1, &page) != 1 || page == MEMORY_GONE)
			break;
		ssize_t got = pread(m->bytes, (char *)to + done, part, at);

		done += got > 0 ? got : 0;
		if (got != (ssize_t)part)
			break;
	}
	return done;
}
