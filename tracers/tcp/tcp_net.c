/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_net.c - see tcp_net.h.
 */
#include "tracers/tcp/tcp_net.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inspect/net/netns.h"
#include "inspect/net/tcp_diag.h"
#include "inspect/reader/reader.h"

/* --- in a reader: who enters another namespace needs a right that the collector has given up --- */

struct entry {
	uint64_t inode;
	uint32_t tgid;
};

static int diag_open(void *of)
{
	struct reader_job *job = of;
	int fd = tcp_diag_open();

	if (fd < 0)
		return fd;
	job->fds_out[job->n_fds_out++] = fd;
	return 0;
}

static int op_enter(struct reader_job *job)
{
	const struct entry *e = job->arg;

	return netns_visit(e->inode, e->tgid, diag_open, job);
}

/* --- in the collector --- */

bool tcp_net_is_own(uint64_t inode)
{
	uint64_t own;

	return !netns_of(getpid(), &own) && own == inode;
}

int tcp_net_open(struct tcp_net *n, struct reader *r, uint64_t inode, uint32_t tgid)
{
	struct entry e = { inode, tgid };

	*n = (struct tcp_net){ .inode = inode, .tgid = tgid, .fd = -1 };
	if (tcp_net_is_own(inode)) {
		n->fd = tcp_diag_open();
		n->error = n->fd < 0 ? n->fd : 0;
	} else {
		n->error = r ? reader_run(r, 0, op_enter, &e, sizeof(e), READER_DEADLINE_MS, NULL, 0, NULL, &n->fd)
			     : -EPERM;
	}
	return n->error;
}

void tcp_net_close(struct tcp_net *n)
{
	if (n->inode && n->fd >= 0)
		close(n->fd);
	*n = (struct tcp_net){ .fd = -1 };
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
		d->known = !ioctl(n->fd, SIOCGIFFLAGS, &r);
		d->up = d->known && (r.ifr_flags & IFF_UP) && (r.ifr_flags & IFF_RUNNING);
	}
}

/* --- addresses --- */

/* Of IPv4 a socket of the namespace knows all; those of IPv6 are in a file. An alias is its device's: "eth0:1". */
static void seek_v4(const struct tcp_net *n, const void *address, char name[16])
{
	static const int most = 256;
	struct ifreq *rows = calloc(most, sizeof(*rows));
	struct ifconf all = { .ifc_len = most * sizeof(*rows), .ifc_req = rows };
	int count = rows && !ioctl(n->fd, SIOCGIFCONF, &all) ? all.ifc_len / (int)sizeof(*rows) : 0;

	for (int i = 0; i < count; i++) {
		const struct sockaddr_in *a = (const struct sockaddr_in *)&rows[i].ifr_addr;

		if (a->sin_family == AF_INET && !memcmp(&a->sin_addr, address, 4))
			snprintf(name, 16, "%.*s", (int)strcspn(rows[i].ifr_name, ":"), rows[i].ifr_name);
	}
	free(rows);
}

/* "fe80000000000000021122fffe334455 02 40 20 80     eth0": net/ipv6/addrconf.c */
static void seek_v6(const struct tcp_net *n, const uint8_t *address, char name[16])
{
	char path[64], line[128], wanted[33], found[33], device[16];
	FILE *f;

	for (int i = 0; i < 16; i++)
		snprintf(wanted + 2 * i, 3, "%02x", address[i]);
	snprintf(path, sizeof(path), "/proc/%u/net/if_inet6", n->tgid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%32s %*s %*s %*s %*s %15s", found, device) == 2 && !strcmp(found, wanted))
			memcpy(name, device, sizeof(device));
	fclose(f);
}

int tcp_net_device(struct tcp_net *n, int family, const void *address)
{
	size_t size = family == AF_INET ? 4 : 16;
	char name[16] = "";
	struct net_device *d;

	if (n->last.family == family && !memcmp(n->last.address, address, size))
		return n->last.device;
	if (family == AF_INET)
		seek_v4(n, address, name);
	else
		seek_v6(n, address, name);
	if (!*name)
		return -1;
	d = device_get(n, name);
	n->last.family = family;
	n->last.device = d ? (int)(d - n->devices) : -1;
	memcpy(n->last.address, address, size);
	return n->last.device;
}
