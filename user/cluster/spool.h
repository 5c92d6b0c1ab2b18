/* SPDX-License-Identifier: Apache-2.0
 *
 * spool.h - messages that wait for the bus, in order, in a bounded room: of a cut that lasts longer the oldest go.
 */
#ifndef RANKTRACE_CLUSTER_SPOOL_H
#define RANKTRACE_CLUSTER_SPOOL_H

#include <stddef.h>
#include <stdint.h>

struct spool;

struct spool *spool_new(size_t bytes_max); /* NULL: no memory */
void spool_free(struct spool *s);
/* Copies it behind the others; how many had to go for it (itself, where it is larger than the spool, or without
 * memory). */
size_t spool_put(struct spool *s, const void *data, size_t len);
/* The oldest; NULL: there is none. Valid until the next call. */
const void *spool_first(const struct spool *s, size_t *ret_len);
void spool_drop(struct spool *s); /* the oldest */
size_t spool_count(const struct spool *s);

#endif
