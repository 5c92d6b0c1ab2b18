/* SPDX-License-Identifier: Apache-2.0
 *
 * ports.c - what is known of a port: its state, MTU and GIDs by verbs; speed, GID types and memory node by sysfs.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/stress/lib/node.h"
#include "tools/stress/verbs/host.h"

/* The first line below class/infiniband/DEVICE, without its end; false: there is none. */
__attribute__((format(printf, 4, 5))) static bool line_read(const struct rdma_port *p, char *text, size_t size,
							    const char *format, ...)
{
	char path[512], below[128];
	va_list args;
	FILE *f;
	bool ok;

	va_start(args, format);
	vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", sysfs_root(), p->device, below);
	f = fopen(path, "re");
	ok = f && fgets(text, size, f);
	if (f)
		fclose(f);
	if (ok)
		text[strcspn(text, "\n")] = 0;
	else
		*text = 0;
	return ok && *text;
}

static void gid_text(const union verbs_gid *gid, char text[40])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *r = gid->raw;

	if (!memcmp(r, mapped, sizeof(mapped))) {
		snprintf(text, 40, "%u.%u.%u.%u", r[12], r[13], r[14], r[15]);
		return;
	}
	for (int i = 0; i < 8; i++)
		snprintf(text + 5 * i, 40 - 5 * i, i < 7 ? "%02x%02x:" : "%02x%02x", r[2 * i], r[2 * i + 1]);
}

/* Which of a RoCE port's GIDs is best: version 2 before 1, which no router lets through; an address of IPv4 before one
 * of IPv6, and that before a link-local one. -1: it is empty. */
static int gid_worth(const union verbs_gid *gid, const char *type)
{
	static const union verbs_gid none;
	bool mapped = !gid->words[0] && !gid->raw[8] && !gid->raw[9] && gid->raw[10] == 0xff && gid->raw[11] == 0xff;
	bool local = gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;

	if (!memcmp(gid, &none, sizeof(none)))
		return -1;
	return 4 * !strcmp(type, "RoCE v2") + (mapped ? 2 : !local);
}

static void gid_choose(struct rdma_host *host, struct verbs_device_context *context, struct rdma_port *p, int entries)
{
	int best = -1, wanted = host->options->rdma.gid_index;
	union verbs_gid gid;
	char type[sizeof(p->gid_type)];

	p->gid_index = -1;
	for (int i = wanted < 0 ? 0 : wanted; i < (wanted < 0 ? entries : wanted + 1); i++) {
		int worth;

		if (!line_read(p, type, sizeof(type), "ports/%d/gid_attrs/types/%d", p->number, i) && !wanted)
			continue;
		if (host->verbs.query_gid(context, p->number, i, &gid))
			continue;
		worth = gid_worth(&gid, type);
		if (worth <= best)
			continue;
		best = worth;
		p->gid_index = i;
		snprintf(p->gid_type, sizeof(p->gid_type), "%s", type);
		gid_text(&gid, p->gid);
		line_read(p, p->netdev, sizeof(p->netdev), "ports/%d/gid_attrs/ndevs/%d", p->number, i);
	}
}

/* Leading ones of a mask. */
static int mask_bits(const uint8_t *mask, int bytes)
{
	int n = 0;

	while (n < 8 * bytes && mask[n / 8] >> (7 - n % 8) & 1)
		n++;
	return n;
}

