/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.h - which ports have a link with which, in rounds: the links of a round run at once. Pure.
 */
#ifndef STRESS_RDMA_SHAPE_H
#define STRESS_RDMA_SHAPE_H

#include "tools/stress/verbs/rdma.h"

struct shape_port {
	int index; /* of the fleet */
	int host;
	int name;    /* the same number for ports of one name ("mlx5_0:1") on all hosts: a rail */
	int network; /* the same number for ports that need no router between them; -1: it is not known */
	int layer;   /* Ethernet and InfiniBand have no link */
};

struct shape_link {
	int from, to; /* indices of the fleet */
};

/* Fills round 0, 1... of a shape over these ports; at most n links. 0: there are no more rounds. An empty round of
 * those between is -1. */
int shape_round(enum rdma_shape shape, const struct shape_port *ports, int n, int round, struct shape_link *links);

#endif
