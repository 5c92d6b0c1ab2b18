/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_pair.h - proxy_job.h with a transfer between two ranks that is stalled. Of one test program.
 */
#ifndef RANKTRACE_STALLED_PAIR_H
#define RANKTRACE_STALLED_PAIR_H

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/proxy_job.h"

static const struct finding *only(void)
{
	assert_int_equal(list.n, 1);
	return &list.items[0];
}

static double number_of(const struct finding *f, const char *name)
{
	assert_non_null(evidence_named(f, name));
	return number_named(f, name, 0);
}

static const char *text_of(const struct finding *f, const char *name)
{
	return text_named(f, name, "");
}

/* Channel 1 from `r` to the next: sent, and not come. */
static void eat(int r)
{
	ranks[r].send[1] = sending(32, 32, 32);
	ranks[(r + 1) % RANKS].recv[1] = receiving(32, 24, 24, 24);
}

static void check_pair(const struct finding *f, const char *side, int sender, int receiver, int channel)
{
	assert_int_equal(f->kind, FINDING_HANG);
	assert_string_equal(text_of(f, "side"), side);
	assert_int_equal(number_of(f, "sender"), sender);
	assert_int_equal(number_of(f, "receiver"), receiver);
	if (channel >= 0)
		assert_int_equal(number_of(f, "channel"), channel);
}

#endif
