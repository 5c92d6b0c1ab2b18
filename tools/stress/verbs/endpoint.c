/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.c - see endpoint.h.
 */
#include "tools/stress/verbs/endpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define INLINE_BYTES 220 /* of a latency: perftest's */
#define ACCESS (VERBS_LOCAL_WRITE | VERBS_REMOTE_WRITE | VERBS_REMOTE_READ)
#define MPOL_PREFERRED 1
#define MPOL_BIND 2
#define NODE_BITS 1024
/* perftest's and NCCL's: 4.096 us x 2^14 = 67 ms without an answer, seven times */
#define ACK_TIMEOUT 14
#define RETRIES 7
#define RNR_FOR_EVER 7
#define RNR_TIMER 12
#define HOPS 64
#define GPU_PAGE (64u << 10) /* dma-buf: whole pages of the GPU */

static int failed(char text[192], int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int failed(char text[192], int error, const char *format, ...)
{
	char what[192];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (error == ENOTSUP)
		snprintf(text, 192, "%s", what);
	else
		snprintf(text, 192, "%.120s: %s", what, strerror(error));
	return -error;
}

/* --- memory --- */

/* Of the node that is asked for; else of the port's own, as far as it has some. */
static int node_bind(const struct endpoint *e)
{
	unsigned long mask[NODE_BITS / (8 * sizeof(long))] = { 0 };
	bool is_asked = e->place.number >= 0;
	int node = is_asked ? e->place.number : e->port->node, error;

	if (node < 0 || node >= NODE_BITS)
		return 0;
	mask[node / (8 * sizeof(long))] = 1ul << node % (8 * sizeof(long));
	error = syscall(SYS_mbind, e->area, e->bytes, is_asked ? MPOL_BIND : MPOL_PREFERRED, mask, NODE_BITS, 0) ? errno
														 : 0;
	/* without NUMA in the kernel there is one node, and nothing to bind */
	return is_asked && error != ENOSYS ? error : 0;
}

static int host_area(struct endpoint *e, char text[192])
{
	int error;

	e->area = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->area == MAP_FAILED) {
		e->area = NULL;
		return failed(text, errno, "no memory for %zu bytes", e->bytes);
	}
	error = node_bind(e);
	if (error)
		return failed(text, ENOTSUP, "memory of node %d cannot be had (%s)", e->place.number, strerror(error));
	memset(e->area, 0, e->bytes);
	e->mr = e->host->verbs.mr_reg(e->pd, e->area, e->bytes, ACCESS);
	if (e->mr)
		return 0;
	if (errno == ENOMEM) /* of this process, not of the port */
		return failed(text, ENOTSUP,
			      "memory cannot be registered: raise the limit of locked memory (ulimit -l)");
	return failed(text, errno, "memory cannot be registered");
}

/* By a dma-buf where driver and kernel can, else by nvidia-peermem, which takes the GPU's address as it is. */
static int gpu_register(struct endpoint *e, char text[192])
{
	const struct verbs *verbs = &e->host->verbs;
	const struct cuda *cuda = &e->gpu->run->cuda;
	int error = ENOSYS;

	if (cuda->range_handle && verbs->mr_reg_dmabuf &&
	    !cuda->range_handle(&e->dmabuf, e->gpu_area, e->bytes, CU_RANGE_HANDLE_DMA_BUF, 0)) {
		e->mr = verbs->mr_reg_dmabuf(e->pd, 0, e->bytes, e->gpu_area, e->dmabuf, ACCESS);
		error = errno;
	} else {
		e->dmabuf = -1;
	}
	if (!e->mr)
		e->mr = verbs->mr_reg(e->pd, (void *)(uintptr_t)e->gpu_area, e->bytes, ACCESS);
	if (e->mr)
		return 0;
	return failed(text, ENOTSUP,
		      "GPU memory cannot be registered (dma-buf: %s; nvidia-peermem: %s): open driver, or load "
		      "nvidia-peermem",
		      strerror(error), strerror(errno));
}

