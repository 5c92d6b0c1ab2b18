/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_sockets.c - of the ends that are sockets: their addresses, when the last byte came, and the inode of the other
 * end where it is on this host. sock_diag has the most; what it does not list (UDP, listeners, kernels without the
 * module) is in /proc/PID/net.
 */
#include "inspect/wait/wait_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inspect/net/netns.h"
#include "inspect/net/tcp_diag.h"
#include "inspect/net/unix_diag.h"

#define TCP_STATE_SYN_SENT 2
#define TCP_STATE_LISTEN 10
#define LINES_MAX 200000 /* of one table */

static void address_set(struct wait_end *e, int family, const void *remote, uint16_t port)
{
	char text[64];

	tcp_address_text(family, remote, text, sizeof(text));
	snprintf(e->what, sizeof(e->what), strchr(text, ':') ? "[%s]:%u" : "%s:%u", text, port);
	e->has_peer = true;
}

/* --- sock_diag --- */

struct dump {
	struct wait_ends *s;
	int fd;
	struct inet_diag_sockid ids[WAIT_FDS_MAX]; /* of those found, by their place among the ends */
	uint8_t family[WAIT_FDS_MAX];
};

static void tcp_take(void *of, const struct diag_socket *d)
{
	struct dump *dump = of;

	for (size_t i = 0; i < dump->s->n; i++) {
		struct wait_end *e = &dump->s->ends[i];
		uint64_t c[TCP_COUNTERS];

		if (!d->inode || e->inode != d->inode || e->kind != END_SOCKET)
			continue;
		tcp_diag_counters(d, c);
		e->kind = END_TCP;
		e->is_opening = d->state == TCP_STATE_SYN_SENT;
		address_set(e, d->family, d->id.idiag_dst, ntohs(d->id.idiag_dport));
		if (c[TCP_SINCE_RECEIVED] != TCP_NO_VALUE && !e->is_opening) /* or since it was opened */
			e->quiet_ns = c[TCP_SINCE_RECEIVED] * 1000000;
		if (c[TCP_BYTES_RECEIVED] != TCP_NO_VALUE && c[TCP_BYTES_ACKED] != TCP_NO_VALUE)
			e->bytes = c[TCP_BYTES_RECEIVED] + c[TCP_BYTES_ACKED];
		dump->ids[i] = d->id;
		dump->family[i] = d->family;
	}
}

struct mirrored {
	const struct inet_diag_sockid *id;
	uint32_t inode;
};

/* The kernel may answer with a listener instead, which has no such other end. */
static void mirrored_take(void *of, const struct diag_socket *d)
{
	struct mirrored *m = of;

	if (d->id.idiag_dport == m->id->idiag_sport && d->id.idiag_sport == m->id->idiag_dport)
		m->inode = d->inode;
}

/* The other end of a connection within the namespace is the same pair of addresses, turned round. */
static void tcp_peer_find(struct dump *dump, size_t i)
{
	struct mirrored m = { .id = &dump->ids[i] };
	struct inet_diag_sockid turned = dump->ids[i];

	memcpy(turned.idiag_src, dump->ids[i].idiag_dst, sizeof(turned.idiag_src));
	memcpy(turned.idiag_dst, dump->ids[i].idiag_src, sizeof(turned.idiag_dst));
	turned.idiag_sport = dump->ids[i].idiag_dport;
	turned.idiag_dport = dump->ids[i].idiag_sport;
	turned.idiag_if = 0;
	turned.idiag_cookie[0] = turned.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (!tcp_diag_ask(dump->fd, dump->family[i], &turned, mirrored_take, &m))
		dump->s->ends[i].peer = m.inode;
}

static void unix_sample(int fd, struct wait_end *e)
{
	struct unix_socket own, other;

	if (unix_diag_ask(fd, e->inode, &own))
		return;
	e->kind = END_UNIX;
	e->peer = own.peer;
	if (own.state == TCP_STATE_LISTEN)
		e->kind = END_LISTEN;
	if (!*own.path && own.peer && !unix_diag_ask(fd, own.peer, &other))
		own = other;
	snprintf(e->what, sizeof(e->what), "%s", own.path);
	e->has_peer = e->peer;
}

