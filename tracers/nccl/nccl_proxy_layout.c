/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_proxy_layout.c - places of the members of NCCL's proxy structs. Their names are the same from 2.18 to 2.30
 * (src/include/proxy.h of each; docs/coverage.md has the table); only coll and algorithm came later.
 */
#include "tracers/nccl/nccl_proxy.h"

#include <string.h>

#include "tracers/nccl/nccl_layout.h"
#include "inspect/elf/struct_layout.h"

#define DWARF_DEADLINE_MS 5000
#define SUBS_MAX 1024

struct want {
	const char *name;
	uint32_t *at;
	uint32_t size; /* bytes it must have */
	bool optional;
};

#define WANTS_MAX 12

static bool wants_fill(const struct want *wants, size_t n, const struct struct_layout *s)
{
	for (size_t i = 0; i < n; i++) {
		const struct field_layout *f = &s->fields[i];
		bool there = f->found && (!wants[i].size || f->size == wants[i].size);

		if (!there && !wants[i].optional)
			return false;
		*wants[i].at = there ? f->offset : NCCL_NOWHERE;
	}
	return true;
}

static bool struct_fetch(struct reader *r, int fd, const char *name, const struct want *wants, size_t n,
			 struct struct_layout *ret)
{
	const char *names[WANTS_MAX];

	for (size_t i = 0; i < n; i++)
		names[i] = wants[i].name;
	return !struct_layout_fetch(r, fd, name, names, n, DWARF_DEADLINE_MS, ret) && wants_fill(wants, n, ret);
}

static bool args_fetch(struct reader *r, int fd, struct nccl_proxy_layout *l)
{
	const struct want wants[] = {
		{ "subs", &l->subs, 0, false },        { "nsubs", &l->nsubs, 4, false },
		{ "opCount", &l->op_count, 8, false }, { "state", &l->state, 4, false },
		{ "next", &l->next, 8, false },        { "nextPeer", &l->next_peer, 8, false },
		{ "coll", &l->coll, 1, true },         { "algorithm", &l->algorithm, 1, true },
		{ "protocol", &l->protocol, 1, true },
	};
	struct struct_layout s;

	if (!struct_fetch(r, fd, "ncclProxyArgs", wants, sizeof(wants) / sizeof(wants[0]), &s))
		return false;
	l->max_subs = s.fields[0].count;
	if (!l->max_subs || l->max_subs > SUBS_MAX || s.fields[0].size % l->max_subs)
		return false;
	l->stride = s.fields[0].size / l->max_subs;
	return true;
}

static bool sub_fetch(struct reader *r, int fd, struct nccl_proxy_layout *l)
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

	return struct_fetch(r, fd, "ncclProxySubArgs", wants, sizeof(wants) / sizeof(wants[0]), &s) &&
	       s.size == l->stride;
}

static bool heads_fetch(struct reader *r, int fd, struct nccl_proxy_layout *l)
{
	const struct want of_comm[] = { { "proxyState", &l->proxy_state, 8, false } };
	const struct want of_state[] = {
		{ "progressState.active", &l->active, 8, false },
		{ "progressState.thread", &l->thread, 8, true },
	};
	const struct want of_connection[] = { { "send", &l->is_send, 4, false },
					      { "transport", &l->transport, 4, false } };
	struct struct_layout s;

	return struct_fetch(r, fd, "ncclComm", of_comm, 1, &s) &&
	       struct_fetch(r, fd, "ncclProxyState", of_state, 2, &s) &&
	       struct_fetch(r, fd, "ncclProxyConnection", of_connection, 2, &s);
}

void nccl_proxy_layout_fetch(struct reader *r, int fd, struct nccl_proxy_layout *ret)
{
	struct nccl_proxy_layout l;

	memset(&l, 0, sizeof(l));
	l.known = heads_fetch(r, fd, &l) && args_fetch(r, fd, &l) && sub_fetch(r, fd, &l);
	if (l.known)
		*ret = l;
	else
		memset(ret, 0, sizeof(*ret));
}
