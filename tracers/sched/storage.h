/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.h - user space's half of what storage.bpf.h counts: which system calls are about files, and a record of each
 * sum that grew, with the mount of its file system. In tier watch nothing is counted: switches are not followed there.
 */
#ifndef RANKTRACE_SCHED_STORAGE_H
#define RANKTRACE_SCHED_STORAGE_H

#include <stdint.h>

#include "tracer.h"
#include "tracers/sched/wire/storage.h"

struct storage_seen;

struct storage_scan { /* zeroed at first */
	struct storage_seen *seen;
};

/* What calls of that number do, | STORAGE_BY_PATH (sched.h); STORAGE_NONE: they are about no file. */
uint32_t storage_call_act(uint32_t nr);
int storage_start(struct tracer_handle *h); /* 0 or -errno */
/* Emits what grew; forgets processes that are no targets any more. 0 or -errno. */
int storage_scan_tick(struct tracer_handle *h, struct storage_scan *s, uint64_t now_ns);
void storage_scan_free(struct storage_scan *s);

#endif
