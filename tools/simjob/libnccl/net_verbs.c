// SPDX-License-Identifier: Apache-2.0
/*
 * The ring over RDMA, as NCCL's net_ib.cc: a reliable connection of queue pairs a channel and direction, on the device
 * that is the rank's by NCCL_IB_HCA. The receiver grants slots of its memory by writing their count into the sender's;
 * the sender writes its data into a slot, with an immediate that completes a receive. A slice is as large as
 * SIM_NCCL_SLICE_BYTES says.
 */
#include "tools/simjob/libnccl/net.h"

#include "tools/simjob/libnccl/ib_devices.h"

#if __has_include(<infiniband/verbs.h>)
#include "tools/simjob/libnccl/comm.h"
#include "tools/simjob/libnccl/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 8
#define SLICE_BYTES 16384
#define QUEUE_DEPTH (2 * SLOTS)
#define SIGNAL_EVERY 4 /* grants: so that the queue never fills */
#define GRANT_ID 1000
#define ALIGN 4096
/* NCCL's: what NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT change, and what it does not let be chosen */
#define TIMEOUT 20
#define TIMEOUT_MAX 31
#define RETRIES 7
#define RETRIES_MAX 7 /* on soft-RoCE: for ever */
#define RNR_FOREVER 7
#define RNR_TIMER 12

struct verbs_end { /* of a queue pair, for its peer */
	uint64_t memory;
	uint32_t qpn, key;
};

struct verbs_address { /* of a rank, for its neighbours */
	union ibv_gid gid;
	uint32_t lid;
	_Atomic uint32_t ready;                  /* bits: channels on which it can receive */
	struct verbs_end ends[2 * NET_CHANNELS]; /* as state->connections */
};

struct verbs_side { /* of a connection */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *memory; /* the slots; of a sender behind them how many were granted, of a receiver what it writes there */
	size_t slice, bytes;
	uint64_t nr_moved; /* sent: slices posted; received: slices taken */
	uint64_t nr_came;  /* received */
	struct verbs_end peer;
	const struct verbs_address *to;
};

static uint64_t *grants(const struct verbs_side *side)
{
	return (uint64_t *)(side->memory + SLOTS * side->slice);
}

/* --- set-up --- */

