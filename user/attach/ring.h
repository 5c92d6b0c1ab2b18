/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - the BPF ring buffers, one per class and NUMA node: made here, filled by bpf/record.bpf.h, emptied here.
 */
#ifndef RANKTRACE_RING_H
#define RANKTRACE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/ring.h"

struct ring_source;

struct ring_cfg {
	size_t bytes[RING_CLASSES]; /* of each ring of the class: a power of two, whole pages */
	uint64_t nodes;             /* bit n: NUMA node n has CPUs */
	/* Gets each record and must copy it. A negative return stops the consuming. */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
};

/* NUMA nodes with CPUs; only node 0 if the kernel does not list them. */
uint64_t ring_nodes_read(void);
/* Parses "0-1,4" as the kernel prints sets into a bit mask; leaves out nodes past RING_NODES_MAX. 0: cannot be
 * parsed. */
uint64_t ring_nodes_parse(const char *list);

/* Makes the rings. 0 or -errno. */
int ring_open(const struct ring_cfg *cfg, struct ring_source **ret);
void ring_free(struct ring_source *r);
/* Any ring: the array of maps needs one as template of its inner maps. */
int ring_template_fd(const struct ring_source *r);
/* Puts the rings into the BPF programs' maps `rings` and `ring_states`. 0 or -errno. */
int ring_publish(struct ring_source *r, int rings_fd, int states_fd);
/* For poll(): readable once a ring filled past a quarter since the last ring_consume(). */
int ring_wake_fd(const struct ring_source *r);
/* Address space of the mapped rings, as this process' resident memory counts it. */
uint64_t ring_bytes_mapped(const struct ring_source *r);
/* Takes what the rings hold, at most one ring size each. 0, 1 if something is left, or -errno (of `emit` too). */
int ring_consume(struct ring_source *r);

#endif
