/* SPDX-License-Identifier: Apache-2.0
 *
 * qp_list.h - what RDMA devices there are and their queue pairs, as the kernel lists them by netlink (what `rdma
 * resource show qp` shows), and the addresses of their ports by sysfs. Providers ask their firmware for each queue
 * pair: not for the collector's loop.
 */
#ifndef RANKTRACE_QP_LIST_H
#define RANKTRACE_QP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracers/rdma/qps_wire.h"

#define QP_LIST_MAX 16384 /* of the host */
#define QP_DEVICES_MAX 64
#define GID_LIST_MAX 256 /* ports */

struct qp_device {
	uint32_t index;
	char name[RECORD_QP_DEVICE_LEN];
};

struct qp_row {                              /* of a process: the kernel's own are left out */
	uint32_t device, qpn, dest_qpn, pid; /* device: its index */
	uint8_t state, type, port;
};

struct gid_row {               /* zeroed where unused: two can be compared as bytes */
	uint32_t device, port; /* device: its place in the list */
	uint16_t lid, n;
	uint8_t gids[RECORD_GIDS_MAX][16];
};

struct qp_list {
	struct qp_device devices[QP_DEVICES_MAX];
	size_t n_devices, n, n_gids;
	bool cut;            /* there were more */
	struct qp_row *rows; /* QP_LIST_MAX */
	struct gid_row gids[GID_LIST_MAX];
};

struct qp_list *qp_list_new(void); /* NULL without memory */
void qp_list_free(struct qp_list *l);
/* Asks the kernel anew. 0; -ENOTSUP: there is no RDMA subsystem; -ETIMEDOUT; -errno. */
int qp_list_read(struct qp_list *l);
/* Addresses of the ports of the devices that the list names; `root` stands for /sys. */
void qp_list_gids(struct qp_list *l, const char *root);

/* For tests: the messages of one answer. 1 more is to come, 0 the last one was there, -errno of the kernel or -EBADMSG.
 */
int qp_list_devices_take(struct qp_list *l, const void *answer, size_t len);
int qp_list_qps_take(struct qp_list *l, const void *answer, size_t len);

#endif
