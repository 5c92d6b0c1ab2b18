/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_net.c - see tcp_net.h.
 */
#include "tracers/tcp/tcp_net.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inspect/net/netns.h"
#include "inspect/net/tcp_diag.h"

static int sockets_make(void *of)
{
	struct tcp_net *n = of;

	n->device_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (n->device_fd < 0)
		return -errno;
	n->diag_fd = tcp_diag_open();
	return n->diag_fd < 0 ? n->diag_fd : 0;
}

int tcp_net_open(struct tcp_net *n, uint64_t inode, uint32_t tgid)
{
	*n = (struct tcp_net){ .inode = inode, .tgid = tgid, .diag_fd = -1, .device_fd = -1 };
	n->error = netns_visit(inode, tgid, sockets_make, n);
	return n->error;
}

void tcp_net_close(struct tcp_net *n)
{
	if (n->inode && n->diag_fd >= 0)
		close(n->diag_fd);
	if (n->inode && n->device_fd >= 0)
		close(n->device_fd);
	*n = (struct tcp_net){ .diag_fd = -1, .device_fd = -1 };
}

/* --- devices --- */

static struct net_device *device_get(struct tcp_net *n, const char *name)
{
	for (int i = 0; i < n->n_devices; i++)
		if (!strcmp(n->devices[i].name, name))
			return &n->devices[i];
	if (n->n_devices == NET_DEVICES_MAX)
		return NULL;
	n->devices[n->n_devices] = (struct net_device){ .sent = TCP_NO_VALUE, .received = TCP_NO_VALUE };
	snprintf(n->devices[n->n_devices].name, sizeof(n->devices[0].name), "%s", name);
	return &n->devices[n->n_devices++];
}

/* "  eth0: bytes packets errs drop fifo frame compressed multicast bytes ...": net/core/net-procfs.c */
bool tcp_net_line(const char *line, char name[16], uint64_t *ret_received, uint64_t *ret_sent)
{
	const char *colon = strrchr(line, ':');
	size_t len;

	line += strspn(line, " ");
	len = colon && colon > line ? (size_t)(colon - line) : 0;
	if (!len || len > 15)
		return false;
	memcpy(name, line, len);
	name[len] = 0;
	return sscanf(colon + 1, "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, ret_received, ret_sent) == 2;
}

static void counters_read(struct tcp_net *n)
{
	char path[64], line[512], name[16];
	uint64_t received, sent;
	struct net_device *d;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/net/dev", n->tgid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		d = tcp_net_line(line, name, &received, &sent) ? device_get(n, name) : NULL;
		if (!d)
			continue;
		d->received = received;
		d->sent = sent;
	}
	fclose(f);
}

void tcp_net_scan(struct tcp_net *n)
{
	n->last.family = 0; /* an address may move */
	for (int i = 0; i < n->n_devices; i++)
		n->devices[i].sent = n->devices[i].received = TCP_NO_VALUE;
	counters_read(n);
	for (int i = 0; i < n->n_devices; i++) {
		struct net_device *d = &n->devices[i];
		struct ifreq r = { 0 };

		memcpy(r.ifr_name, d->name, sizeof(d->name));
		d->known = !ioctl(n->device_fd, SIOCGIFFLAGS, &r);
		d->up = d->known && (r.ifr_flags & IFF_UP) && (r.ifr_flags & IFF_RUNNING);
	}
}

/* --- addresses --- */

struct sought {
	int family;
	const void *address;
	char name[16];
};

static bool is_address(const struct sockaddr *a, const struct sought *s)
{
	if (!a || a->sa_family != s->family)
		return false;
	if (s->family == AF_INET)
		return !memcmp(&((const struct sockaddr_in *)a)->sin_addr, s->address, 4);
	return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, s->address, 16);
}

static int address_seek(void *of)
{
	struct sought *s = of;
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return -errno;
	for (struct ifaddrs *a = all; a; a = a->ifa_next)
		if (is_address(a->ifa_addr, s))
			snprintf(s->name, sizeof(s->name), "%s", a->ifa_name);
	freeifaddrs(all);
	return 0;
}

int tcp_net_device(struct tcp_net *n, int family, const void *address)
{
	struct sought s = { .family = family, .address = address };
	size_t size = family == AF_INET ? 4 : 16;
	struct net_device *d;

	if (n->last.family == family && !memcmp(n->last.address, address, size))
		return n->last.device;
	if (netns_visit(n->inode, n->tgid, address_seek, &s) || !*s.name)
		return -1;
	d = device_get(n, s.name);
	n->last.family = family;
	n->last.device = d ? (int)(d - n->devices) : -1;
	memcpy(n->last.address, address, size);
	return n->last.device;
}
