// SPDX-License-Identifier: Apache-2.0
/*
 * The ring over TCP, a connection a channel, as NCCL's socket transport: each rank listens on the address of the
 * interface that NCCL_SOCKET_IFNAME names, of whatever host (network namespace) it is on, and announces it to its peers
 * through the fabric. Without the variable it is the first interface that is up, loopback only if there is no other. A
 * slice, which is a packet and as many zeroes as SIM_NCCL_SLICE_BYTES asks for (none), may go and come in pieces.
 */
#include "tools/simjob/libnccl/net.h"

#include "tools/simjob/libnccl/comm.h"
#include "tools/simjob/libnccl/proxy.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct tcp_side {            /* of a connection */
	size_t moved, slice; /* bytes, of the slice at hand; of each */
	char *bytes;         /* of a slice: received as far as it has come; sent the zeroes behind the packet */
};

/* --- addresses --- */

static bool is_wanted(const struct ifaddrs *a, const char *prefix)
{
	if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP))
		return false;
	return prefix ? !strncmp(a->ifa_name, prefix, strlen(prefix)) : true;
}

static int address_choose(struct sockaddr_in *ret)
{
	const char *prefix = getenv("NCCL_SOCKET_IFNAME");
	struct ifaddrs *all, *a, *best = NULL;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (a = all; a; a = a->ifa_next) {
		if (is_wanted(a, prefix) &&
		    (!best || ((best->ifa_flags & IFF_LOOPBACK) && !(a->ifa_flags & IFF_LOOPBACK))))
			best = a;
	}
	if (best)
		*ret = *(struct sockaddr_in *)best->ifa_addr;
	else
		fprintf(stderr,
			"libnccl stand-in: no interface that is up has an IPv4 address%s%s; see NCCL_SOCKET_IFNAME\n",
			prefix ? " and begins with " : "", prefix ? prefix : "");
	freeifaddrs(all);
	return best ? 0 : -EADDRNOTAVAIL;
}

static int channel_listen(const struct sockaddr_in *host, struct sockaddr_in *ret, int *ret_fd)
{
	socklen_t length = sizeof(*ret);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	*ret = *host;
	ret->sin_port = 0;
	if (bind(fd, (struct sockaddr *)ret, length) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)ret, &length))
		return -errno;
	return 0;
}

static int tcp_listen(struct ncclProxyState *state, const uint64_t nonce[2])
{
	struct sockaddr_in host, addresses[NET_CHANNELS];
	int c, err = address_choose(&host);

	(void)nonce;
	for (c = 0; c < NET_CHANNELS && !err; c++)
		err = channel_listen(&host, &addresses[c], &state->listen_fds[c]);
	if (!err)
		fabric_address_put(&state->comm->fabric, addresses, sizeof(addresses));
	return err;
}

/* --- connections --- */

static int side_prepare(struct ncclProxyConnection *connection)
{
	int one = 1;
	struct tcp_side *side = calloc(1, sizeof(*side));

	if (!side)
		return -ENOMEM;
	connection->of_transport = side;
	side->slice = net_slice_bytes(NET_PACKET_BYTES);
	side->bytes = calloc(1, side->slice);
	if (!side->bytes)
		return -ENOMEM;
	return setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ? -errno : 0;
}

static int tcp_connect(struct ncclProxyState *state, const uint64_t nonce[2], int channel)
{
	struct ncclProxyConnection *send = &state->connections[2 * channel], *recv = send + 1;
	const struct sockaddr_in *to = fabric_address(&state->comm->fabric, send->peer);
	int err;

	(void)nonce;
	send->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (send->fd < 0 || connect(send->fd, (const struct sockaddr *)&to[channel], sizeof(*to)))
		return -errno;
	recv->fd = accept4(state->listen_fds[channel], NULL, NULL, SOCK_CLOEXEC);
	if (recv->fd < 0)
		return -errno;
	err = side_prepare(send);
	return err ? err : side_prepare(recv);
}

/* --- packets --- */

static int moved(struct tcp_side *side, ssize_t length)
{
	if (length < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
	if (length == 0)
		return -EPIPE;
	side->moved += length;
	if (side->moved < side->slice)
		return 0;
	side->moved = 0;
	return 1;
}

static int tcp_send(struct ncclProxyConnection *connection, const void *packet)
{
	struct tcp_side *side = connection->of_transport;

	memcpy(side->bytes, packet, NET_PACKET_BYTES);
	return moved(side, send(connection->fd, side->bytes + side->moved, side->slice - side->moved,
				MSG_DONTWAIT | MSG_NOSIGNAL));
}

static int tcp_recv(struct ncclProxyConnection *connection, void *packet)
{
	struct tcp_side *side = connection->of_transport;
	int rc = moved(side, recv(connection->fd, side->bytes + side->moved, side->slice - side->moved, MSG_DONTWAIT));

	if (rc == 1)
		memcpy(packet, side->bytes, NET_PACKET_BYTES);
	return rc;
}

static void side_free(struct tcp_side *side)
{
	free(side ? side->bytes : NULL);
	free(side);
}

static void tcp_close(struct ncclProxyState *state)
{
	int i;

	for (i = 0; i < 2 * NET_CHANNELS; i++)
		side_free(state->connections[i].of_transport);
	sockets_close(state);
}

const struct net_transport net_tcp = {
	.name = "tcp",
	.listen = tcp_listen,
	.connect = tcp_connect,
	.send = tcp_send,
	.recv = tcp_recv,
	.close = tcp_close,
};
