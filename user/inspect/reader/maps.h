/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.h - the text of /proc/PID/maps as rows. No I/O. The text is the target's to shape (file names): limits apply.
 */
#ifndef RANKTRACE_TARGET_MAPS_H
#define RANKTRACE_TARGET_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPS_ROWS_MAX 131072

enum mapping_prot { MAPPING_READ = 1, MAPPING_WRITE = 2, MAPPING_EXEC = 4 };

struct mapping {
	uint64_t start, end;           /* addresses, end exclusive */
	uint64_t offset;               /* in the file, bytes */
	uint64_t inode;                /* 0: not a file */
	uint32_t dev_major, dev_minor; /* as the kernel shows them; on overlayfs and btrfs not what stat says */
	uint8_t prot;                  /* enum mapping_prot */
	bool shared;
	bool deleted;     /* path carried " (deleted)", now cut off */
	const char *path; /* in the target's mount namespace; "[heap]"; "" anonymous. Lives as long as the maps */
};

struct maps {
	struct mapping *rows; /* ascending, never overlapping */
	size_t n;
	size_t n_dropped; /* rows that overlapped the one before: the text was torn while it was read */
	char *text;
};

/* Parses; the result owns its copy. -EBADMSG on a malformed line, -E2BIG past MAPS_ROWS_MAX, -ENOMEM. */
int maps_parse(const char *text, size_t len, struct maps *ret);
/* Frees the contents; a zeroed struct is fine. */
void maps_free(struct maps *m);
/* The row that holds the address, or NULL. */
const struct mapping *maps_find(const struct maps *m, uint64_t addr);
/* The address as an offset into the mapped file. */
static inline uint64_t mapping_file_offset(const struct mapping *m, uint64_t addr)
{
	return addr - m->start + m->offset;
}

#endif
