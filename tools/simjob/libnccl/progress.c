// SPDX-License-Identifier: Apache-2.0
/*
 * The progress thread. Each connection's operations stand in a queue (nextPeer), their heads in the list `active`. A
 * step of a send is posted (a buffer for the GPU), transmitted (the GPU has filled it, the network has it) and done
 * (the network is through); of a receive posted (a buffer for the network), received, flushed and transmitted (the GPU
 * may have it) and done (the GPU took it). The GPU's part is played here, too: it fills a buffer of its own data at
 * once, one of another rank's when that has come, and takes what has come when it has a buffer to pass it on in. The
 * real thread spins while something is active; this one looks every millisecond, or when a socket has something.
 */
#include "tools/simjob/libnccl/proxy.h"

#include "tools/simjob/libnccl/comm.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define LOOK_MS 1
#define ALGORITHM_RING 1
#define PROTOCOL_SIMPLE 2

struct packet { /* a slice of steps */
	uint64_t op_count, value;
	uint32_t step, reserved;
	char data[232];
};
_Static_assert(sizeof(struct packet) == NET_PACKET_BYTES, "a packet is what transports carry");

/* --- the list --- */

static struct ncclProxyArgs *args_alloc(struct ncclProxyState *state)
{
	struct ncclProxyArgs *args = state->progressState.pool;

	if (args)
		state->progressState.pool = args->next;
	else
		args = malloc(sizeof(*args));
	if (!args) {
		fprintf(stderr, "libnccl stand-in: out of memory\n");
		abort();
	}
	memset(args, 0, sizeof(*args));
	return args;
}

static void args_append(struct ncclProxyState *state, struct ncclProxyConnection *connection, struct net_op *op)
{
	struct ncclProxyArgs *args = args_alloc(state), **link = &state->progressState.active;

	args->subs[0] = (struct ncclProxySubArgs){ .connection = connection,
						   .channelId = connection->channel,
						   .nsteps = op->nsteps,
						   .peer = connection->peer };
	args->nsubs = 1;
	args->sliceSteps = NET_SLICE;
	args->opCount = op->op_count;
	args->coll = op->func;
	args->algorithm = ALGORITHM_RING;
	args->protocol = PROTOCOL_SIMPLE;
	args->op = op;
	args->state = ncclProxyOpReady;
	if (connection->last) {
		connection->last->nextPeer = args;
	} else {
		while (*link)
			link = &(*link)->next;
		*link = args;
	}
	connection->last = args;
}

static void posted_take(struct ncclProxyState *state)
{
	struct net_op *op = atomic_exchange(&state->posted, NULL), *oldest = NULL, *next;
	int i;

	for (; op; op = next) {
		next = op->next;
		op->next = oldest;
		oldest = op;
	}
	for (op = oldest; op; op = next) {
		next = op->next;
		for (i = 0; i < 2 * NET_CHANNELS; i++)
			args_append(state, &state->connections[i], op);
	}
}

static void part_is_over(struct net_op *op)
{
	if (atomic_fetch_sub(&op->left, 1) == 1) {
		atomic_store(&op->finished, 1);
		futex_wake_all(&op->finished);
	}
	net_op_put(op);
}

/* Its queue's next takes its place in the list, as in NCCL's removeOp(). */
static void args_remove(struct ncclProxyState *state, struct ncclProxyArgs **link)
{
	struct ncclProxyArgs *args = *link;
	struct ncclProxyConnection *connection = args->subs[0].connection;

	if (args->nextPeer) {
		args->nextPeer->next = args->next;
		*link = args->nextPeer;
	} else {
		*link = args->next;
		connection->last = NULL;
	}
	part_is_over(args->op);
	args->state = ncclProxyOpNone;
	args->nextPeer = NULL;
	args->next = state->progressState.pool;
	state->progressState.pool = args;
}

/* --- faults --- */

static void stay_stopped(struct ncclProxyState *state)
{
	while (!state->stopping)
		futex_wait(&state->stopping, 0, 0);
}

/* Another thread may take the signal, and this one must not go on meanwhile. */
static void process_stop(struct ncclProxyState *state)
{
	kill(getpid(), SIGSTOP);
	futex_wait(&state->stopping, 0, clock_now_ns() + 200 * NSEC_PER_MSEC);
}

