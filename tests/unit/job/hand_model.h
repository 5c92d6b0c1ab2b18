/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_model.h - one fresh model that a test gives events by hand, each at `now`. For cmocka: fresh() and done() around
 * each test. Of one program.
 */
#ifndef RANKTRACE_HAND_MODEL_H
#define RANKTRACE_HAND_MODEL_H

#include "tests/unit/job/job_script.h"

static struct model *m;
static uint64_t now;

static inline int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	return 0;
}

static inline int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static inline void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

static inline void tick(void)
{
	give((struct event){ .kind = EV_TICK });
	while (model_next_ended(m))
		;
}

static inline void exits(uint32_t node, uint32_t tgid)
{
	struct event e = { .kind = EV_EXIT, .node = node, .tgid = tgid, .tid = tgid };

	e.exit.last = true;
	give(e);
}

#endif
