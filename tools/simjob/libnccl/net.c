// SPDX-License-Identifier: Apache-2.0
/* See net.h: the table of transports. */
#include "tools/simjob/libnccl/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct net_transport *const transports[] = {
	&net_unix,
	&net_tcp,
#if __has_include(<infiniband/verbs.h>)
	&net_verbs,
#endif
};

const struct net_transport *net_transport_chosen(void)
{
	const char *value = getenv("SIM_NCCL_NET");
	size_t i;

	if (!value || !*value || !strcmp(value, "0"))
		return NULL;
	for (i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (!strcmp(value, transports[i]->name))
			return transports[i];
	}
	fprintf(stderr,
		"libnccl stand-in: SIM_NCCL_NET '%s': unix, tcp or verbs (for which the build needs libibverbs-dev)\n",
		value);
	abort();
}

size_t net_slice_bytes(size_t usual)
{
	const char *value = getenv("SIM_NCCL_SLICE_BYTES");
	size_t bytes = value ? strtoul(value, NULL, 10) : usual;

	if (bytes >= NET_PACKET_BYTES && bytes <= NET_SLICE_BYTES_MAX)
		return bytes;
	fprintf(stderr, "libnccl stand-in: SIM_NCCL_SLICE_BYTES '%s': %d to %d\n", value, NET_PACKET_BYTES,
		NET_SLICE_BYTES_MAX);
	abort();
}
