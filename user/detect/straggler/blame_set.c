/* SPDX-License-Identifier: Apache-2.0
 *
 * blame_set.c - see blame_set.h. Open addressing: at most half of the slots are taken.
 */
#include "detect/straggler/blame_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define CAP_FIRST 16

/* The slot that has this process, else the free one where it would be. */
static int *slot_of(const struct blame_set *s, const struct proc *p)
{
	int mask = 2 * s->cap - 1, at = hash_mix(7, p->key) & mask;

	while (s->slots[at] && s->parts[s->slots[at] - 1].proc != p)
		at = (at + 1) & mask;
	return &s->slots[at];
}

static int grow(struct blame_set *s)
{
	int cap = s->cap ? 2 * s->cap : CAP_FIRST;
	struct blame_part *parts = realloc(s->parts, cap * sizeof(*parts));
	int *slots = parts ? calloc(2 * cap, sizeof(*slots)) : NULL;

	if (parts)
		s->parts = parts;
	if (!slots)
		return -ENOMEM;
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	for (int i = 0; i < s->n; i++)
		*slot_of(s, s->parts[i].proc) = i + 1;
	return 0;
}

void blame_set_begin(struct blame_set *s, int most, const struct op *from)
{
	if (s->slots)
		memset(s->slots, 0, 2 * s->cap * sizeof(*s->slots));
	s->n = 0;
	s->most = most;
	s->open = false;
	s->err = 0;
	blame_set_add(s, from);
}

void blame_set_add(struct blame_set *s, const struct op *from)
{
	const struct proc *p = from->member->proc;
	int *slot = !s->open && s->cap ? slot_of(s, p) : NULL;
	struct blame_part *part = slot && *slot ? &s->parts[*slot - 1] : NULL;

	if (s->open || (part && part->from->nth >= from->nth))
		return;
	if (!part && s->n == s->most) {
		s->open = true;
		return;
	}
	if (!part && s->n == s->cap) {
		s->err = grow(s);
		s->open = s->err;
		slot = s->open ? NULL : slot_of(s, p);
	}
	if (s->open)
		return;
	if (!part) {
		part = &s->parts[s->n++];
		*slot = s->n; /* lint: without a slot there is no room, and the set is open */
	}
	*part = (struct blame_part){ .proc = p, .from = from }; /* lint: s has a place for it */
}

bool blame_set_has(const struct blame_set *s, const struct proc *p)
{
	return s->cap && *slot_of(s, p);
}

void blame_set_free(struct blame_set *s)
{
	free(s->parts);
	free(s->slots);
	*s = (struct blame_set){ 0 };
}
