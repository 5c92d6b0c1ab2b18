/* SPDX-License-Identifier: Apache-2.0
 *
 * unix_diag.c - see unix_diag.h. The parser trusts no length.
 */
#include "inspect/net/unix_diag.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_BYTES 4096

static int ask(int fd, uint32_t inode)
{
	struct {
		struct nlmsghdr h;
		struct unix_diag_req r;
	} question = {
		.h = { .nlmsg_len = sizeof(question), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
		.r = { .sdiag_family = AF_UNIX,
		       .udiag_states = ~0u,
		       .udiag_ino = inode,
		       .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER,
		       .udiag_cookie = { ~0u, ~0u } }, /* whichever has that inode */
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	return sendto(fd, &question, sizeof(question), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 ? -errno : 0;
}

static void name_take(const uint8_t *bytes, size_t size, struct unix_socket *s)
{
	size = size < sizeof(s->path) ? size : sizeof(s->path) - 1;
	memcpy(s->path, bytes, size);
	s->path[size] = 0;
	if (size && !bytes[0])
		s->path[0] = '@';
}

static void attributes_take(const uint8_t *at, size_t left, struct unix_socket *s)
{
	while (left >= sizeof(struct rtattr)) {
		struct rtattr a;

		memcpy(&a, at, sizeof(a));
		if (a.rta_len < sizeof(a) || a.rta_len > left)
			return;
		if (a.rta_type == UNIX_DIAG_NAME)
			name_take(at + sizeof(a), a.rta_len - sizeof(a), s);
		if (a.rta_type == UNIX_DIAG_PEER && a.rta_len >= sizeof(a) + sizeof(s->peer))
			memcpy(&s->peer, at + sizeof(a), sizeof(s->peer));
		if (RTA_ALIGN(a.rta_len) >= left)
			return;
		left -= RTA_ALIGN(a.rta_len);
		at += RTA_ALIGN(a.rta_len);
	}
}

int unix_diag_parse(const void *bytes, size_t size, struct unix_socket *ret)
{
	const uint8_t *body = (const uint8_t *)bytes + sizeof(struct nlmsghdr);
	struct unix_diag_msg m;
	struct nlmsghdr h;
	int err;

	if (size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, bytes, sizeof(h));
	if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > size)
		return -EBADMSG;
	size = h.nlmsg_len - sizeof(h);
	if (h.nlmsg_type == NLMSG_ERROR && size >= sizeof(err)) {
		memcpy(&err, body, sizeof(err));
		return err < 0 && err > -4096 ? err : -EBADMSG;
	}
	if (h.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < sizeof(m))
		return -EBADMSG;
	memcpy(&m, body, sizeof(m));
	*ret = (struct unix_socket){ .inode = m.udiag_ino, .state = m.udiag_state };
	attributes_take(body + sizeof(m), size - sizeof(m), ret);
	return 0;
}

int unix_diag_ask(int fd, uint32_t inode, struct unix_socket *ret)
{
	_Alignas(8) char bytes[ANSWER_BYTES];
	int err = ask(fd, inode);
	ssize_t n;

	if (err)
		return err;
	do
		n = recv(fd, bytes, sizeof(bytes), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return unix_diag_parse(bytes, n, ret);
}
