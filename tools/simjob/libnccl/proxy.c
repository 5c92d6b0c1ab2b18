// SPDX-License-Identifier: Apache-2.0
/* The proxy's outside: its thread's life, and operations given to it. Rank r sends to r + 1, over what net.h says. */
#include "tools/simjob/libnccl/proxy.h"

#include "tools/simjob/libnccl/mix.h"
#include "tools/simjob/libnccl/comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define WAIT_SLICE_NS (100 * NSEC_PER_MSEC) /* an abort is seen after that long */

int proxy_listen(struct ncclComm *comm, const uint64_t nonce[2])
{
	const struct net_transport *net = comm->nRanks > 1 ? net_transport_chosen() : NULL;
	struct ncclProxyState *state;
	int i, n = comm->nRanks;

	if (!net)
		return 0;
	state = calloc(1, sizeof(*state));
	if (!state)
		return -ENOMEM;
	state->net = net;
	state->comm = comm;
	state->tpRank = comm->rank;
	state->wake_fd = -1;
	for (i = 0; i < NET_CHANNELS; i++)
		state->listen_fds[i] = -1;
	for (i = 0; i < 2 * NET_CHANNELS; i++)
		state->connections[i] = (struct ncclProxyConnection){ .send = i % 2 == 0,
								      .transport = TRANSPORT_NET,
								      .fd = -1,
								      .peer = (comm->rank + (i % 2 ? n - 1 : 1)) % n,
								      .channel = i / 2 };
	comm->proxyState = state;
	return net->listen(state, nonce);
}

int proxy_start(struct ncclComm *comm, const uint64_t nonce[2])
{
	struct ncclProxyState *state = comm->proxyState;
	sigset_t all, before;
	int c, err = 0;

	if (!state)
		return 0;
	for (c = 0; c < NET_CHANNELS && !err; c++)
		err = state->net->connect(state, nonce, c);
	if (err)
		return err;
	state->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (state->wake_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&state->progressState.thread, NULL, proxy_progress, state);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		state->progressState.thread = 0;
	return err;
}

static void wake(struct ncclProxyState *state)
{
	uint64_t one = 1;

	if (write(state->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

static void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

void sockets_close(struct ncclProxyState *state)
{
	int c;

	for (c = 0; c < NET_CHANNELS; c++) {
		fd_close(state->listen_fds[c]);
		fd_close(state->connections[2 * c].fd);
		fd_close(state->connections[2 * c + 1].fd);
	}
}

void proxy_stop(struct ncclComm *comm)
{
	struct ncclProxyState *state = comm->proxyState;

	if (!state)
		return;
	atomic_store(&state->stopping, 1);
	futex_wake_all(&state->stopping);
	if (state->progressState.thread) {
		wake(state);
		pthread_join(state->progressState.thread, NULL);
	}
	state->net->close(state);
	fd_close(state->wake_fd);
	comm->proxyState = NULL;
	free(state);
}

/* --- operations --- */

void net_op_put(struct net_op *op)
{
	if (atomic_fetch_sub(&op->refs, 1) > 1)
		return;
	free(op->values[0]);
	free(op);
}

struct net_op *net_op_post(struct ncclComm *comm, int func)
{
	struct ncclProxyState *state = comm->proxyState;
	int nr_others = comm->nRanks - 1, c;
	struct net_op *op;

	if (!state)
		return NULL;
	op = calloc(1, sizeof(*op));
	if (op)
		op->values[0] = calloc(NET_CHANNELS * nr_others, sizeof(uint64_t));
	if (!op || !op->values[0]) {
		fprintf(stderr, "libnccl stand-in: out of memory\n");
		abort();
	}
	for (c = 1; c < NET_CHANNELS; c++)
		op->values[c] = op->values[0] + c * nr_others;
	op->func = func;
	op->nsteps = nr_others * NET_CHUNKS;
	op->op_count = 2 * state->nr_ops++; /* odd ones are transfers' */
	op->fault = state->armed_how;
	op->fault_channel = state->armed_channel;
	state->armed_how = NET_FAULT_NONE;
	op->left = 2 * NET_CHANNELS;
	op->refs = op->left + 1;
	op->next = state->posted;
	while (!atomic_compare_exchange_weak(&state->posted, &op->next, op))
		;
	wake(state);
	return op;
}

static bool aborted(const struct ncclComm *comm)
{
	return comm->fabric.aborted;
}

static void wait_until(const struct ncclComm *comm, const struct net_op *op, uint64_t ready_ns)
{
	uint64_t now_ns;

	while ((now_ns = clock_now_ns()) < ready_ns && !aborted(comm))
		futex_wait(&op->reached, 0, ready_ns - now_ns < WAIT_SLICE_NS ? ready_ns : now_ns + WAIT_SLICE_NS);
}

/* All ranks' data in the order of ranks, whichever way round they came. Both channels brought the same. */
static uint64_t values_mix(const struct ncclComm *comm, const struct net_op *op)
{
	int n = comm->nRanks, rank;
	uint64_t all = 0;

	for (rank = 0; rank < n; rank++) {
		int distance = (comm->rank - rank + n) % n;

		if (distance && op->values[0][distance - 1] != op->values[1][distance - 1]) {
			fprintf(stderr, "libnccl stand-in: channels brought different data\n");
			abort();
		}
		all = mix(all, distance ? op->values[0][distance - 1] : op->value);
	}
	return all;
}

int net_op_run(struct ncclComm *comm, struct net_op *op, uint64_t value, uint64_t ready_ns, uint64_t *ret_value)
{
	int err = 0;

	wait_until(comm, op, ready_ns);
	op->value = value;
	atomic_store(&op->reached, 1);
	wake(comm->proxyState);
	while (!op->finished && !aborted(comm))
		futex_wait(&op->finished, 0, clock_now_ns() + WAIT_SLICE_NS);
	if (op->finished) {
		*ret_value = values_mix(comm, op);
	} else {
		atomic_store(&op->cancelled, 1);
		wake(comm->proxyState);
		err = -ECANCELED;
	}
	net_op_put(op);
	return err;
}

/* --- for the job --- */

__attribute__((visibility("default"))) int sim_net_fault(struct ncclComm *comm, int how, uint64_t draw)
{
	struct ncclProxyState *state = comm->proxyState;

	if (!state)
		return -1;
	state->armed_channel = draw % NET_CHANNELS;
	state->armed_how = how;
	return state->armed_channel;
}

__attribute__((visibility("default"))) int sim_net_thread(const struct ncclComm *comm)
{
	return comm->proxyState ? comm->proxyState->tid : 0;
}