static int diag_sample(void *of)
{
	struct wait_ends *s = of;
	struct dump dump = { .s = s, .fd = tcp_diag_open() };

	if (dump.fd < 0)
		return dump.fd;
	tcp_diag_dump(dump.fd, AF_INET, tcp_take, &dump);
	tcp_diag_dump(dump.fd, AF_INET6, tcp_take, &dump);
	close(dump.fd);
	dump.fd = tcp_diag_open(); /* what is left of an answer that was cut short is not to be taken for another's */
	for (size_t i = 0; i < s->n && dump.fd >= 0; i++)
		if (s->ends[i].kind == END_TCP)
			tcp_peer_find(&dump, i);
	for (size_t i = 0; i < s->n && dump.fd >= 0; i++)
		if (s->ends[i].kind == END_SOCKET)
			unix_sample(dump.fd, &s->ends[i]);
	if (dump.fd >= 0)
		close(dump.fd);
	return 0;
}

/* --- /proc/PID/net --- */

static bool address_parse(const char *hex, int family, uint8_t *to)
{
	int words = family == AF_INET6 ? 4 : 1;
	uint32_t word;

	for (int i = 0; i < words; i++, to += 4, hex += 8) {
		if (sscanf(hex, "%8" SCNx32, &word) != 1)
			return false;
		memcpy(to, &word, 4); /* printed as a number of this machine */
	}
	return true;
}

bool wait_netline_parse(const char *line, int family, struct wait_netline *ret)
{
	char local[40], remote[40];
	unsigned local_port, remote_port, state;
	size_t digits = family == AF_INET6 ? 32 : 8;

	*ret = (struct wait_netline){ .family = family };
	if (sscanf(line, " %*u: %39[0-9A-F]:%x %39[0-9A-F]:%x %x %*x:%*x %*x:%*x %*x %*u %*u %" SCNu64, local,
		   &local_port, remote, &remote_port, &state, &ret->inode) != 6)
		return false;
	ret->local_port = local_port;
	ret->remote_port = remote_port;
	ret->state = state;
	return strlen(remote) == digits && strlen(local) == digits && address_parse(remote, family, ret->remote);
}

static void netline_take(struct wait_end *e, const struct wait_netline *l, bool is_udp)
{
	e->kind = is_udp ? END_UDP : l->state == TCP_STATE_LISTEN ? END_LISTEN : END_TCP;
	e->is_opening = !is_udp && l->state == TCP_STATE_SYN_SENT;
	if (l->remote_port)
		address_set(e, l->family, l->remote, l->remote_port);
	else
		snprintf(e->what, sizeof(e->what), "port %u", l->local_port);
	if (is_udp && !l->remote_port)
		e->fd.act = WAITS_TO_OTHER; /* of anybody */
}

static void table_sample(struct wait_ends *s, const char *table, int family, bool is_udp)
{
	struct wait_netline l;
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/net/%s", s->tgid, table);
	f = fopen(path, "re");
	for (int n = 0; f && n < LINES_MAX && fgets(line, sizeof(line), f); n++) {
		if (!wait_netline_parse(line, family, &l) || !l.inode)
			continue;
		for (size_t i = 0; i < s->n; i++)
			if (s->ends[i].inode == l.inode && s->ends[i].kind == END_SOCKET)
				netline_take(&s->ends[i], &l, is_udp);
	}
	if (f)
		fclose(f);
}

static bool some_unknown(const struct wait_ends *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->ends[i].kind == END_SOCKET)
			return true;
	return false;
}

void wait_sockets_sample(struct wait_ends *s)
{
	uint64_t netns;

	if (!some_unknown(s))
		return;
	if (!netns_of(s->tgid, &netns))
		netns_visit(netns, s->tgid, diag_sample, s);
	if (!some_unknown(s))
		return;
	table_sample(s, "udp", AF_INET, true);
	table_sample(s, "udp6", AF_INET6, true);
	table_sample(s, "tcp", AF_INET, false);
	table_sample(s, "tcp6", AF_INET6, false);
}
