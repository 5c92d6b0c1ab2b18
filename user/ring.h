/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - the consumer side of the BPF ring buffers.
 */
#ifndef RANKTRACE_RING_H
#define RANKTRACE_RING_H

#include <stddef.h>

#include "schemas/wire.h"

struct ring_source;

/* Open the rings of these map fds. `emit` gets each record (to be copied). 0 or -errno. */
int ring_open(const int *map_fds, int n, int (*emit)(void *to, const struct wire_hdr *rec), void *to,
	      struct ring_source **ret);
void ring_free(struct ring_source *r);
/* Take everything there is: number of records or -errno. */
int ring_consume(struct ring_source *r);

#endif
