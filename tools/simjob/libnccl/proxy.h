/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy: with SIM_NCCL_NET=unix or another transport (net.h) the data of collectives go round a ring, moved by a
 * thread per communicator that keeps its progress where NCCL's does. Names, types and meaning of the members that an
 * outside reader looks for are NCCL's (src/include/proxy.h, src/transport/net.cc); order and offsets are not, and
 * change with -DSIM_LAYOUT=n.
 */
#ifndef SIMJOB_NCCL_PROXY_H
#define SIMJOB_NCCL_PROXY_H

#include "tools/simjob/libcuda/futex.h"
#include "tools/simjob/libnccl/net.h"

#include <pthread.h>
#include <sys/types.h>

#define NET_CHANNELS 2
#define NET_DEPTH 8  /* NCCL_STEPS: buffers of a connection */
#define NET_SLICE 2  /* steps that travel together */
#define NET_CHUNKS 4 /* steps of one rank's data */

enum { TRANSPORT_NET = 2 };
enum ncclProxyOpState { ncclProxyOpNone, ncclProxyOpReady, ncclProxyOpProgress };

struct ncclComm;
struct ncclProxyArgs;
struct net_op;

#ifndef SIM_LAYOUT
#define SIM_LAYOUT 0
#endif

#if SIM_LAYOUT == 0
#define PROXY_MAX_SUBS 4
#define SUB_PLACE \
	int channelId; \
	int nsteps; \
	ssize_t nbytes; \
	int peer; \
	int groupSize;
#define SUB_COUNTERS \
	uint64_t base; \
	uint64_t posted; \
	uint64_t received; \
	uint64_t flushed; \
	uint64_t transmitted; \
	uint64_t done;
#define SUB_PAD 40
#define STATE_PAD 336
#elif SIM_LAYOUT == 1
#define PROXY_MAX_SUBS 8
#define SUB_PLACE \
	int peer; \
	int reg; \
	int nsteps; \
	int channelId;
#define SUB_COUNTERS \
	uint64_t done; \
	uint64_t transmitted; \
	uint64_t flushed; \
	uint64_t received; \
	uint64_t posted; \
	uint64_t base;
#define SUB_PAD 8
#define STATE_PAD 48
#else
#define PROXY_MAX_SUBS 1
#define SUB_PLACE \
	int nsteps; \
	int peer; \
	ssize_t nbytes; \
	int channelId; \
	int isOneRPN;
#define SUB_COUNTERS \
	uint64_t posted; \
	uint64_t transmitted; \
	uint64_t done; \
	uint64_t base; \
	uint64_t received; \
	uint64_t flushed;
#define SUB_PAD 136
#define STATE_PAD 1200
#endif

struct ncclProxyConnection {
#if SIM_LAYOUT == 1
	char handles[64];
#endif
	int send, transport, shared;
#if SIM_LAYOUT == 2
	char handles[24];
#endif
	/* Ours from here on. */
	struct ncclProxyArgs *last; /* of the operations at work on it; NULL: none */
	uint64_t step;              /* steps of all operations before */
	int fd, peer, channel;
	void *of_transport;
	bool is_eaten;  /* the network takes what is sent and delivers nothing */
	bool is_broken; /* its peer is gone */
};

struct ncclProxySubArgs {
#if SIM_LAYOUT != 2
	struct ncclProxyConnection *connection;
#endif
	char handles[SUB_PAD];
#if SIM_LAYOUT == 1
	SUB_COUNTERS
	SUB_PLACE
#else
	SUB_PLACE
	SUB_COUNTERS
#endif
#if SIM_LAYOUT == 2
	struct ncclProxyConnection *connection;
#endif
};

struct ncclProxyArgs {
#if SIM_LAYOUT == 1
	struct ncclProxyArgs *nextPeer;
	struct ncclProxyArgs *next;
	int state;
	uint64_t opCount;
#endif
	struct ncclProxySubArgs subs[PROXY_MAX_SUBS];
	int nsubs;
	int done;
#if SIM_LAYOUT != 1
	uint64_t opCount;
#endif
	int sliceSteps;
	uint8_t pattern;
	uint8_t coll;
	uint8_t protocol;
	uint8_t algorithm;
#if SIM_LAYOUT != 1
	int state;
	int idle;
	struct ncclProxyArgs *next;
	struct ncclProxyArgs *nextPeer;
#endif
	struct net_op *op; /* ours */
};

struct ncclProxyProgressState {
#if SIM_LAYOUT == 2
	struct ncclProxyArgs *active;
	struct ncclProxyArgs *pool;
	int nextOps;
#endif
	pthread_t thread;
	int stop;
#if SIM_LAYOUT != 2
	char netComms[STATE_PAD];
	struct ncclProxyArgs *active;
	struct ncclProxyArgs *pool;
#endif
};

struct ncclProxyState {
	int refCount;
	int tpRank;
	char sockets[STATE_PAD];
	struct ncclProxyProgressState progressState;

	/* Ours from here on. */
	const struct net_transport *net;
	struct ncclComm *comm;
	struct ncclProxyConnection connections[2 * NET_CHANNELS]; /* of a channel the send and the receive side */
	int listen_fds[NET_CHANNELS];                             /* of a transport over sockets */
	int wake_fd;
	_Atomic(struct net_op *) posted; /* by the host, newest first; the thread takes all at once */
	_Atomic uint32_t stopping;       /* futex */
	pid_t tid;
	uint64_t nr_ops;
	int armed_how, armed_channel; /* fault of the operation that is called next; 0: none */
};

/* One collective on its way round the ring. The host posts it at the launch, the GPU reaches it in its turn. */
enum net_fault { NET_FAULT_NONE, NET_FAULT_EATEN, NET_FAULT_STOP, NET_FAULT_SIGSTOP };

struct net_op {
	struct net_op *next;
	uint64_t op_count;
	int func, nsteps;
	int fault, fault_channel;
	uint64_t value;                     /* this rank's, valid from reached on */
	_Atomic uint32_t reached, finished; /* finished: futex */
	_Atomic uint32_t cancelled;
	_Atomic uint32_t refs, left;    /* left: parts that are not done */
	uint64_t *values[NET_CHANNELS]; /* received, by distance on the ring: 0 is the rank before */
};

/* proxy.c: all do nothing, and net_op_post() returns NULL, without SIM_NCCL_NET or peers. 0 or -errno. */
int proxy_listen(struct ncclComm *comm, const uint64_t nonce[2]); /* before the ranks have met */
int proxy_start(struct ncclComm *comm, const uint64_t nonce[2]);  /* after */
void proxy_stop(struct ncclComm *comm);
/* For transports over sockets: all descriptors but the one that wakes. */
void sockets_close(struct ncclProxyState *state);
struct net_op *net_op_post(struct ncclComm *comm, int func);
/* The GPU is at it: returns when its data are there, or -ECANCELED after fabric_abort(). Lets go of @op. */
int net_op_run(struct ncclComm *comm, struct net_op *op, uint64_t value, uint64_t ready_ns, uint64_t *ret_value);

/* progress.c: the thread. */
void *proxy_progress(void *state);
void net_op_put(struct net_op *op);

#endif
