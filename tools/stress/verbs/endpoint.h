/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.h - one end of a case: a queue pair of a port (RC, as perftest and NCCL use), its completion queues, and a
 * registered area of memory of the host or of a GPU.
 */
#ifndef STRESS_VERBS_ENDPOINT_H
#define STRESS_VERBS_ENDPOINT_H

#include "tools/stress/verbs/host.h"

#define AREA_BYTES (1u << 20) /* at least; what a check of data moves */
#define RECEIVES_MAX 512

/* What the other end has to know. */
struct rdma_address {
	uint32_t qpn, psn, rkey;
	int32_t lid, link_layer, mtu, reads;
	uint64_t at;
	uint8_t gid[16];
};

struct endpoint {
	struct rdma_host *host;
	const struct rdma_port *port;
	struct verbs_device_context *context;
	void *pd, *sends, *receives; /* completion queues */
	struct verbs_qp *qp;
	struct verbs_mr *mr;
	struct rdma_place place;
	struct stress_gpu *gpu; /* NULL: the host's memory */
	uint8_t *area;          /* of a GPU: a copy of it, see area_push(), area_pull() */
	cuda_ptr gpu_area;
	int dmabuf; /* its file, -1: none */
	size_t bytes;
	uint32_t inline_most, n_receives;
	struct rdma_address own, other;
};

/* 0, or -errno with `text`: -ENOTSUP: this memory cannot be registered here. */
int endpoint_open(struct endpoint *e, struct rdma_host *host, int port, const struct rdma_case *c,
		  const struct rdma_place *place, char text[192]);
/* To the other end of `e->other`. 0 or -errno with `text`. */
int endpoint_connect(struct endpoint *e, const struct rdma_case *c, char text[192]);
void endpoint_close(struct endpoint *e);

/* The copy into the GPU, and back; nothing for memory of the host. 0 or -EIO. */
int area_push(struct endpoint *e);
int area_pull(struct endpoint *e);

#endif
