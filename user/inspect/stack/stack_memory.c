/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_memory.c - a target's memory as a cache of pages. A page is read only if the kernel says that it is there
 * (pagemap): reading one that is not would make the kernel create it, in the target.
 */
#include "inspect/stack/stack_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096ul
#define SLOTS 4096u          /* pages kept, a power of two: 16 MB of the worker's */
#define READS_MAX 200000u    /* pages read for one process, whatever it points us to */
#define PRESENT (3ull << 62) /* in memory, or swapped out */
#define ADDRESS_MAX (1ull << 56)

struct slot {
	uint64_t page;  /* address; 0 empty */
	uint32_t round; /* read in that one; any other: empty */
	bool there;
	uint8_t bytes[PAGE];
};

struct stack_memory {
	pid_t pid;
	int pagemap;
	size_t page_size; /* of the kernel: what pagemap counts in */
	unsigned reads;
	uint32_t round;
	struct slot *slots; /* mapped: of memory from the heap calloc() would clear all 16 MB, which took 3 ms of each
			       sample */
	uint64_t over_addr;
	const uint8_t *over;
	size_t over_len;
};

int stack_memory_open(pid_t pid, struct stack_memory **ret)
{
	struct stack_memory *m = calloc(1, sizeof(*m));
	char path[64];

	if (!m)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	m->pid = pid;
	m->page_size = sysconf(_SC_PAGESIZE);
	m->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	int rc = m->pagemap < 0 ? -errno : 0;

	m->slots = mmap(NULL, SLOTS * sizeof(*m->slots), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	m->round = 1;
	if (m->slots == MAP_FAILED) {
		m->slots = NULL;
		rc = -ENOMEM;
	}
	if (rc)
		stack_memory_free(m);
	else
		*ret = m;
	return rc == -ENOENT ? -ESRCH : rc;
}

void stack_memory_free(struct stack_memory *m)
{
	if (!m)
		return;
	if (m->pagemap >= 0)
		close(m->pagemap);
	if (m->slots)
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
	struct iovec to = { s->bytes, PAGE }, from = { (void *)(uintptr_t)page, PAGE };
	uint64_t entry = 0;

	if (page >= ADDRESS_MAX || m->reads >= READS_MAX)
		return false;
	m->reads++;
	if (pread(m->pagemap, &entry, sizeof(entry), page / m->page_size * sizeof(entry)) != sizeof(entry))
		return false;
	return (entry & PRESENT) && process_vm_readv(m->pid, &to, 1, &from, 1, 0) == PAGE;
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