static int gpu_area(struct endpoint *e, char text[192])
{
	const struct cuda *cuda = &e->gpu->run->cuda;
	int error = cuda->context_set(e->gpu->context);

	e->bytes = (e->bytes + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE;
	error = error ? error : cuda->alloc(&e->gpu_area, e->bytes);
	if (error) {
		e->gpu_area = 0;
		return failed(text, ENOTSUP, "GPU %d: no memory (%s)", e->place.gpu, cuda_error_text(cuda, error));
	}
	e->area = calloc(1, e->bytes);
	if (!e->area)
		abort();
	return gpu_register(e, text);
}

int area_push(struct endpoint *e)
{
	return e->gpu ? gpu_put(e->gpu, e->gpu_area, e->area, e->bytes) : 0;
}

int area_pull(struct endpoint *e)
{
	return e->gpu && e->gpu->run->cuda.to_host(e->area, e->gpu_area, e->bytes) ? -EIO : 0;
}

/* --- the queue pair --- */

static int qp_make(struct endpoint *e, const struct rdma_case *c, char text[192])
{
	const struct verbs *verbs = &e->host->verbs;
	struct verbs_qp_init_attr init = { .qp_type = VERBS_QP_RC };

	e->n_receives = c->operation == RDMA_SEND ? RECEIVES_MAX : 1;
	e->sends = verbs->cq_create(e->context, c->depth + 1, NULL, NULL, 0);
	e->receives = verbs->cq_create(e->context, e->n_receives, NULL, NULL, 0);
	if (!e->sends || !e->receives)
		return failed(text, errno, "no completion queue of %u", c->depth + 1);
	init.send_cq = e->sends;
	init.recv_cq = e->receives;
	init.cap =
		(struct verbs_cap){ c->depth + 1, e->n_receives, 1, 1, c->measure == RDMA_LATENCY ? INLINE_BYTES : 0 };
	e->qp = verbs->qp_create(e->pd, &init);
	if (!e->qp && init.cap.max_inline_data) {
		init.cap.max_inline_data = 0;
		e->qp = verbs->qp_create(e->pd, &init);
	}
	e->inline_most = init.cap.max_inline_data < INLINE_BYTES ? init.cap.max_inline_data : INLINE_BYTES;
	if (c->measure != RDMA_LATENCY)
		e->inline_most = 0;
	return e->qp ? 0 : failed(text, errno, "no queue pair");
}

static int qp_init(struct endpoint *e, char text[192])
{
	struct verbs_qp_attr attr = { .qp_state = VERBS_QPS_INIT,
				      .port_num = e->port->number,
				      .qp_access_flags = VERBS_REMOTE_WRITE | VERBS_REMOTE_READ };
	int error = e->host->verbs.qp_modify(
		e->qp, &attr, VERBS_QP_STATE | VERBS_QP_PKEY_INDEX | VERBS_QP_PORT | VERBS_QP_ACCESS_FLAGS);

	return error ? failed(text, error, "the queue pair cannot be initialized") : 0;
}

static int address_fill(struct endpoint *e, char text[192])
{
	union verbs_gid gid = { .words = { 0, 0 } };
	int error = 0;

	if (e->port->gid_index < 0 && e->port->link_layer == VERBS_LINK_ETHERNET)
		return failed(text, EADDRNOTAVAIL, "the port has no GID: has its netdev an address?");
	if (e->port->gid_index >= 0)
		error = e->host->verbs.query_gid(e->context, e->port->number, e->port->gid_index, &gid);
	if (error)
		return failed(text, errno ? errno : EIO, "GID %d cannot be read", e->port->gid_index);
	e->own = (struct rdma_address){ .qpn = e->qp->qp_num,
					.psn = clock_monotonic_ns() & 0xffffff,
					.rkey = e->mr->rkey,
					.lid = e->port->lid,
					.link_layer = e->port->link_layer,
					.mtu = e->port->mtu,
					.reads = e->port->reads,
					.at = e->gpu ? e->gpu_area : (uint64_t)(uintptr_t)e->area };
	memcpy(e->own.gid, gid.raw, sizeof(e->own.gid));
	return 0;
}

int endpoint_open(struct endpoint *e, struct rdma_host *host, int port, const struct rdma_case *c,
		  const struct rdma_place *place, char text[192])
{
	int err;

	*e = (struct endpoint){ .host = host,
				.port = &host->ports[port],
				.context = host->contexts[port],
				.place = *place,
				.gpu = place->gpu < 0 ? NULL : host_gpu(host, place->gpu),
				.dmabuf = -1,
				.bytes = c->bytes > AREA_BYTES ? c->bytes : AREA_BYTES };
	if (place->gpu >= 0 && !e->gpu)
		return failed(text, ENOTSUP, "GPU %d is not under test", place->gpu);
	e->pd = host->verbs.pd_alloc(e->context);
	if (!e->pd)
		return failed(text, errno, "no protection domain");
	err = e->gpu ? gpu_area(e, text) : host_area(e, text);
	err = err ? err : qp_make(e, c, text);
	err = err ? err : qp_init(e, text);
	return err ? err : address_fill(e, text);
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

static int mtu_code(int bytes)
{
	int code = VERBS_MTU_256;

	while (code < VERBS_MTU_4096 && 128 << (code + 1) <= bytes)
		code++;
	return code;
}

/* Of two RoCE ports by GID; of two InfiniBand ports of one subnet by LID. */
static void path_fill(const struct endpoint *e, struct verbs_ah_attr *ah)
{
	*ah = (struct verbs_ah_attr){ .dlid = e->other.lid, .port_num = e->port->number };
	if (e->other.link_layer == VERBS_LINK_INFINIBAND)
		return;
	ah->is_global = 1;
	memcpy(ah->dgid.raw, e->other.gid, sizeof(ah->dgid.raw));
	ah->sgid_index = e->port->gid_index;
	ah->hop_limit = HOPS;
}

int endpoint_connect(struct endpoint *e, const struct rdma_case *c, char text[192])
{
	int reads = least(e->own.reads, e->other.reads), mtu = least(least(e->own.mtu, e->other.mtu), c->mtu);
	struct verbs_qp_attr attr = { .qp_state = VERBS_QPS_RTR,
				      .path_mtu = mtu_code(mtu),
				      .dest_qp_num = e->other.qpn,
				      .rq_psn = e->other.psn,
				      .max_dest_rd_atomic = least(reads, 255),
				      .min_rnr_timer = RNR_TIMER };
	int error;

	path_fill(e, &attr.ah);
	error = e->host->verbs.qp_modify(e->qp, &attr,
					 VERBS_QP_STATE | VERBS_QP_AV | VERBS_QP_PATH_MTU | VERBS_QP_DEST_QPN |
						 VERBS_QP_RQ_PSN | VERBS_QP_MAX_DEST_RD_ATOMIC |
						 VERBS_QP_MIN_RNR_TIMER);
	if (error)
		return failed(text, error, "no way to the other port (route, neighbour, or the port is down)");
	attr = (struct verbs_qp_attr){ .qp_state = VERBS_QPS_RTS,
				       .timeout = ACK_TIMEOUT,
				       .retry_cnt = RETRIES,
				       .rnr_retry = RNR_FOR_EVER,
				       .sq_psn = e->own.psn,
				       .max_rd_atomic = least(reads, 255) };
	error = e->host->verbs.qp_modify(e->qp, &attr,
					 VERBS_QP_STATE | VERBS_QP_TIMEOUT | VERBS_QP_RETRY_CNT | VERBS_QP_RNR_RETRY |
						 VERBS_QP_SQ_PSN | VERBS_QP_MAX_QP_RD_ATOMIC);
	return error ? failed(text, error, "the queue pair cannot send") : 0;
}

void endpoint_close(struct endpoint *e)
{
	const struct verbs *verbs = e->host ? &e->host->verbs : NULL;

	if (!verbs)
		return;
	if (e->qp)
		verbs->qp_destroy(e->qp);
	if (e->sends)
		verbs->cq_destroy(e->sends);
	if (e->receives)
		verbs->cq_destroy(e->receives);
	if (e->mr)
		verbs->mr_dereg(e->mr);
	if (e->dmabuf >= 0)
		close(e->dmabuf);
	if (e->gpu_area)
		e->gpu->run->cuda.free(e->gpu_area);
	if (e->pd)
		verbs->pd_free(e->pd);
	if (e->area && e->gpu)
		free(e->area);
	else if (e->area)
		munmap(e->area, e->bytes);
	*e = (struct endpoint){ .dmabuf = -1 };
}
