/* SPDX-License-Identifier: Apache-2.0
 *
 * symbolize.c - frames are grouped by file, each file is asked once for all its frames, and what it said is kept: in a
 * hung job the same few stacks come back from every rank.
 */
#include "inspect/stack/symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define CACHE_MAX 16384
#define NAMES_DEADLINE_MS 500

struct name_key {
	uint8_t build_id[ELF_BUILD_ID_MAX];
	uint32_t reserved;
	uint64_t offset;
};

struct name_row {
	struct name_key key;
	uint64_t delta;
	UT_hash_handle hh;
	char name[];
};

struct symbolizer {
	struct reader *reader;
	struct name_row *cache;
};

struct frame {
	uint64_t addr;
	const struct mapping *row;      /* NULL: no mapping */
	const struct target_file *file; /* NULL: not a file we have */
	uint64_t offset;                /* in the file, of the instruction itself */
};

int symbolizer_new(struct reader *r, struct symbolizer **ret)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->reader = r;
	*ret = s;
	return 0;
}

static void cache_clear(struct symbolizer *s)
{
	struct name_row *row, *next;

	HASH_ITER (hh, s->cache, row, next) {
		HASH_DEL(s->cache, row);
		free(row);
	}
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	cache_clear(s);
	free(s);
}

static struct name_key key_of(const struct frame *f)
{
	struct name_key key = { .offset = f->offset };

	memcpy(key.build_id, f->file->facts.build_id, f->file->facts.build_id_len);
	return key;
}

static const struct name_row *cache_find(const struct symbolizer *s, const struct frame *f)
{
	struct name_key key = key_of(f);
	struct name_row *row = NULL;

	HASH_FIND(hh, s->cache, &key, sizeof(key), row);
	return row;
}

static void cache_add(struct symbolizer *s, const struct frame *f, const struct elf_name *name)
{
	size_t len = strlen(name->name);
	struct name_row *row = cache_find(s, f) ? NULL : malloc(sizeof(*row) + len + 1);

	if (!row)
		return;
	row->key = key_of(f);
	row->delta = name->delta;
	memcpy(row->name, name->name, len + 1);
	HASH_ADD(hh, s->cache, key, sizeof(row->key), row);
}

static void place_frame(const struct target_proc *p, struct frame *f, bool is_return)
{
	f->row = maps_find(&p->maps, f->addr);
	if (!f->row)
		return;
	const struct target_lib *lib = f->row->inode ? target_proc_lib(p, f->row) : NULL;

	f->file = lib && !lib->file->error ? lib->file : NULL;
	/* A return address may be the first byte of the next function: look at the call before it. */
	f->offset = mapping_file_offset(f->row, f->addr) - (is_return && f->addr > f->row->start);
}

/* Asks one file for all frames that lie in it and are not known yet. */
static void ask_file(struct symbolizer *s, const struct target_file *file, const struct frame *frames, size_t n)
{
	uint64_t offsets[SYMBOLIZE_FRAMES_MAX];
	const struct frame *asked[SYMBOLIZE_FRAMES_MAX];
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (frames[i].file == file && !cache_find(s, &frames[i])) {
			asked[count] = &frames[i];
			offsets[count++] = frames[i].offset;
		}
	struct elf_name *names = count && file->fd >= 0 ? calloc(count, sizeof(*names)) : NULL;

	if (names && !elf_fetch_names(s->reader, file->fd, offsets, count, NAMES_DEADLINE_MS, names))
		for (size_t i = 0; i < count; i++)
			cache_add(s, asked[i], &names[i]);
	free(names);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static int print_frame(const struct symbolizer *s, const struct frame *f, bool is_return, char *to, size_t size)
{
	const struct name_row *name = f->file ? cache_find(s, f) : NULL;
	unsigned long long back = is_return && f->row && f->addr > f->row->start;

	if (!f->row)
		return snprintf(to, size, "0x%llx (?)", (unsigned long long)f->addr);
	if (!f->row->path[0])
		return snprintf(to, size, "0x%llx (anonymous)", (unsigned long long)f->addr);
	if (name && name->name[0])
		return snprintf(to, size, "%s+0x%llx (%s)", name->name, (unsigned long long)name->delta + back,
				base_name(f->row->path));
	return snprintf(to, size, "%s+0x%llx", base_name(f->row->path), (unsigned long long)f->offset + back);
}

int symbolizer_stack(struct symbolizer *s, const struct target_proc *p, const uint64_t addrs[], size_t n, char *to,
		     size_t size)
{
	struct frame frames[SYMBOLIZE_FRAMES_MAX] = { 0 };
	char line[ELF_SYMBOL_NAME_MAX + 320];
	size_t used = 0, lines = 0;

	if (size)
		to[0] = '\0';
	n = n < SYMBOLIZE_FRAMES_MAX ? n : SYMBOLIZE_FRAMES_MAX;
	if (HASH_COUNT(s->cache) > CACHE_MAX - n)
		cache_clear(s);
	for (size_t i = 0; i < n; i++) {
		frames[i].addr = addrs[i];
		place_frame(p, &frames[i], i > 0);
	}
	for (size_t i = 0; i < n; i++)
		if (frames[i].file && !cache_find(s, &frames[i]))
			ask_file(s, frames[i].file, frames, n);
	for (; lines < n; lines++) {
		print_frame(s, &frames[lines], lines > 0, line, sizeof(line));
		size_t len = strlen(line) + (lines > 0);

		if (used + len >= size)
			break;
		snprintf(to + used, size - used, "%s%s", lines ? "\n" : "", line);
		used += len;
	}
	return lines;
}
