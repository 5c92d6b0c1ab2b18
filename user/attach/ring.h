/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - the BPF ring buffers: one per class and NUMA node, made here, filled by bpf/record.bpf.h, emptied here.
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
	/* Gets each record (to be copied). A negative return ends the consuming. */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
};

/* NUMA nodes with CPUs; node 0 alone where the kernel does not tell. */
uint64_t ring_nodes_read(void);
/* "0-1,4" as the kernel prints sets, as a bit mask; nodes past RING_NODES_MAX are left out. 0 for nonsense. */
uint64_t ring_nodes_parse(const char *list);

/* Make the rings. 0 or -errno. */
int ring_open(const struct ring_cfg *cfg, struct ring_source **ret);
void ring_free(struct ring_source *r);
/* Any of the rings: what the array of maps takes as its kind of inner map. */
int ring_template_fd(const struct ring_source *r);
/* Put the rings into the kernel side's maps `rings` and `ring_states`. 0 or -errno. */
int ring_publish(struct ring_source *r, int rings_fd, int states_fd);
/* For poll(): readable once a ring has filled past a quarter since the last ring_consume(). */
int ring_wake_fd(const struct ring_source *r);
/* Address space that the mapped rings fill, as this process' resident memory counts it. */
uint64_t ring_bytes_mapped(const struct ring_source *r);
/* Take what there is, of each ring at most once its size. 0, 1 if that left something, or -errno (of `emit` too). */
int ring_consume(struct ring_source *r);

#endif
