/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h - a host of the job: what is the host's own, and no rank's. A live session has one, number 0; a merge or a
 * hub has as many as send records. A pid, a GPU's index, a device's name mean something on their host only. Included
 * by model.h.
 */
#ifndef RANKTRACE_MODEL_NODE_H
#define RANKTRACE_MODEL_NODE_H

#include "event.h"
#include "model/gpu.h"
#include "model/port.h"
#include "model/qp.h"
#include "model/tcp.h"

#define NODES_MAX 65536
#define NODE_CLOCK_UNKNOWN UINT64_MAX

struct node {
	uint32_t number;         /* in the stream: event.node */
	const char *boot_id;     /* "" unknown */
	const char *name;        /* "" not known */
	int64_t clock_offset_ns; /* what was added to its clock to get the stream's */
	uint64_t clock_error_ns; /* of that; NODE_CLOCK_UNKNOWN: times of two hosts do not compare */
	uint64_t silent_ns;      /* its newest report, long since: what its ranks do now is not known; 0: it reports */
	bool partial;     /* it has ranks of its jobs that were not asked for: one that is not seen may be there */
	size_t n_procs;   /* kept now, the dead included */
	size_t n_members; /* of its processes in communicators, kept now */
	struct gpus gpus;
	struct port *ports;       /* of its RDMA devices, by index */
	struct tcp_places *tcp;   /* NULL none */
	struct own_gids *own;     /* addresses of these ports */
	struct pressure pressure; /* of the host as a whole */
};

struct model;

/* For the model's own files. */
struct node *node_get(struct model *m, uint32_t number);  /* makes it; NULL without memory, or past NODES_MAX */
int node_apply(struct model *m, const struct event *e);   /* NODE */
int node_heard(struct model *m, const struct event *e);   /* NODE_HEARD */
int node_partial(struct model *m, const struct event *e); /* PARTIAL */

#endif
