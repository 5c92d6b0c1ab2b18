/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.h - the pages of `top` that are text: a rank with its stacks, a finding, the GPUs, messages, help. Pure.
 */
#ifndef RANKTRACE_TOP_PAGES_H
#define RANKTRACE_TOP_PAGES_H

#include "top/view.h"

/* Whole lines of the page that `v` is on. */
void top_page_text(struct text *to, const struct top_view *v, const struct top_table *t, const struct top_source *s);
/* "2.7 s", "35 ms"; "-" for 0 */
void top_duration(char *to, size_t size, double s);
/* Of a GPU what it does: "in_nccl"; "" not known. */
const char *top_gpu_role(enum gpu_role role);

#endif
