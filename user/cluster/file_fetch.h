/* SPDX-License-Identifier: Apache-2.0
 *
 * file_fetch.h - a file that an agent answered with (ask.h), from its pieces on the bus into memory.
 */
#ifndef RANKTRACE_CLUSTER_FILE_FETCH_H
#define RANKTRACE_CLUSTER_FILE_FETCH_H

#include "cluster/ask.h"

#define FILE_BYTES_MAX (64u << 20)

/* 0: *ret_fd is the whole file, or -1 where head->error says why that host has none. -ENOENT: it is not there, yet;
 * -EBADMSG: pieces of it are gone, or it is none of ours; or of the bus. */
int file_fetch(struct bus *b, int64_t user, const char *id, const char *host, struct file_head *head, int *ret_fd);

#endif
