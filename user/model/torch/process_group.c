/* SPDX-License-Identifier: Apache-2.0
 *
 * process_group.c - which process group of PyTorch a communicator is, and the group's own number of each operation.
 * PyTorch says so right before it calls NCCL, on the same thread: what the thread calls next, in one communicator, is
 * that operation. An all-to-all is several calls.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/state.h"

#define CALLS_WITHIN_NS 1000000000ull /* of what PyTorch said: what comes later is somebody else's call */
#define COALESCED "nccl:coalesced"    /* said at the end of several calls: no call follows */

struct said { /* by a thread */
	struct torch_group group;
	uint64_t ns, addr; /* addr: of the communicator that it was found to be for; 0 none called yet */
};

void process_groups_forget(struct proc_own *p)
{
	for (struct task_own *t = p->tasks; t; t = t->hh.next) {
		free(t->said);
		t->said = NULL;
	}
}

int process_group_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct task_own *t = p ? task_get(p, e->tid) : NULL;

	if (!t)
		return -ENOMEM;
	free(t->said);
	t->said = NULL;
	if (p->p.is_child || !strcmp(e->torch_group.title, COALESCED))
		return 0;
	t->said = malloc(sizeof(*t->said));
	if (!t->said)
		return -ENOMEM;
	*t->said = (struct said){ .group = e->torch_group, .ns = e->ts_ns };
	return 0;
}

/* What people gave it, else PyTorch's own number of it. */
static const char *name_of(const struct torch_group *g)
{
	return *g->desc && strcmp(g->desc, "undefined") ? g->desc : g->name;
}

void process_group_call(struct task_own *t, struct op *op)
{
	struct said *said = t->said;
	struct member *mb = op->member;

	if (!said)
		return;
	if (op->call_ns > said->ns + CALLS_WITHIN_NS || (said->addr && said->addr != mb->addr)) {
		free(said);
		t->said = NULL;
		return;
	}
	said->addr = mb->addr;
	op->process_group_seq = op_kind_p2p(op->kind) ? said->group.p2p_seq : said->group.seq;
	op->in_process_group = true;
	memcpy(mb->comm->process_group, name_of(&said->group), TORCH_GROUP_TEXT);
}
