/* SPDX-License-Identifier: Apache-2.0
 *
 * target.c - an RDMA application over the stand-ins: target FILE PROVIDER... opens each provider, makes queue pairs,
 * waits for a line on stdin ("go N": N rounds of posts; end of file: the end) and prints what it posted and got, one
 * JSON line a queue pair. VERBS_QPS: as many queue pairs a device. VERBS_QUICK: it waits for nothing and nobody before
 * its 20 rounds. With every queue pair posts come in chains of different lengths, sizes and opcodes; polls are mostly
 * empty.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

#define QPS 3 /* of each device: by chains, by ibv_wr_*, receiving */
#define EMPTY_POLLS 50

struct queue {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	unsigned long long posts, bytes, signalled, recv_posts, send_done, recv_done, recv_bytes, errors;
};

static unsigned seed = 1;

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void poll_all(struct queue *q)
{
	struct ibv_wc wc[5];
	int n;

	for (int empty = 0; empty < EMPTY_POLLS;) {
		n = ibv_poll_cq(q->cq, 5, wc);
		empty += n == 0;
		for (int i = 0; i < n; i++)
			if (wc[i].status) {
				q->errors++;
			} else if (wc[i].opcode & IBV_WC_RECV) {
				q->recv_done++;
				q->recv_bytes += wc[i].byte_len;
			} else {
				q->send_done++;
			}
	}
}

static void post_chain(struct queue *q, unsigned long round)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_RDMA_WRITE_WITH_IMM };
	struct ibv_send_wr wr[8], *bad;
	struct ibv_sge sge[8][3];
	unsigned n = 1 + draw(8);

	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i < n; i++) {
		wr[i].num_sge = 1 + draw(3);
		for (int k = 0; k < wr[i].num_sge; k++) {
			sge[i][k].length = draw(100000);
			q->bytes += sge[i][k].length;
		}
		wr[i].sg_list = sge[i];
		wr[i].wr_id = round * 8 + i;
		wr[i].opcode = ops[draw(4)];
		wr[i].send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0;
		wr[i].next = i + 1 == n ? NULL : &wr[i + 1];
		q->posts++;
	}
	q->signalled++;
	ibv_post_send(q->qp, wr, &bad);
}

static void post_wr(struct queue *q, unsigned long round)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(q->qp);
	char word[64];
	unsigned n = draw(64);

	ex->wr_id = round;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	ibv_wr_set_sge(ex, 1, 2, 1000 + n);
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, word, n);
	ibv_wr_complete(ex);
	q->posts += 2;
	q->signalled++;
	q->bytes += 1000 + 2 * n;
}

static void post_receives(struct queue *q)
{
	struct ibv_recv_wr wr[4], *bad;
	unsigned n = 1 + draw(4);

	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i < n; i++)
		wr[i].next = i + 1 == n ? NULL : &wr[i + 1];
	q->recv_posts += n;
	ibv_post_recv(q->qp, wr, &bad);
}

static void post_failing(struct queue *q)
{
	struct ibv_send_wr wr = { .wr_id = PROVIDER_FAILS, .send_flags = IBV_SEND_SIGNALED }, *bad;

	q->posts++;
	q->signalled++;
	ibv_post_send(q->qp, &wr, &bad);
}

static void queue_make(struct ibv_context *c, struct ibv_pd *pd, struct queue *q, uint32_t peer, int slowly)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = peer };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };

	attr.send_cq = attr.recv_cq = q->cq = ibv_create_cq(c, 64, NULL, NULL, 0);
	q->qp = ibv_create_qp(pd, &attr);
	ibv_qp_to_qp_ex(q->qp);
	rtr.ah_attr.is_global = 1;
	rtr.ah_attr.port_num = 1;
	memcpy(rtr.ah_attr.grh.dgid.raw + 10, "\xff\xff\x0a\x00\x00\x02", 6);
	ibv_modify_qp(q->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	if (slowly)
		usleep(300000); /* as peers that exchange their numbers take */
	ibv_modify_qp(q->qp, &rts, IBV_QP_STATE);
}

static void rounds_play(struct queue *queues, int n, int count)
{
	static unsigned long round = 1;

	for (; count > 0; count--, round++)
		for (int k = 0; k < n; k++) {
			if (k % QPS == 0)
				post_chain(&queues[k], round);
			else if (k % QPS == 1)
				post_wr(&queues[k], round);
			else
				post_receives(&queues[k]);
			poll_all(&queues[k]);
		}
}

static void queues_print(const struct queue *queues, int n)
{
	for (int k = 0; k < n; k++)
		printf("{\"pid\":%d,\"qpn\":%u,\"posts\":%llu,\"post_bytes\":%llu,\"signalled\":%llu,"
		       "\"recv_posts\":%llu,\"send_done\":%llu,"
		       "\"recv_done\":%llu,\"recv_bytes\":%llu,\"errors\":%llu}\n",
		       getpid(), queues[k].qp->qp_num, queues[k].posts, queues[k].bytes, queues[k].signalled,
		       queues[k].recv_posts, queues[k].send_done, queues[k].recv_done, queues[k].recv_bytes,
		       queues[k].errors);
	printf("{\"done\":1}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int per_device = getenv("VERBS_QPS") ? atoi(getenv("VERBS_QPS")) : QPS;
	struct queue *queues = calloc(argc * per_device, sizeof(*queues));
	int n = 0, quick = getenv("VERBS_QUICK") != NULL;
	char line[64], memory[8192];

	if (!quick)
		usleep(500000); /* as any real program that loads its libraries; a tracer needs 50 ms to see them */
	for (int i = 2; i < argc; i++) {
		struct ibv_device *d = calloc(1, sizeof(*d));
		struct ibv_context *c;
		struct ibv_pd *pd;

		snprintf(d->name, sizeof(d->name), "fake%d", i - 2);
		snprintf(d->dev_name, sizeof(d->dev_name), "uverbs%d", i - 2);
		snprintf(d->dev_path, sizeof(d->dev_path), "%s", argv[i]);
		snprintf(d->ibdev_path, sizeof(d->ibdev_path), "%s", argv[1]);
		c = ibv_open_device(d);
		if (!c) {
			printf("{\"ready\":%d,\"opened\":false}\n", getpid());
			fflush(stdout);
			return fgets(line, sizeof(line), stdin) != NULL;
		}
		pd = ibv_alloc_pd(c);
		ibv_reg_mr(pd, memory, sizeof(memory), 0);
		for (int k = 0; k < per_device; k++)
			queue_make(c, pd, &queues[n++], 1000 + k, per_device == QPS && !quick);
		if (i == 2) {
			struct ibv_async_event e;

			ibv_get_async_event(c, &e);
		}
	}
	if (quick) {
		rounds_play(queues, n, 20);
		queues_print(queues, n);
		usleep(300000); /* who traces it may be slower than it is */
		return 0;
	}
	printf("{\"ready\":%d}\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		rounds_play(queues, n, atoi(line + 3));
		if (!strncmp(line, "er", 2)) {
			post_failing(&queues[0]);
			poll_all(&queues[0]);
		}
		queues_print(queues, n);
	}
	return 0;
}
