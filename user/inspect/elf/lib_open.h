/* SPDX-License-Identifier: Apache-2.0
 *
 * lib_open.h - stats and opens the very file behind an executable mapping, in the helper: by map_files (right in every
 * mount namespace, for deleted and for replaced files), else by /proc/PID/root and the path if device and inode agree.
 */
#ifndef RANKTRACE_TARGET_LIB_OPEN_H
#define RANKTRACE_TARGET_LIB_OPEN_H

#include "inspect/reader/maps.h"
#include "inspect/reader/reader.h"

struct lib_stat {
	int32_t rc; /* 0 or -errno; -EINVAL not a regular file; -ESTALE another file lies at the path now */
	uint64_t dev, ino, size, mtime_ns;
};

/* Stats n mappings in few calls; ret has n entries. 0 or an error of reader_run(); per file: rc. */
int lib_stat(struct reader *r, uint32_t pid, const struct mapping *const rows[], size_t n, struct lib_stat *ret);
/* Opens read-only. *ret_st is of the opened file. */
int lib_open(struct reader *r, uint32_t pid, const struct mapping *row, struct lib_stat *ret_st, int *ret_fd);

#endif
