/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_netlink.c - answers about unix sockets and about RDMA devices and queue pairs, whose lengths the parsers must
 * not believe. (TCP's: fuzz_tcp_diag.c.) The first byte says which.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/net/unix_diag.h"
#include "tracers/rdma/qp_list.h"

static void unix_feed(const uint8_t *data, size_t size)
{
	struct unix_socket s;
	int rc = unix_diag_parse(data, size, &s);

	if (rc > 0 || rc < -4095 || (!rc && !memchr(s.path, 0, sizeof(s.path))))
		abort();
}

static void rdma_feed(const uint8_t *data, size_t size, int (*take)(struct qp_list *l, const void *answer, size_t len))
{
	static struct qp_list *l;
	uint32_t *aligned = malloc(size + 8); /* as the buffer of recv() is */
	int rc;

	l = l ? l : qp_list_new();
	if (!l || !aligned)
		abort();
	memcpy(aligned, data, size);
	l->n = l->n_devices = 0;
	for (int i = 0; i < 3; i++) { /* until it is full */
		rc = take(l, aligned, size);
		if (rc > 1 || rc < -4095 || l->n > QP_LIST_MAX || l->n_devices > QP_DEVICES_MAX)
			abort();
	}
	for (size_t i = 0; i < l->n_devices; i++)
		if (!memchr(l->devices[i].name, 0, sizeof(l->devices[i].name)))
			abort();
	free(aligned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % 3) {
	case 0: unix_feed(data + 1, size - 1); break;
	case 1: rdma_feed(data + 1, size - 1, qp_list_devices_take); break;
	case 2: rdma_feed(data + 1, size - 1, qp_list_qps_take); break;
	}
	return 0;
}
