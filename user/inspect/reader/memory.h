/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h - the memory of a live process as three open files, for the jobs of a parser that walk it. Linux checks the
 * right to look when such a file is opened, which a reader does: who holds it reads this process and no other, needs no
 * right for that, and cannot write. The files belong to one address space: after an exec, or in a process that got the
 * same number, they read nothing.
 */
#ifndef RANKTRACE_TARGET_MEMORY_H
#define RANKTRACE_TARGET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inspect/reader/maps.h"

enum memory_file { MEMORY_BYTES, MEMORY_PAGES, MEMORY_MAPS, MEMORY_FILES }; /* /proc/PID/mem, pagemap, maps */

struct memory {
	int bytes, pages;
	uint64_t page_bytes; /* of the kernel: what pagemap counts in */
	struct maps maps;    /* as they were at memory_open() */
};

/* All three, of one process even if its number is given to another meanwhile. 0, -errno (-ESRCH, -EACCES). */
int memory_files_open(pid_t pid, int fds[MEMORY_FILES]);
/* Of files that stay the caller's. 0, -errno; -ESRCH where the process has no memory any more. */
int memory_open(const int fds[MEMORY_FILES], struct memory *ret);
void memory_free(struct memory *m);

enum memory_page {
	MEMORY_GONE,    /* reading it would make the kernel create it, in the target; or a device has it */
	MEMORY_SWAPPED, /* on disk */
	MEMORY_PRESENT,
};
/* Of up to `n` pages from `addr` on, which lies in `row`; how many are known. */
size_t memory_pages(const struct memory *m, const struct mapping *row, uint64_t addr, size_t n, uint8_t *ret);
/* The bytes, wherever they lie; a hole ends it. How many. Makes no page. */
size_t memory_read_part(const struct memory *m, uint64_t addr, void *to, size_t len);
static inline bool memory_read(const struct memory *m, uint64_t addr, void *to, size_t len)
{
	return memory_read_part(m, addr, to, len) == len;
}

#endif
