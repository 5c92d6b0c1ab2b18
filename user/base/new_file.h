/* SPDX-License-Identifier: Apache-2.0
 *
 * new_file.h - a file that we write: its owner's alone to read, and never one that another user's link leads to. What
 * is written here says what jobs do, and folders may be shared (/tmp).
 */
#ifndef RANKTRACE_BASE_NEW_FILE_H
#define RANKTRACE_BASE_NEW_FILE_H

/* Opens `path` for writing, empty, readable for its owner alone where it is new. A pipe or a device, links to it
 * followed, is opened as it is. The descriptor, or -errno: -ELOOP a link that leads to a file or to none. */
int new_file_open(const char *path);

#endif
