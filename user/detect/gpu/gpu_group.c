/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_group.c - see gpu_group.h.
 */
#include "detect/gpu/gpu_group.h"

static bool has_proc(const uint64_t *procs, int n, uint64_t key)
{
	for (int i = 0; i < n; i++)
		if (procs[i] == key)
			return true;
	return false;
}

/* They and no others are in it, and the job has more. */
static bool is_theirs(const uint64_t *procs, int n, const struct comm *c, int world_size)
{
	int members = 0;

	if (c->nranks != n || c->nranks >= world_size)
		return false;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		if (!mb->gone && !has_proc(procs, n, mb->proc->key))
			return false;
		members += !mb->gone;
	}
	return members == n;
}

bool gpu_group_is_own(const struct model *m, const uint64_t *procs, int n)
{
	const struct proc *first = model_proc(m, procs[0]);

	for (const struct member *mb = first ? first->members : NULL; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && is_theirs(procs, n, mb->comm, first->world_size))
			return true;
	return false;
}
