/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_lane.c - slices of one lane must nest. A slice that would overlap another goes to the next lane of the
 * same name, which the viewer draws as one more row of the same track.
 */
#include "sink/perfetto/perfetto.h"

#include <stdlib.h>

struct lane *lane_add(struct perfetto_sink *p, struct track *t)
{
	struct lane *grown = t ? realloc(t->lanes, (size_t)(t->n_lanes + 1) * sizeof(*grown)) : NULL;

	if (!grown)
		return NULL;
	t->lanes = grown;
	grown += t->n_lanes++;
	*grown = (struct lane){ .uuid = p->next_uuid++ };
	if (t->key.kind != TRACK_KIND_PROCESS && t->key.kind != TRACK_KIND_THREAD)
		descriptor_write(p, grown->uuid, t->parent, t->name, t->key.kind == TRACK_KIND_COUNTER);
	return grown;
}

uint64_t track_uuid(struct perfetto_sink *p, struct track *t)
{
	struct lane *lane = t && t->n_lanes ? t->lanes : lane_add(p, t);

	return lane ? lane->uuid : 0;
}

/* Slices still open at `ns`, which is not before the newest begin. */
static int lane_depth(const struct lane *l, uint64_t ns)
{
	int depth = l->depth;

	while (depth && l->ends_ns[depth - 1] <= ns)
		depth--;
	return depth;
}

static bool lane_fits(const struct lane *l, bool nest, uint64_t begin_ns, uint64_t end_ns)
{
	int depth = lane_depth(l, begin_ns);

	if (begin_ns < l->last_begin_ns)
		return false; /* could lie anywhere between older slices, which are not kept */
	return !depth || (nest && depth < LANE_DEPTH && end_ns <= l->ends_ns[depth - 1]);
}

static struct lane *lane_choose(struct perfetto_sink *p, struct track *t, int lanes_max, uint64_t begin_ns,
				uint64_t end_ns)
{
	struct lane *lane;

	for (int nest = 0; nest < 2; nest++) {
		for (int i = 0; i < t->n_lanes; i++)
			if (lane_fits(&t->lanes[i], nest, begin_ns, end_ns))
				return &t->lanes[i];
		lane = t->n_lanes < lanes_max ? lane_add(p, t) : NULL;
		if (lane)
			return lane;
	}
	return NULL;
}

uint64_t track_lane(struct perfetto_sink *p, struct track *t, int lanes_max, uint64_t *begin_ns, uint64_t *end_ns,
		    bool *ret_cut)
{
	struct lane *l = t ? lane_choose(p, t, lanes_max, *begin_ns, *end_ns) : NULL;

	if (!t || !t->n_lanes)
		return 0;
	*ret_cut = !l;
	if (!l) {
		l = t->lanes;
		*begin_ns = *begin_ns > l->last_begin_ns ? *begin_ns : l->last_begin_ns;
		l->depth = lane_depth(l, *begin_ns);
		while (l->depth == LANE_DEPTH) /* full: begin where the innermost is over */
			*begin_ns = l->ends_ns[--l->depth];
		*end_ns = l->depth && *end_ns > l->ends_ns[l->depth - 1] ? l->ends_ns[l->depth - 1] : *end_ns;
		*end_ns = *end_ns > *begin_ns ? *end_ns : *begin_ns;
	}
	l->depth = lane_depth(l, *begin_ns);
	l->last_begin_ns = *begin_ns;
	l->ends_ns[l->depth++] = *end_ns;
	return l->uuid;
}
