/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_exports.h - which entry points of a library that is NCCL no probe sees: a later version has more.
 */
#ifndef RANKTRACE_NCCL_EXPORTS_H
#define RANKTRACE_NCCL_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>

struct reader;

/* "ncclA, ncclB and 3 more": functions that the file exports, that do something on a stream as far as is known of them,
 * and that are not traced; "" none. How many, or -errno of the parser. */
int nccl_untraced(struct reader *reader, int fd, bool (*is_traced)(const char *name), char *to, size_t size);

#endif