/* The bytes of an address of IPv4 or 6; NULL: it is of neither. */
static const uint8_t *address_bytes(const struct sockaddr *a, int *n)
{
	bool is_4 = a && a->sa_family == AF_INET, is_6 = a && a->sa_family == AF_INET6;

	*n = is_4 ? 4 : 16;
	return is_4   ? (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr
	       : is_6 ? ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr
		      : NULL;
}

static void network_text(const uint8_t *raw, int bytes, int bits, char text[64])
{
	union verbs_gid gid = { .raw = { [10] = bytes == 4 ? 0xff : 0, [11] = bytes == 4 ? 0xff : 0 } };
	char address[40];

	for (int i = 0; i < bits; i++)
		gid.raw[16 - bytes + i / 8] |= raw[i / 8] & 0x80 >> i % 8;
	gid_text(&gid, address);
	snprintf(text, 64, "%s/%d", address, bits);
}

/* Of InfiniBand its subnet. Separate fabrics often keep the prefix that all come with; subnet managers at two LIDs are
 * of two fabrics, at one of one or two. */
static void subnet_text(struct rdma_port *p, int sm_lid)
{
	int at = snprintf(p->network, sizeof(p->network), "subnet %.19s", p->gid);

	if (sm_lid)
		snprintf(p->network + at, sizeof(p->network) - at, ", SM at LID %d", sm_lid);
}

/* Of Ethernet the network of the netdev's address that the GID is of; link-local ones are of each wire. */
static void network_find(struct rdma_port *p, int sm_lid)
{
	struct ifaddrs *all = NULL;

	if (p->link_layer == VERBS_LINK_INFINIBAND && *p->gid)
		subnet_text(p, sm_lid);
	if (p->link_layer != VERBS_LINK_ETHERNET || !*p->netdev || !strncmp(p->gid, "fe80:", 5) || getifaddrs(&all))
		return;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		const uint8_t *raw, *mask;
		union verbs_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };
		char text[40];
		int n;

		raw = address_bytes(a->ifa_addr, &n);
		if (!raw || strcmp(a->ifa_name, p->netdev) || !(mask = address_bytes(a->ifa_netmask, &n)))
			continue;
		memcpy(gid.raw + 16 - n, raw, n);
		gid_text(&gid, text);
		if (!strcmp(text, p->gid))
			network_text(raw, n, mask_bits(mask, n), p->network);
	}
	freeifaddrs(all);
}

/* Of a netdev, or of all: an ARP request from another port of this host is dropped without it. */
static bool accepts_local(const char *netdev)
{
	char path[512];
	int value = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%.300s/sys/net/ipv4/conf/%s/accept_local", procfs_root(), netdev);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value > 0;
}

static bool heard(const struct rdma_port *p)
{
	uint64_t counters[PORT_COUNTERS];
	static const int of[] = { PORT_RECEIVED_PACKETS, PORT_RECEIVED_BYTES };
	bool any = false;

	counters_read(p->device, p->number, p->netdev, counters);
	for (int i = 0; i < 2; i++)
		any |= counters[of[i]] && counters[of[i]] != PORT_NOT_COUNTED;
	return any;
}

static bool is_soft(const struct rdma_port *p)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device", sysfs_root(), p->device);
	return access(path, F_OK) != 0;
}

int port_read(struct rdma_host *host, struct verbs_device_context *context, struct rdma_port *p)
{
	struct verbs_device_attr device = { .fw_ver = "" };
	struct verbs_port_attr port = { 0 };
	char text[32];
	int err = host->verbs.query_device(context, &device);

	err = err ? err : host->verbs.query_port(context, p->number, &port);
	if (err)
		return err;
	p->state = port.state;
	p->phys_state = port.phys_state;
	p->link_layer = port.link_layer;
	p->mtu = 128 << port.active_mtu;
	p->lid = port.lid;
	p->vendor = device.vendor_id;
	p->part = device.vendor_part_id;
	p->reads =
		device.max_qp_rd_atom < device.max_qp_init_rd_atom ? device.max_qp_rd_atom : device.max_qp_init_rd_atom;
	p->soft = is_soft(p);
	snprintf(p->firmware, sizeof(p->firmware), "%.60s", device.fw_ver);
	line_read(p, p->board, sizeof(p->board), "board_id");
	line_read(p, p->speed, sizeof(p->speed), "ports/%d/rate", p->number);
	p->gbits = p->soft ? 0 : strtod(p->speed, NULL);
	p->node = line_read(p, text, sizeof(text), "device/numa_node") ? atoi(text) : -1;
	p->cpus = node_usable(sysfs_root(), p->node);
	gid_choose(host, context, p, port.gid_tbl_len);
	network_find(p, port.sm_lid);
	p->accepts_local = accepts_local("all") || (*p->netdev && accepts_local(p->netdev));
	p->has_heard = heard(p);
	return 0;
}
