/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_diag.c - see tcp_diag.h.
 */
#include "inspect/net/tcp_diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_BYTES 32768 /* the kernel fills as much as it is given room for, up to this */
#define TIMEOUT_S 2        /* an answer comes at once, or something is wrong */
/* include/net/tcp_states.h: all but TIME_WAIT, CLOSE, LISTEN and NEW_SYN_RECV, which are no process' data. */
#define STATES_WANTED ((1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 8 | 1u << 9 | 1u << 11))

static const struct {
	bool is_info;
	uint8_t bytes;
	uint16_t offset;
} rows[TCP_COUNTERS] = {
#define TCP_COUNTER(id, name, at, size) [TCP_##id] = { true, size, at },
#define TCP_BESIDE(id, name) [TCP_##id] = { 0 },
#include "tracers/tcp/wire/tcp_counters.def"
#undef TCP_BESIDE
#undef TCP_COUNTER
};

int tcp_diag_open(void)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), err;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int ask(int fd, int flags, int family, const struct inet_diag_sockid *id)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} question = {
		.h = { .nlmsg_len = sizeof(question),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | flags },
		.r = { .sdiag_family = family,
		       .sdiag_protocol = IPPROTO_TCP,
		       .idiag_ext = 1 << (INET_DIAG_INFO - 1),
		       .idiag_states = STATES_WANTED },
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (id)
		question.r.id = *id;
	return sendto(fd, &question, sizeof(question), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 ? -errno : 0;
}

static int answer(int fd, bool whole, diag_fn each, void *of)
{
	_Alignas(8) char bytes[ANSWER_BYTES];
	ssize_t n;
	int rc = 0;

	do {
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		rc = tcp_diag_parse(bytes, n, each, of);
		if (rc < 0)
			return rc;
	} while (n < 0 || (whole && rc == 0));
	return 0;
}

int tcp_diag_dump(int fd, int family, diag_fn each, void *of)
{
	int err = ask(fd, NLM_F_DUMP, family, NULL);

	return err ? err : answer(fd, true, each, of);
}

int tcp_diag_ask(int fd, int family, const struct inet_diag_sockid *id, diag_fn each, void *of)
{
	int err = ask(fd, 0, family, id);

	return err ? err : answer(fd, false, each, of);
}

/* --- the answer --- */

static void info_find(struct diag_socket *s, const uint8_t *at, size_t left)
{
	while (left >= sizeof(struct rtattr)) {
		struct rtattr a;

		memcpy(&a, at, sizeof(a));
		if (a.rta_len < sizeof(a) || a.rta_len > left)
			return;
		if (a.rta_type == INET_DIAG_INFO) {
			s->info = at + sizeof(a);
			s->info_bytes = a.rta_len - sizeof(a);
		}
		if (RTA_ALIGN(a.rta_len) >= left)
			return;
		left -= RTA_ALIGN(a.rta_len);
		at += RTA_ALIGN(a.rta_len);
	}
}

static int socket_take(const uint8_t *body, size_t size, diag_fn each, void *of)
{
	struct inet_diag_msg m;
	struct diag_socket s;

	if (size < sizeof(m))
		return -EBADMSG;
	memcpy(&m, body, sizeof(m));
	s = (struct diag_socket){ .id = m.id,
				  .family = m.idiag_family,
				  .state = m.idiag_state,
				  .inode = m.idiag_inode,
				  .receive_queue = m.idiag_rqueue,
				  .send_queue = m.idiag_wqueue };
	info_find(&s, body + sizeof(m), size - sizeof(m));
	each(of, &s);
	return 0;
}

static int message_take(const struct nlmsghdr *h, const uint8_t *body, diag_fn each, void *of)
{
	size_t size = h->nlmsg_len - sizeof(*h);
	int err = 0;

	switch (h->nlmsg_type) {
	case NLMSG_DONE: return 1;
	case NLMSG_ERROR:
		if (size < sizeof(err))
			return -EBADMSG;
		memcpy(&err, body, sizeof(err));
		return err < 0 && err > -4096 ? err : -EBADMSG;
	case SOCK_DIAG_BY_FAMILY: return socket_take(body, size, each, of);
	default: return 0;
	}
}

int tcp_diag_parse(const void *bytes, size_t size, diag_fn each, void *of)
{
	const uint8_t *at = bytes;
	struct nlmsghdr h;
	int rc = 0;

	while (size >= sizeof(h) && !rc) {
		memcpy(&h, at, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > size)
			return -EBADMSG;
		rc = message_take(&h, at + sizeof(h), each, of);
		if (NLMSG_ALIGN(h.nlmsg_len) >= size)
			return rc;
		size -= NLMSG_ALIGN(h.nlmsg_len);
		at += NLMSG_ALIGN(h.nlmsg_len);
	}
	return rc ? rc : size ? -EBADMSG : 0;
}

static uint64_t info_value(const struct diag_socket *s, size_t offset, size_t bytes)
{
	uint64_t v64;
	uint32_t v32;

	if (offset + bytes > s->info_bytes)
		return TCP_NO_VALUE;
	if (bytes == 1)
		return s->info[offset];
	if (bytes == 4) {
		memcpy(&v32, s->info + offset, sizeof(v32));
		return v32;
	}
	memcpy(&v64, s->info + offset, sizeof(v64));
	return v64;
}

void tcp_diag_counters(const struct diag_socket *s, uint64_t counters[TCP_COUNTERS])
{
	for (int c = 0; c < TCP_COUNTERS; c++)
		counters[c] = rows[c].is_info ? info_value(s, rows[c].offset, rows[c].bytes) : TCP_NO_VALUE;
	if (counters[TCP_RTT_MIN] == UINT32_MAX) /* tcp_min_rtt() before the first sample */
		counters[TCP_RTT_MIN] = TCP_NO_VALUE;
	counters[TCP_IN_QUEUE] = s->receive_queue;
	counters[TCP_OUT_QUEUE] = s->send_queue;
}

void tcp_address_text(int family, const void *address, char *to, size_t size)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (family == AF_INET6 && !memcmp(address, mapped, sizeof(mapped))) {
		family = AF_INET;
		address = (const uint8_t *)address + sizeof(mapped);
	}
	if (!inet_ntop(family, address, to, size))
		snprintf(to, size, "?");
}
