/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - see ring.h. A record whose size field lies is cut off here, at the border: everything later trusts it.
 */
#include "ring.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

struct ring_source {
	struct ring_buffer *rings;
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
};

static int ring_record(void *ctx, void *data, size_t size)
{
	struct ring_source *r = ctx;
	const struct wire_hdr *h = data;

	if (size < sizeof(*h) || h->size < sizeof(*h) || h->size > size)
		return 0;
	return r->emit(r->to, h);
}

int ring_open(const int *map_fds, int n, int (*emit)(void *to, const struct wire_hdr *rec), void *to,
	      struct ring_source **ret)
{
	struct ring_source *r = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return -ENOMEM;
	r->emit = emit;
	r->to = to;
	r->rings = ring_buffer__new(map_fds[0], ring_record, r, NULL);
	if (!r->rings)
		err = -errno;
	for (int i = 1; !err && i < n; i++)
		err = ring_buffer__add(r->rings, map_fds[i], ring_record, r);
	if (err)
		ring_free(r);
	else
		*ret = r;
	return err;
}

void ring_free(struct ring_source *r)
{
	if (!r)
		return;
	ring_buffer__free(r->rings);
	free(r);
}

int ring_consume(struct ring_source *r)
{
	return ring_buffer__consume(r->rings);
}
