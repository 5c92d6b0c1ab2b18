/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_targets.c - the BPF programs' map of target processes, as user space writes and reads it.
 */
#include <bpf/bpf.h>
#include <errno.h>

#include "base/clock.h"
#include "bpf/target.h"
#include "attach/loader_internal.h"

_Static_assert(PROBE_GROUPS <= TARGET_GROUPS, "a counter for each");

static int targets_fd(const struct loader *l)
{
	return loader_map_fd(l, "targets");
}

/* Probes that stay attached for a while do nothing without a target. */
void targets_clear(struct loader *l)
{
	uint32_t tgid;

	while (!bpf_map_get_next_key(targets_fd(l), NULL, &tgid))
		if (bpf_map_delete_elem(targets_fd(l), &tgid))
			return;
}

int loader_target_add(struct loader *l, uint32_t tgid)
{
	struct target t = { .generation = clock_monotonic_ns() };

	/* NOEXIST: the BPF programs may have added it at its fork, with a generation in use */
	if (bpf_map_update_elem(targets_fd(l), &tgid, &t, BPF_NOEXIST))
		return errno == EEXIST ? 0 : -errno;
	return 0;
}

bool loader_is_target(const struct loader *l, uint32_t tgid)
{
	struct target t;

	return !bpf_map_lookup_elem(targets_fd(l), &tgid, &t);
}

void loader_target_forget(struct loader *l, uint32_t tgid)
{
	bpf_map_delete_elem(targets_fd(l), &tgid);
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

/* Also drops what a slow probe noted after loader_lower(). */
void loader_raise(struct loader *l, uint32_t tgid)
{
	if (l->multi)
		target_generation_begin(l, tgid);
}

bool loader_hits(const struct loader *l, uint32_t tgid, uint32_t *hits, uint32_t *paid)
{
	struct target t;

	if (bpf_map_lookup_elem(targets_fd(l), &tgid, &t))
		return false;
	for (int i = 0; i < PROBE_GROUPS; i++) {
		hits[i] = t.hits[i];
		paid[i] = t.paid[i];
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
