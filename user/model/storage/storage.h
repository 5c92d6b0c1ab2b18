/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.h - how long processes are blocked on file systems, by the kind of call, and the names of both. The lists
 * hang in struct proc.
 */
#ifndef RANKTRACE_MODEL_STORAGE_H
#define RANKTRACE_MODEL_STORAGE_H

#include "model/model.h"

struct storage { /* how long calls of one kind on one file system were blocked */
	struct storage_sum sum;
	const char *mount, *file; /* as event.h has them */
	struct storage *next;
};

/* The mount of a file system that the process, or its rank, was blocked on (STORAGE_AT()), as "/data (nfs4
 * filer:/export, 0:52)"; "" not known. Act: "read". */
const char *storage_mount(const struct proc *p, uint32_t at);
const char *storage_act_name(uint32_t at);
struct mount_parts {
	char point[256], type[32], source[128]; /* "" not known */
};
void mount_split(const char *mount, struct mount_parts *ret); /* of such a text */

#endif
