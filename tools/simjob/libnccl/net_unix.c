// SPDX-License-Identifier: Apache-2.0
/*
 * The ring over AF_UNIX sockets that keep packets apart. They are known by abstract names made of the communicator's
 * nonce, so nothing is left of them when a process is gone; all ranks are in one network namespace.
 */
#include "tools/simjob/libnccl/net.h"

#include "tools/simjob/libnccl/comm.h"
#include "tools/simjob/libnccl/proxy.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

static socklen_t address_of(struct sockaddr_un *address, const uint64_t nonce[2], int rank, int channel)
{
	int length;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "simnccl-%016lx%016lx-%d-%d",
			  (unsigned long)nonce[0], (unsigned long)nonce[1], rank, channel);
	return offsetof(struct sockaddr_un, sun_path) + 1 + length;
}

static int socket_open(const uint64_t nonce[2], int rank, int channel, bool listens, int *ret_fd)
{
	struct sockaddr_un address;
	socklen_t length = address_of(&address, nonce, rank, channel);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = listens ? bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1)
		     : connect(fd, (struct sockaddr *)&address, length);
	if (rc) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

static int unix_listen(struct ncclProxyState *state, const uint64_t nonce[2])
{
	int c, err = 0;

	for (c = 0; c < NET_CHANNELS && !err; c++)
		err = socket_open(nonce, state->comm->rank, c, true, &state->listen_fds[c]);
	return err;
}

static int unix_connect(struct ncclProxyState *state, const uint64_t nonce[2], int channel)
{
	struct ncclProxyConnection *send = &state->connections[2 * channel], *recv = send + 1;
	int err = socket_open(nonce, send->peer, channel, false, &send->fd);

	if (err)
		return err;
	recv->fd = accept4(state->listen_fds[channel], NULL, NULL, SOCK_CLOEXEC);
	return recv->fd < 0 ? -errno : 0;
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int unix_send(struct ncclProxyConnection *connection, const void *packet)
{
	ssize_t length = send(connection->fd, packet, NET_PACKET_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (length == NET_PACKET_BYTES)
		return 1;
	return length < 0 && would_block() ? 0 : -EPIPE;
}

static int unix_recv(struct ncclProxyConnection *connection, void *packet)
{
	ssize_t length = recv(connection->fd, packet, NET_PACKET_BYTES, MSG_DONTWAIT);

	if (length == NET_PACKET_BYTES)
		return 1;
	return length < 0 && would_block() ? 0 : -EPIPE;
}

static void unix_close(struct ncclProxyState *state)
{
	sockets_close(state);
}

const struct net_transport net_unix = {
	.name = "unix",
	.listen = unix_listen,
	.connect = unix_connect,
	.send = unix_send,
	.recv = unix_recv,
	.close = unix_close,
};