/* In the middle of what this rank sends on that channel. */
static void fault_strike(struct ncclProxyState *state, struct ncclProxySubArgs *sub, struct net_op *op)
{
	if (op->fault == NET_FAULT_NONE || op->fault_channel != sub->channelId ||
	    sub->transmitted < (uint64_t)op->nsteps / 2)
		return;
	if (op->fault == NET_FAULT_EATEN)
		sub->connection->is_eaten = true;
	else if (op->fault == NET_FAULT_SIGSTOP)
		process_stop(state);
	else
		stay_stopped(state);
	op->fault = NET_FAULT_NONE;
}

/* --- steps --- */

/* The other half of the operation at hand on this channel; NULL: it is over, or its queue is not there yet. */
static struct ncclProxySubArgs *partner(struct ncclProxyState *state, const struct ncclProxyArgs *args)
{
	const struct ncclProxyConnection *mine = args->subs[0].connection;
	struct ncclProxyConnection *other = &state->connections[2 * mine->channel + mine->send];
	struct ncclProxyArgs *a;

	for (a = state->progressState.active; a; a = a->next) {
		if (a->subs[0].connection == other)
			return a->op == args->op && a->state == ncclProxyOpProgress ? &a->subs[0] : NULL;
	}
	return NULL;
}

/* Steps that the GPU can have filled. The receiving half is over: all have come. */
static uint64_t steps_filled(struct ncclProxyState *state, const struct ncclProxyArgs *args)
{
	const struct ncclProxySubArgs *sub = &args->subs[0], *recv = partner(state, args);
	struct ncclProxyConnection *c = &state->connections[2 * sub->channelId + 1];
	uint64_t most;

	if (!args->op->reached)
		return 0;
	/* Of the receiving side only a later operation is at hand, or none. */
	if (!recv && c->step >= sub->base + sub->nsteps)
		return sub->posted;
	most = NET_CHUNKS + (recv ? recv->transmitted : 0);
	return most < sub->posted ? most : sub->posted;
}

/* Steps that the GPU can have taken: it passes them on, but for those that have come all the way. */
static uint64_t steps_taken(struct ncclProxyState *state, const struct ncclProxyArgs *args)
{
	const struct ncclProxySubArgs *sub = &args->subs[0], *send = partner(state, args);
	uint64_t room;

	if (!args->op->reached)
		return 0;
	if (!send || send->posted >= (uint64_t)send->nsteps)
		return sub->transmitted;
	room = send->posted > NET_CHUNKS ? send->posted - NET_CHUNKS : 0;
	return sub->transmitted < room ? sub->transmitted : room;
}

static bool slice_send(const struct ncclProxyState *state, const struct ncclProxySubArgs *sub, const struct net_op *op,
		       uint64_t step)
{
	int rc;
	uint64_t block = step / NET_CHUNKS;
	struct packet packet = { .op_count = op->op_count,
				 .step = step,
				 .value = block ? op->values[sub->channelId][block - 1] : op->value };

	if (sub->connection->is_eaten)
		return true;
	if (sub->connection->is_broken)
		return false;
	rc = state->net->send(sub->connection, &packet);
	sub->connection->is_broken = rc < 0;
	return rc == 1;
}

/* Steps that are through by now, of those that are on their way. What was eaten is never acknowledged. */
static uint64_t steps_through(const struct ncclProxyState *state, const struct ncclProxySubArgs *sub)
{
	int n = sub->connection->is_broken ? 0 : state->net->sent(sub->connection);

	sub->connection->is_broken |= n < 0;
	return n > 0 ? (uint64_t)n * NET_SLICE : 0;
}

static bool send_progress(struct ncclProxyState *state, struct ncclProxyArgs *args)
{
	struct ncclProxySubArgs *sub = &args->subs[0];
	uint64_t before = sub->posted + sub->transmitted + sub->done;

	if (sub->posted < (uint64_t)sub->nsteps && sub->posted < sub->done + NET_DEPTH)
		sub->posted += NET_SLICE;
	if (sub->transmitted < steps_filled(state, args)) {
		fault_strike(state, sub, args->op);
		if (!state->net->sent || slice_send(state, sub, args->op, sub->transmitted))
			sub->transmitted += NET_SLICE;
	}
	if (state->net->sent)
		sub->done += steps_through(state, sub);
	else if (sub->done < sub->transmitted && slice_send(state, sub, args->op, sub->done))
		sub->done += NET_SLICE;
	return sub->posted + sub->transmitted + sub->done != before;
}

