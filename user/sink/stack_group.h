/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_group.h - which threads stand at the same place: equal stacks of all ranks as one, those of the fewest ranks
 * first, as the one that is elsewhere is the one to look at. Pure.
 */
#ifndef RANKTRACE_STACK_GROUP_H
#define RANKTRACE_STACK_GROUP_H

#include <stddef.h>
#include <stdint.h>

struct stack_item {
	const char *text; /* equal texts are equal stacks */
	int rank;         /* -1 unknown: its process counts as a rank */
	uint32_t tgid, tid;
};

struct stack_group {
	size_t first, n; /* its items: order[first] .. order[first + n - 1], by rank, process, thread */
	size_t n_ranks;
};

/* Both `order` and `groups` have room for n. Returns the number of groups. */
size_t stack_groups_make(const struct stack_item *items, size_t n, size_t *order, struct stack_group *groups);

#endif
