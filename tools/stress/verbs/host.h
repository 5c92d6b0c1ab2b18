/* SPDX-License-Identifier: Apache-2.0
 *
 * host.h - this host's part: its devices, ports and memory, opened once, and the refusals.
 */
#ifndef STRESS_VERBS_HOST_H
#define STRESS_VERBS_HOST_H

#include "tools/stress/verbs/rdma.h"
#include "tools/stress/run.h"

struct rdma_host {
	const struct stress_options *options;
	struct verbs verbs;
	int n_ports, n_places;
	struct rdma_port ports[RDMA_PORTS_HOST_MAX];
	struct verbs_device_context *contexts[RDMA_PORTS_HOST_MAX]; /* of its device; ports of one share it */
	struct rdma_place places[RDMA_PLACES_MAX];
	struct rdma_left_out *left_out;
	int n_left_out;
	struct stress_run *gpus; /* NULL: none under test */
	char note[256];          /* what of it is not tested, and why; "": nothing */
};

/* STRESS_PASSED; STRESS_USAGE, STRESS_IMPOSSIBLE with `why`: object, cause, remedy. */
int host_open(struct rdma_host *host, const struct stress_options *options, char why[LIBRARY_WHY]);
void host_close(struct rdma_host *host);
/* ports.c: fills what sysfs and verbs say of a port. 0 or the errno of a call. */
int port_read(struct rdma_host *host, struct verbs_device_context *context, struct rdma_port *port);
/* apart.c: fills `apart` of all ports, for all places of the host. */
void places_measure(struct rdma_host *host);
/* The CUDA device of a place; NULL: it is none of this run. */
struct stress_gpu *host_gpu(const struct rdma_host *host, int ordinal);
/* "mlx5_0,mlx5_1:1", "^mlx5_2": is this port one of them? NULL: all are. */
bool devices_have(const char *list, const char *device, int port);

#endif