static bool slice_receive(const struct ncclProxyState *state, const struct ncclProxySubArgs *sub, struct net_op *op)
{
	struct packet packet;
	int rc;

	if (sub->connection->is_broken)
		return false;
	rc = state->net->recv(sub->connection, &packet);
	sub->connection->is_broken = rc < 0;
	if (rc != 1)
		return false;
	if (packet.op_count != op->op_count || packet.step != sub->received) {
		fprintf(stderr, "libnccl stand-in: a packet of operation %lu, step %u, where %lu, %lu is due\n",
			(unsigned long)packet.op_count, packet.step, (unsigned long)op->op_count,
			(unsigned long)sub->received);
		abort();
	}
	op->values[sub->channelId][sub->received / NET_CHUNKS] = packet.value;
	return true;
}

static bool recv_progress(struct ncclProxyState *state, struct ncclProxyArgs *args)
{
	struct ncclProxySubArgs *sub = &args->subs[0];
	uint64_t before = sub->posted + sub->received + sub->done;

	if (sub->posted < (uint64_t)sub->nsteps && sub->posted < sub->done + NET_DEPTH)
		sub->posted += NET_SLICE;
	if (sub->received < sub->posted && slice_receive(state, sub, args->op))
		sub->received += NET_SLICE;
	sub->flushed = sub->transmitted = sub->received;
	sub->done = steps_taken(state, args);
	return sub->posted + sub->received + sub->done != before;
}

static void args_begin(struct ncclProxyArgs *args)
{
	struct ncclProxySubArgs *sub = &args->subs[0];

	sub->base = sub->connection->step;
	sub->posted = sub->received = sub->flushed = sub->transmitted = sub->done = 0;
	args->state = ncclProxyOpProgress;
}

static bool active_progress(struct ncclProxyState *state)
{
	struct ncclProxyArgs **link = &state->progressState.active, *args;
	bool moved = false;

	while ((args = *link)) {
		struct ncclProxySubArgs *sub = &args->subs[0];

		if (args->state == ncclProxyOpReady)
			args_begin(args);
		moved |= sub->connection->send ? send_progress(state, args) : recv_progress(state, args);
		if (sub->done < (uint64_t)sub->nsteps && !args->op->cancelled) {
			link = &args->next;
			continue;
		}
		sub->connection->step += sub->nsteps;
		args_remove(state, link);
		moved = true;
	}
	return moved;
}

/* --- the thread --- */

static int fds_collect(const struct ncclProxyState *state, struct pollfd *fds)
{
	const struct ncclProxyArgs *args;
	int nr = 1;

	fds[0] = (struct pollfd){ .fd = state->wake_fd, .events = POLLIN };
	for (args = state->progressState.active; args; args = args->next) {
		const struct ncclProxySubArgs *sub = &args->subs[0];
		const struct ncclProxyConnection *c = sub->connection;

		if (c->is_broken)
			continue;
		if (!c->send && sub->received < sub->posted)
			fds[nr++] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
		else if (c->send && sub->done < sub->transmitted)
			fds[nr++] = (struct pollfd){ .fd = c->fd, .events = POLLOUT };
	}
	return nr;
}

static void wait_for_work(struct ncclProxyState *state)
{
	struct pollfd fds[1 + 2 * NET_CHANNELS];
	int nr = fds_collect(state, fds);
	uint64_t nothing;

	if (poll(fds, nr, state->progressState.active ? LOOK_MS : -1) > 0 && (fds[0].revents & POLLIN) &&
	    read(state->wake_fd, &nothing, sizeof(nothing)) < 0)
		return;
}

static void all_free(struct ncclProxyState *state)
{
	struct ncclProxyArgs *args;

	posted_take(state);
	while (state->progressState.active)
		args_remove(state, &state->progressState.active);
	while ((args = state->progressState.pool)) {
		state->progressState.pool = args->next;
		free(args);
	}
}

void *proxy_progress(void *arg)
{
	const char *set_name = getenv("NCCL_SET_THREAD_NAME");
	struct ncclProxyState *state = arg;
	char name[24];

	snprintf(name, sizeof(name), "NCCL Progress%2d", state->comm->cudaDev % 100);
	if (set_name && *set_name == '1')
		prctl(PR_SET_NAME, name);
	state->tid = gettid();
	while (!state->stopping) {
		posted_take(state);
		if (!active_progress(state))
			wait_for_work(state);
	}
	all_free(state);
	return NULL;
}
