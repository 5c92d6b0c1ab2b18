/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What carries the ring's packets from rank r to r + 1, in NET_CHANNELS channels: a file and a row in net.c each. The
 * proxy (proxy.c, progress.c) knows nothing else of it. A packet arrives whole, once and in order, or the connection is
 * broken.
 */
#ifndef SIMJOB_NCCL_NET_H
#define SIMJOB_NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

#define NET_PACKET_BYTES 256
#define NET_SLICE_BYTES_MAX (1 << 22)

struct ncclProxyConnection;
struct ncclProxyState;

struct net_transport {
	const char *name; /* --net=NAME, SIM_NCCL_NET */
	/*
	 * Before the ranks have met: makes what peers connect to and announces it (fabric_address_put()); the nonce
	 * is the communicator's own, for names. 0 or -errno; close() is called in any case.
	 */
	int (*listen)(struct ncclProxyState *state, const uint64_t nonce[2]);
	/*
	 * After: both halves of a channel, state->connections[2 * channel] to the next rank and [2 * channel + 1] from
	 * the one before. Sets `fd` to what poll() is to look at, POLLOUT for a sender with work, POLLIN for a
	 * receiver; -1: nothing can be polled, the thread looks every millisecond.
	 */
	int (*connect)(struct ncclProxyState *state, const uint64_t nonce[2], int channel);
	/*
	 * NET_PACKET_BYTES, by the proxy's thread, never blocking. 1: taken, or here; 0: not now, to be called again
	 * with the same packet; -errno: broken.
	 */
	int (*send)(struct ncclProxyConnection *connection, const void *packet);
	int (*recv)(struct ncclProxyConnection *connection, void *packet);
	/* How many packets are through since it was last asked, or -errno. NULL: what send() took is through. */
	int (*sent)(struct ncclProxyConnection *connection);
	/* Lets go of all, whatever of it is there. */
	void (*close)(struct ncclProxyState *state);
};

/* net.c: what SIM_NCCL_NET asks for; NULL: none. Ends the process if there is none of that name. */
const struct net_transport *net_transport_chosen(void);
/*
 * Bytes that travel for each packet, itself first: SIM_NCCL_SLICE_BYTES, else @usual. Ends the process if that cannot
 * be.
 */
size_t net_slice_bytes(size_t usual);

/*
 * net_unix.c: sockets known by abstract names. net_tcp.c: TCP, each rank on an address of its host. net_verbs.c: RDMA.
 */
extern const struct net_transport net_unix, net_tcp, net_verbs;

#endif
