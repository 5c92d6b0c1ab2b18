/* SPDX-License-Identifier: Apache-2.0
 *
 * mount.h - which mount a file is on, and what serves it. Nothing here touches the file system itself, which may not
 * answer: only lists in /proc are read.
 */
#ifndef RANKTRACE_TARGET_MOUNT_H
#define RANKTRACE_TARGET_MOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct target_evidence;

#define MOUNT_ID_UNKNOWN (-1)

/*
 * From a file as /proc/PID/mountinfo: the mount with that number; MOUNT_ID_UNKNOWN: the one that holds `path`, by the
 * names of the mount points, of which the last one counts that lies over others. As text "/data (nfs4 filer:/export,
 * 0:52)": mount point, type, source, device number. False: none, or the file cannot be read; `to` is "" then.
 */
bool mount_find(const char *mountinfo, int id, const char *path, char *to, size_t size);

/* The same, of the file system with that device number: of several mounts of it the one of all of it, with the shortest
 * path. */
bool mount_of_device(const char *mountinfo, unsigned int major, unsigned int minor, char *to, size_t size);

/* Of the file that this call of a process is about; "" where it is about none, or that is not known. */
void mount_of_evidence(uint32_t tgid, const struct target_evidence *e, char *to, size_t size);

#endif