static int memory_make(struct verbs_side *side, const struct ib_device *device)
{
	side->slice = (net_slice_bytes(SLICE_BYTES) + 7) & ~7ul;
	side->bytes = SLOTS * side->slice + sizeof(uint64_t);
	side->memory = aligned_alloc(ALIGN, (side->bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	if (!side->memory)
		return -ENOMEM;
	memset(side->memory, 0, side->bytes);
	side->mr = ib_verbs.reg_mr(device->pd, side->memory, side->bytes,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return side->mr ? 0 : -errno;
}

static int queue_make(struct verbs_side *side, const struct ib_device *device)
{
	struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT,
				       .port_num = 1,
				       .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = QUEUE_DEPTH,
						  .max_recv_wr = QUEUE_DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = sizeof(uint64_t) } };

	side->cq = ib_verbs.create_cq(device->context, 2 * QUEUE_DEPTH, NULL, NULL, 0);
	if (!side->cq)
		return -errno;
	init.send_cq = init.recv_cq = side->cq;
	side->qp = ib_verbs.create_qp(device->pd, &init);
	if (!side->qp)
		return -errno;
	return -ib_verbs.modify_qp(side->qp, &to_init,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int side_make(struct ncclProxyConnection *connection, const struct ib_device *device, struct verbs_end *ret)
{
	struct verbs_side *side = connection->of_transport = calloc(1, sizeof(*side));
	int err = side ? memory_make(side, device) : -ENOMEM;

	if (!err)
		err = queue_make(side, device);
	if (!err)
		*ret = (struct verbs_end){ .memory = (uintptr_t)side->memory,
					   /* lint: without an error side and queue are there */
					   .qpn = side->qp->qp_num,
					   .key = side->mr->rkey };
	return err;
}

static int verbs_listen(struct ncclProxyState *state, const uint64_t nonce[2])
{
	const struct ib_device *device = ib_device_get(state->comm->cudaDev);
	struct verbs_address mine = { 0 };
	int i, err = 0;

	(void)nonce;
	_Static_assert(sizeof(mine) <= FABRIC_ADDRESS_BYTES, "an address has room in the fabric");
	if (!device)
		return -ENODEV;
	mine.gid = device->gid;
	mine.lid = device->lid;
	for (i = 0; i < 2 * NET_CHANNELS && !err; i++)
		err = side_make(&state->connections[i], device, &mine.ends[i]);
	if (!err)
		fabric_address_put(&state->comm->fabric, &mine, sizeof(mine));
	else
		fprintf(stderr, "libnccl stand-in: %s: no queue pair: %s\n", device->name, strerror(-err));
	return err;
}

static int to_receive(const struct verbs_side *side, const struct ib_device *device)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = device->mtu,
		.dest_qp_num = side->peer.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = { .is_global = 1,
			     .dlid = side->to->lid,
			     .port_num = 1,
			     .grh = { .dgid = side->to->gid, .sgid_index = device->gid_index, .hop_limit = 255 } }
	};

	return -ib_verbs.modify_qp(side->qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int chosen(const char *name, int usual, int most)
{
	const char *value = getenv(name);
	long n = value ? strtol(value, NULL, 10) : usual;

	if (n >= 0 && n <= most)
		return n;
	fprintf(stderr, "libnccl stand-in: %s '%s': 0 to %d\n", name, value, most);
	abort();
}

static int to_send(const struct verbs_side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = chosen("NCCL_IB_TIMEOUT", TIMEOUT, TIMEOUT_MAX),
				    .retry_cnt = chosen("NCCL_IB_RETRY_CNT", RETRIES, RETRIES_MAX),
				    .rnr_retry = RNR_FOREVER,
				    .max_rd_atomic = 1 };

	return -ib_verbs.modify_qp(side->qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
}

static int receive_post(const struct verbs_side *side)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	return -ibv_post_recv(side->qp, &wr, &bad);
}

static int side_connect(struct ncclProxyState *state, int i)
{
	const struct ib_device *device = ib_device_get(state->comm->cudaDev);
	struct ncclProxyConnection *connection = &state->connections[i];
	struct verbs_side *side = connection->of_transport;
	int n, err;

	side->to = fabric_address(&state->comm->fabric, connection->peer);
	side->peer = side->to->ends[i ^ 1];
	for (n = 0, err = 0; n < SLOTS && !connection->send && !err; n++)
		err = receive_post(side);
	if (!err)
		err = to_receive(side, device);
	if (!err)
		err = to_send(side);
	if (err)
		fprintf(stderr, "libnccl stand-in: %s: no connection to rank %d: %s\n", device->name, connection->peer,
			strerror(-err));
	return err;
}

/* What is sent to a queue pair that is not ready comes again after seconds only: the sender waits for the word. */
static int verbs_connect(struct ncclProxyState *state, const uint64_t nonce[2], int channel)
{
	struct verbs_address *mine = (struct verbs_address *)fabric_address(&state->comm->fabric, state->comm->rank);
	int err = side_connect(state, 2 * channel + 1);

	(void)nonce;
	if (!err)
		err = side_connect(state, 2 * channel);
	if (!err)
		atomic_fetch_or(&mine->ready, 1u << channel);
	return err;
}

/* --- slices --- */

static int completion_failed(const struct ncclProxyConnection *connection, const struct ibv_wc *wc)
{
	fprintf(stderr,
		"libnccl stand-in: NET/IB : Got completion from peer %d with status=%d opcode=%d vendor err %u (%s)\n",
		connection->peer, wc->status, wc->opcode, wc->vendor_err, connection->send ? "Send" : "Recv");
	return -EIO;
}

static bool may_send(const struct ncclProxyConnection *connection)
{
	const struct verbs_side *side = connection->of_transport;

	return (atomic_load(&side->to->ready) >> connection->channel & 1) &&
	       side->nr_moved < SLOTS + __atomic_load_n(grants(side), __ATOMIC_ACQUIRE);
}

static int verbs_send(struct ncclProxyConnection *connection, const void *packet)
{
	struct verbs_side *side = connection->of_transport;
	size_t slot = side->nr_moved % SLOTS * side->slice;
	struct ibv_sge sge = { .addr = (uintptr_t)side->memory + slot, .length = side->slice, .lkey = side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = side->nr_moved,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = (uint32_t)side->slice,
				  .wr.rdma = { .remote_addr = side->peer.memory + slot, .rkey = side->peer.key } };
	struct ibv_send_wr *bad;
	int err;

	if (!may_send(connection))
		return 0;
	memcpy(side->memory + slot, packet, NET_PACKET_BYTES);
	err = ibv_post_send(side->qp, &wr, &bad);
	side->nr_moved += !err;
	return err ? -err : 1;
}

static int verbs_sent(struct ncclProxyConnection *connection)
{
	struct verbs_side *side = connection->of_transport;
	struct ibv_wc wcs[SLOTS];
	int n = ibv_poll_cq(side->cq, SLOTS, wcs), i;

	for (i = 0; i < n; i++) {
		if (wcs[i].status != IBV_WC_SUCCESS)
			return completion_failed(connection, &wcs[i]);
	}
	return n;
}

static int arrivals_poll(struct ncclProxyConnection *connection)
{
	struct verbs_side *side = connection->of_transport;
	struct ibv_wc wcs[SLOTS];
	int n = ibv_poll_cq(side->cq, SLOTS, wcs), i;

	for (i = 0; i < n; i++) {
		if (wcs[i].status != IBV_WC_SUCCESS)
			return completion_failed(connection, &wcs[i]);
		side->nr_came += wcs[i].wr_id < GRANT_ID;
	}
	return n < 0 ? -EIO : 0;
}

static int grant(struct verbs_side *side)
{
	struct ibv_sge sge = { .addr = (uintptr_t)grants(side), .length = sizeof(uint64_t) };
	struct ibv_send_wr wr = {
		.wr_id = GRANT_ID,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE | (side->nr_moved % SIGNAL_EVERY ? 0 : IBV_SEND_SIGNALED),
		.wr.rdma = { .remote_addr = side->peer.memory + SLOTS * side->slice, .rkey = side->peer.key }
	};
	struct ibv_send_wr *bad;

	*grants(side) = side->nr_moved;
	return -ibv_post_send(side->qp, &wr, &bad);
}

static int verbs_recv(struct ncclProxyConnection *connection, void *packet)
{
	struct verbs_side *side = connection->of_transport;
	int err = arrivals_poll(connection);

	if (err || side->nr_came == side->nr_moved)
		return err;
	memcpy(packet, side->memory + side->nr_moved % SLOTS * side->slice, NET_PACKET_BYTES);
	side->nr_moved++;
	err = receive_post(side);
	if (!err)
		err = grant(side);
	return err ? err : 1;
}

/* --- the end --- */

static void side_free(struct verbs_side *side)
{
	if (!side)
		return;
	if (side->qp)
		ib_verbs.destroy_qp(side->qp);
	if (side->cq)
		ib_verbs.destroy_cq(side->cq);
	if (side->mr)
		ib_verbs.dereg_mr(side->mr);
	free(side->memory);
	free(side);
}

static void verbs_close(struct ncclProxyState *state)
{
	int i;

	for (i = 0; i < 2 * NET_CHANNELS; i++)
		side_free(state->connections[i].of_transport);
}

const struct net_transport net_verbs = {
	.name = "verbs",
	.listen = verbs_listen,
	.connect = verbs_connect,
	.send = verbs_send,
	.sent = verbs_sent,
	.recv = verbs_recv,
	.close = verbs_close,
};

#endif
