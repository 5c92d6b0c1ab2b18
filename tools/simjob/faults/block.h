/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uninterruptible sleep of the calling thread for the injection's time, on its frozen file system or, where there is
 * none, as the parent of a vfork. The caller reports the end; the beginning is reported here, when all is ready for it.
 */
#ifndef SIMJOB_BLOCK_H
#define SIMJOB_BLOCK_H

#include "tools/simjob/job/rank.h"

/* In the creation of a file. @place: see injection_report(). */
void block_in_create(struct rank *rank, const struct injection *injection, const struct op_place *place);
/*
 * In mmap: one thread writes to a mapped page of the file system, another is in munmap of the same mapping and so holds
 * or awaits mmap_lock, and the caller blocks on that; every reader of /proc/PID/maps blocks, too.
 */
void block_in_mmap(struct rank *rank, const struct injection *injection, const struct op_place *place);

#endif
