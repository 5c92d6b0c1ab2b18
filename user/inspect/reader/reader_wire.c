/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_wire.c - one packet on the socket, with files.
 */
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int reader_send(int sock, const void *data, size_t len, const int *fds, size_t n)
{
	union {
		char buf[CMSG_SPACE(READER_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} ctl = { { 0 } };
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		msg.msg_control = ctl.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

		c->cmsg_level = SOL_SOCKET; /* lint: there is room for one */
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	for (;;) {
		ssize_t got = sendmsg(sock, &msg, MSG_NOSIGNAL);

		if (got >= 0)
			return (size_t)got == len ? 0 : -EMSGSIZE;
		if (errno != EINTR)
			return -errno;
	}
}

static size_t take_fds(struct msghdr *msg, int *fds, size_t n)
{
	size_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (taken < n)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

ssize_t reader_recv(int sock, void *data, size_t max, int *fds, size_t n, size_t *ret_n)
{
	union {
		char buf[CMSG_SPACE(READER_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = { data, max }; /* lint: recvmsg() writes there */
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	ssize_t got;

	do
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	size_t taken = take_fds(&msg, fds, n);

	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		while (taken)
			close(fds[--taken]);
		return -EMSGSIZE;
	}
	*ret_n = taken;
	return got;
}
