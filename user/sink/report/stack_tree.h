/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_tree.h - stacks of all ranks merged into one tree, outermost frame first: where ranks part is where one of them
 * does something else.
 */
#ifndef RANKTRACE_REPORT_STACK_TREE_H
#define RANKTRACE_REPORT_STACK_TREE_H

#include "model/model.h"

struct cJSON;

/* {"n": threads, "of": "ranks 0-7", "frames": [...], "children": [...], "unread": n}; NULL: no stack was read. */
struct cJSON *stack_tree(const struct model *m);

#endif
