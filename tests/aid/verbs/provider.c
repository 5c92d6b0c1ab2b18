/* SPDX-License-Identifier: Apache-2.0
 *
 * provider.c - a stand-in for an RDMA provider library: the functions behind ibv_post_send, ibv_post_recv, ibv_poll_cq
 * and ibv_wr_*, static and, once stripped, without names. What is posted completes at once. SKEW makes builds with
 * other offsets.
 */
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#ifndef SKEW
#define SKEW 1
#endif

struct done {
	struct ibv_wc wc;
	struct done *next;
};
struct fake_cq {
	struct ibv_cq ibv;
	struct done *head, *tail;
};
struct fake_qp {
	struct ibv_qp_ex ex;
	int sig_all;
	uint32_t data;
};

volatile int skewed;

/* Nothing calls it: its size moves what is behind it. */
__attribute__((used)) static int skew(int x)
{
	for (int i = 0; i < SKEW; i++)
		skewed += x * i;
#if SKEW > 1
	skewed ^= x << 3;
	skewed += x / 7 % 11;
#endif
	return skewed;
}

static void complete(struct ibv_qp *qp, struct ibv_cq *cq, uint64_t wr_id, int opcode, uint32_t bytes, int status)
{
	struct fake_cq *q = (void *)cq;
	struct done *d = calloc(1, sizeof(*d));

	d->wc = (struct ibv_wc){ .wr_id = wr_id,
				 .status = status,
				 .opcode = opcode,
				 .byte_len = bytes,
				 .qp_num = qp->qp_num,
				 .vendor_err = status ? 0x81 : 0 };
	if (q->tail)
		q->tail->next = d;
	else
		q->head = d;
	q->tail = d;
}

static int wc_opcode(int wr_opcode)
{
	return wr_opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
	       : wr_opcode == IBV_WR_SEND    ? IBV_WC_SEND
					     : IBV_WC_RDMA_WRITE;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *q = (void *)qp;

	(void)bad;
	for (; wr; wr = wr->next)
		if (wr->send_flags & IBV_SEND_SIGNALED || q->sig_all)
			complete(qp, qp->send_cq, wr->wr_id, wc_opcode(wr->opcode), 0,
				 wr->wr_id == PROVIDER_FAILS ? IBV_WC_RETRY_EXC_ERR : 0);
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	for (; wr; wr = wr->next)
		complete(qp, qp->recv_cq, wr->wr_id, IBV_WC_RECV, PROVIDER_RECV_BYTES, 0);
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake_cq *q = (void *)cq;
	int i;

	for (i = 0; i < n && q->head; i++) {
		struct done *d = q->head;

		wc[i] = d->wc;
		q->head = d->next;
		if (!q->head)
			q->tail = NULL;
		free(d);
	}
	return i;
}

static void wr_start(struct ibv_qp_ex *qp)
{
	(void)qp;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	return ((struct fake_qp *)qp)->data ? 0 : 22;
}

static void wr_op(struct ibv_qp_ex *qp, int opcode)
{
	if (qp->wr_flags & IBV_SEND_SIGNALED)
		complete(&qp->qp_base, qp->qp_base.send_cq, qp->wr_id, opcode, 0, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	(void)rkey;
	(void)addr;
	wr_op(qp, IBV_WC_RDMA_WRITE);
}

static void wr_send(struct ibv_qp_ex *qp)
{
	wr_op(qp, IBV_WC_SEND);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	(void)lkey;
	(void)addr;
	((struct fake_qp *)qp)->data += length;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	(void)addr;
	((struct fake_qp *)qp)->data += length + skewed;
}

struct ibv_context *provider_open(struct ibv_device *device)
{
	struct ibv_context *c = calloc(1, sizeof(*c));

	c->device = device;
	c->abi_compat = (void *)UINTPTR_MAX;
	c->ops.poll_cq = poll_cq;
	c->ops.post_send = post_send;
	c->ops.post_recv = post_recv;
	return c;
}

struct ibv_cq *provider_cq(struct ibv_context *c)
{
	struct fake_cq *q = calloc(1, sizeof(*q));

	q->ibv.context = c;
	return &q->ibv;
}

struct ibv_qp *provider_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t number)
{
	struct fake_qp *q = calloc(1, sizeof(*q));
	struct ibv_qp *qp = &q->ex.qp_base;

	q->sig_all = attr->sq_sig_all;
	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->qp_type = attr->qp_type;
	qp->qp_num = number;
	q->ex.wr_start = wr_start;
	q->ex.wr_complete = wr_complete;
	q->ex.wr_rdma_write = wr_rdma_write;
	q->ex.wr_send = wr_send;
	q->ex.wr_set_sge = wr_set_sge;
	q->ex.wr_set_inline_data = wr_set_inline_data;
	return qp;
}
