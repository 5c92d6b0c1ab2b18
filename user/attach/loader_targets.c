/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_targets.c - the BPF programs' map of target processes, as user space writes and reads it.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "bpf/target.h"
#include "attach/loader_internal.h"

_Static_assert(PROBE_GROUPS <= TARGET_GROUPS, "a counter for each");

static int targets_fd(const struct loader *l)
{
	return loader_map_fd(l, "targets");
}

int target_users_map(struct loader *l)
{
	void *users = mmap(NULL, (TARGET_USERS + 1) * sizeof(*l->target_users), PROT_READ | PROT_WRITE, MAP_SHARED,
			   loader_map_fd(l, "target_users"), 0);

	if (users == MAP_FAILED)
		return -errno;
	l->target_users = users;
	return 0;
}

void target_users_unmap(struct loader *l)
{
	if (l->target_users)
		munmap(l->target_users, (TARGET_USERS + 1) * sizeof(*l->target_users));
	l->target_users = NULL;
}

/* NULL: not counted. The BPF programs count too. */
static uint64_t *user_count(const struct loader *l, uint32_t uid)
{
	return uid && uid != UID_UNKNOWN ? &l->target_users[uid % TARGET_USERS] : NULL;
}

uint64_t loader_forks_refused(const struct loader *l)
{
	return __atomic_load_n(&l->target_users[TARGETS_REFUSED], __ATOMIC_RELAXED);
}

static void target_remove(struct loader *l, uint32_t tgid)
{
	struct target t;
	uint64_t *n = NULL;

	if (!bpf_map_lookup_elem(targets_fd(l), &tgid, &t))
		n = user_count(l, t.uid);
	if (!bpf_map_delete_elem(targets_fd(l), &tgid) && n)
		__atomic_fetch_sub(n, 1, __ATOMIC_RELAXED);
}

/* Probes that stay attached for a while do nothing without a target. */
void targets_clear(struct loader *l)
{
	uint32_t tgid;

	while (!bpf_map_get_next_key(targets_fd(l), NULL, &tgid))
		if (bpf_map_delete_elem(targets_fd(l), &tgid))
			return;
}

int loader_target_add(struct loader *l, uint32_t tgid, uint32_t uid)
{
	struct target t = { .generation = clock_monotonic_ns(), .uid = uid == UID_UNKNOWN ? 0 : uid };
	uint64_t *n = user_count(l, uid);

	if (loader_is_target(l, tgid)) /* the BPF programs added it at its fork, with a generation in use */
		return 0;
	if (n && __atomic_load_n(n, __ATOMIC_RELAXED) >= TARGETS_OF_USER)
		return -EDQUOT;
	if (bpf_map_update_elem(targets_fd(l), &tgid, &t, BPF_NOEXIST))
		return errno == EEXIST ? 0 : errno == E2BIG ? -ENOSPC : -errno;
	if (n)
		__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
	return 0;
}

bool loader_is_target(const struct loader *l, uint32_t tgid)
{
	struct target t;

	return !bpf_map_lookup_elem(targets_fd(l), &tgid, &t);
}

void loader_target_forget(struct loader *l, uint32_t tgid)
{
	target_remove(l, tgid);
	attached_forget(l, tgid);
}

/* Loses only the hits that are counted in between. */
void target_generation_begin(struct loader *l, uint32_t tgid)
{
	struct target t;

	if (bpf_map_lookup_elem(targets_fd(l), &tgid, &t))
		return;
	t.generation = clock_monotonic_ns();
	bpf_map_update_elem(targets_fd(l), &tgid, &t, BPF_EXIST);
}

void targets_generation_begin(struct loader *l)
{
	uint32_t tgid, *before = NULL;

	while (!bpf_map_get_next_key(targets_fd(l), before, &tgid)) {
		target_generation_begin(l, tgid);
		before = &tgid;
	}
}

/* Also drops what a slow probe noted after loader_lower(). */
void loader_raise(struct loader *l, uint32_t tgid)
{
	if (l->multi)
		target_generation_begin(l, tgid);
}

bool loader_hits(const struct loader *l, uint32_t tgid, struct hit_counts *ret)
{
	struct target t;

	if (bpf_map_lookup_elem(targets_fd(l), &tgid, &t))
		return false;
	for (int i = 0; i < PROBE_GROUPS; i++) {
		ret->hits[i] = t.hits[i];
		ret->paid[i] = t.paid[i];
		ret->own_runs[i] = t.own_runs[i];
		ret->own_ns[i] = t.own_ns[i];
	}
	return true;
}

bool tracer_generation(struct tracer_handle *h, uint32_t tgid, uint64_t *ret)
{
	struct target t;

	if (bpf_map_lookup_elem(targets_fd(h->loader), &tgid, &t))
		return false;
	*ret = t.generation;
	return true;
}
