/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_maps.c - which maps a session leaves empty, and the least that they take.
 */
#include <string.h>

#include "attach/loader_internal.h"

/* An empty map is memory all the same: a hash map has all its entries from the begin. */
void maps_shrink(struct bpf_object *o, const char *name)
{
	struct bpf_map *m;

	bpf_object__for_each_map(m, o)
	{
		bool hash = bpf_map__type(m) == BPF_MAP_TYPE_HASH || bpf_map__type(m) == BPF_MAP_TYPE_LRU_HASH;

		if (hash && (!name || !strcmp(bpf_map__name(m), name)))
			bpf_map__set_max_entries(m, 1);
	}
}

/* Tier watch attaches none of the kernel's hooks that are about targets: what these fill stays empty. */
bool maps_stay_empty(const struct loader *l, const struct tracer *t)
{
	return l->cfg.tier == TIER_WATCH && !t->of_machine && !t->probes;
}
