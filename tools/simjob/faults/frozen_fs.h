/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems to block in: one small ext4 on a loop device for each D-state fault, in a mount namespace of the job's
 * own, and a guardian process that freezes them on request and thaws them whatever happens to the rest of the job.
 * Nothing of it has a name outside: the image is an unlinked memory file, the loop device clears itself.
 */
#ifndef SIMJOB_FROZEN_FS_H
#define SIMJOB_FROZEN_FS_H

#include "tools/simjob/job/options.h"
#include "tools/simjob/job/store.h"

struct frozen_fs {
	int request_fd; /* ranks ask the guardian through it; -1: there is no frozen file system */
	int guardian_pid;
	char path[256]; /* "path/N" is fault N's */
	bool is_mounted;
};

struct freeze_request {
	int32_t fault_index;
	double duration_s;
};

/* Sets up what the faults need. On failure request_fd stays -1, the reason is on stderr, and the ranks do without. */
void frozen_fs_create(struct frozen_fs *fs, const struct options *options, struct store *store);
/* Thaws, unmounts and waits for the guardian. */
void frozen_fs_destroy(struct frozen_fs *fs);

#endif
