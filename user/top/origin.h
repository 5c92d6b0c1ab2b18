/* SPDX-License-Identifier: Apache-2.0
 *
 * origin.h - where the rows of `top` come from, as far as the loop and the view need to know: parts, and more of them
 * as time goes on. A recording, a session of this node, the reports of a cluster.
 */
#ifndef RANKTRACE_TOP_ORIGIN_H
#define RANKTRACE_TOP_ORIGIN_H

#include "top/table.h"

struct top_origin {
	void *of;
	/* What has come since, for some time at most. 0 or -errno. */
	int (*take)(void *of);
	/* *ret: as many as it returns, until the next take. */
	size_t (*parts)(void *of, const struct top_part **ret);
	bool (*is_over)(void *of); /* nothing comes any more */
};

#endif
