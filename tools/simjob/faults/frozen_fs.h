/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems to block in: one small ext4 on a loop device for each D-state injection, in a mount namespace of the
 * job's own, and a guardian process that freezes them on request and thaws them whatever happens to the rest of the
 * job. Nothing of it has a name outside: the image is an unlinked memory file, the loop device clears itself.
 */
#ifndef SIMJOB_FROZEN_FS_H
#define SIMJOB_FROZEN_FS_H

#include "tools/simjob/job/rank.h"

/* Freezes the injection's file system for its time from now. False: there is none, or the guardian cannot. */
bool frozen_fs_freeze(const struct rank *rank, const struct injection *injection);
/* The path of a file @name in it. */
void frozen_fs_path(const struct injection *injection, const char *name, char *ret_path, size_t size);

#endif
