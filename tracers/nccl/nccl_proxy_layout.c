/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_proxy_layout.c - places of the members of NCCL's proxy structs. Their names are the same from 2.18 to 2.30
 * (src/include/proxy.h of each; docs/coverage.md has the table); only coll and algorithm came later.
 */
#include "tracers/nccl/nccl_proxy.h"

#include <errno.h>
#include <string.h>

#include "tracers/nccl/nccl_layout.h"
#include "inspect/elf/struct_layout.h"
#include "inspect/reader/reader.h"

#define DWARF_DEADLINE_MS 5000
#define SUBS_MAX 1024

struct want {
	const char *name;
	uint32_t *at;
	uint32_t size; /* bytes it must have */
	bool optional;
};

#define WANTS_MAX 12

static int wants_fill(const struct want *wants, size_t n, const struct struct_layout *s)
{
	for (size_t i = 0; i < n; i++) {
		const struct field_layout *f = &s->fields[i];
		bool there = f->found && (!wants[i].size || f->size == wants[i].size);

		if (!there && !wants[i].optional)
			return -ENOENT;
		*wants[i].at = there ? f->offset : NCCL_NOWHERE;
	}
	return 0;
}

/* 0, -errno, as all that follow: a busy machine is no reason to do without for good. */
static int struct_fetch(struct reader *r, int fd, const char *name, const struct want *wants, size_t n,
			struct struct_layout *ret)
{
	const char *names[WANTS_MAX];

	for (size_t i = 0; i < n; i++)
		names[i] = wants[i].name;
	int err = struct_layout_fetch(r, fd, name, names, n, DWARF_DEADLINE_MS, ret);

	return err ? err : wants_fill(wants, n, ret);
}

static int args_fetch(struct reader *r, int fd, struct nccl_proxy_layout *l)
{
	const struct want wants[] = {
		{ "subs", &l->subs, 0, false },        { "nsubs", &l->nsubs, 4, false },
		{ "opCount", &l->op_count, 8, false }, { "state", &l->state, 4, false },
		{ "next", &l->next, 8, false },        { "nextPeer", &l->next_peer, 8, false },
		{ "coll", &l->coll, 1, true },         { "algorithm", &l->algorithm, 1, true },
		{ "protocol", &l->protocol, 1, true },
	};
	struct struct_layout s;
	int err = struct_fetch(r, fd, "ncclProxyArgs", wants, sizeof(wants) / sizeof(wants[0]), &s);

	if (err)
		return err;
	l->max_subs = s.fields[0].count;
	if (!l->max_subs || l->max_subs > SUBS_MAX || s.fields[0].size % l->max_subs)
		return -ENOENT;
	l->stride = s.fields[0].size / l->max_subs;
	return 0;
}

static int sub_fetch(struct reader *r, int fd, struct nccl_proxy_layout *l)
{
	const struct want wants[] = {
		{ "connection", &l->connection, 8, false },
		{ "channelId", &l->channel, 4, false },
		{ "nsteps", &l->nsteps, 4, false },
		{ "peer", &l->peer, 4, false },
		{ "base", &l->base, 8, false },
		{ "posted", &l->posted, 8, false },
		{ "received", &l->received, 8, false },
		{ "flushed", &l->flushed, 8, false },
		{ "transmitted", &l->transmitted, 8, false },
		{ "done", &l->done, 8, false },
	};
	struct struct_layout s;
	int err = struct_fetch(r, fd, "ncclProxySubArgs", wants, sizeof(wants) / sizeof(wants[0]), &s);

	return err ? err : s.size == l->stride ? 0 : -ENOENT;
}

static int heads_fetch(struct reader *r, int fd, struct nccl_proxy_layout *l)
{
	const struct want of_comm[] = { { "proxyState", &l->proxy_state, 8, false } };
	const struct want of_state[] = {
		{ "progressState.active", &l->active, 8, false },
		{ "progressState.thread", &l->thread, 8, true },
	};
	const struct want of_connection[] = { { "send", &l->is_send, 4, false },
					      { "transport", &l->transport, 4, false } };
	struct struct_layout s;

	int err = struct_fetch(r, fd, "ncclComm", of_comm, 1, &s);

	err = err ? err : struct_fetch(r, fd, "ncclProxyState", of_state, 2, &s);
	return err ? err : struct_fetch(r, fd, "ncclProxyConnection", of_connection, 2, &s);
}

int nccl_proxy_layout_fetch(struct reader *r, int fd, struct nccl_proxy_layout *ret)
{
	struct nccl_proxy_layout l;

	memset(&l, 0, sizeof(l));
	int err = heads_fetch(r, fd, &l);

	err = err ? err : args_fetch(r, fd, &l);
	err = err ? err : sub_fetch(r, fd, &l);
	l.known = !err;
	if (l.known)
		*ret = l;
	else
		memset(ret, 0, sizeof(*ret));
	return reader_is_late(err) ? err : 0;
}
