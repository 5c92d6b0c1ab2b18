/* SPDX-License-Identifier: Apache-2.0
 *
 * port_tree.h - the ports of the host's RDMA devices as sysfs shows them. Files are opened once and read again and
 * again; devices may come and go. A read may take as long as the device's firmware likes: not for the collector's own
 * loop.
 */
#ifndef RANKTRACE_PORT_TREE_H
#define RANKTRACE_PORT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracers/rdma/wire/port.h"

#define PORTS_LISTED_MAX 64

struct tree_id { /* what seldom changes; zeroed behind the texts, so that two can be compared as bytes */
	char device[64], netdev[32], pci[32], kind[96], layer[24];
	uint32_t number;
	int32_t numa_node; /* -1 unknown */
};

struct tree_sample {
	struct port_status now; /* but for index, number of counters, time and cost: those are 0 */
	uint64_t counters[PORT_COUNTERS];
};

struct port_files;

struct tree_port { /* its place in the list is its number; a device that comes back has its own again */
	struct tree_id id;
	struct tree_sample sample;
	struct port_files *files; /* NULL: it is gone */
};

struct port_tree;

/* `root` stands for /sys. 0, -ENOMEM, or -ENOTSUP: there is no RDMA subsystem. */
int port_tree_open(const char *root, struct port_tree **ret);
void port_tree_free(struct port_tree *t);
/* Looks which devices there are. */
void port_tree_scan(struct port_tree *t);
/* Reads the ports: state, carrier and bytes; the rest only if `all`. */
void port_tree_sample(struct port_tree *t, bool all);
/* Good until the next scan. */
const struct tree_port *port_tree_list(const struct port_tree *t, size_t *ret_n);
/* The place of the port at which a scan or a sample is now, also while another thread is in it; -1: at none. */
int port_tree_at(const struct port_tree *t);
/* The device behind /dev/infiniband/uverbsN; false: unknown. */
bool port_tree_uverbs(const struct port_tree *t, unsigned int n, char *device, size_t size);

#endif
