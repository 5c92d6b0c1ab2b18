/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_memory.c - a target's memory as a cache of pages, each read when it is first wanted.
 */
#include "inspect/stack/stack_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ul
#define SLOTS 4096u       /* pages kept, a power of two: 16 MB of the worker's */
#define READS_MAX 200000u /* pages read for one process, whatever it points us to */
#define ADDRESS_MAX (1ull << 56)

struct slot {
	uint64_t page;  /* address; 0 empty */
	uint32_t round; /* read in that one; any other: empty */
	bool there;
	uint8_t bytes[PAGE];
};

struct stack_memory {
	const struct memory *of;
	unsigned reads;
	uint32_t round;
	struct slot *slots; /* mapped: of memory from the heap calloc() would clear all 16 MB, which took 3 ms of each
			       sample */
	uint64_t over_addr;
	const uint8_t *over;
	size_t over_len;
};

int stack_memory_open(const struct memory *of, struct stack_memory **ret)
{
	struct stack_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->of = of;
	m->slots = mmap(NULL, SLOTS * sizeof(*m->slots), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	m->round = 1;
	if (m->slots != MAP_FAILED) {
		*ret = m;
		return 0;
	}
	free(m);
	return -ENOMEM;
}

void stack_memory_free(struct stack_memory *m)
{
	if (!m)
		return;
	munmap(m->slots, SLOTS * sizeof(*m->slots));
	free(m);
}

void stack_memory_renew(struct stack_memory *m)
{
	m->round++;
	m->reads = 0;
}

static bool page_read(struct stack_memory *m, struct slot *s, uint64_t page)
{
	if (page >= ADDRESS_MAX || m->reads >= READS_MAX)
		return false;
	m->reads++;
	return memory_read(m->of, page, s->bytes, PAGE);
}

static const uint8_t *page_get(struct stack_memory *m, uint64_t page)
{
	struct slot *s = &m->slots[(page / PAGE * 0x9e3779b97f4a7c15ull) >> 52 & (SLOTS - 1)];

	if (s->page != page || s->round != m->round || !page) {
		s->page = page;
		s->round = m->round;
		s->there = page && page_read(m, s, page);
	}
	return s->there ? s->bytes : NULL;
}

void stack_memory_overlay(struct stack_memory *m, uint64_t addr, const void *bytes, size_t len)
{
	m->over_addr = addr;
	m->over = bytes;
	m->over_len = len;
}

/* Bytes at `addr` that the overlay has; else *part is cut to where it begins. */
static const uint8_t *over_get(const struct stack_memory *m, uint64_t addr, size_t *part)
{
	if (!m->over_len || addr + *part <= m->over_addr || addr >= m->over_addr + m->over_len)
		return NULL;
	if (addr < m->over_addr) {
		*part = m->over_addr - addr;
		return NULL;
	}
	if (*part > m->over_addr + m->over_len - addr)
		*part = m->over_addr + m->over_len - addr;
	return m->over + (addr - m->over_addr);
}

bool stack_memory_read(struct stack_memory *m, uint64_t addr, void *to, size_t len)
{
	uint8_t *out = to;

	while (len) {
		size_t at = addr % PAGE, part = PAGE - at < len ? PAGE - at : len;
		const uint8_t *over = over_get(m, addr, &part), *page = over ? NULL : page_get(m, addr - at);

		if (!over && !page)
			return false;
		memcpy(out, over ? over : page + at, part);
		out += part;
		len -= part;
		addr += part;
	}
	return true;
}
