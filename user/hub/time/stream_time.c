/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_time.c - see stream_time.h. Read stream_time_take() first. A message can be late in many ways (at its agent,
 * on the network, in this process's hands), and never early: one that is ahead shows a step at once, one that is behind
 * only where none comes any more that is not, or where it is stored before the one that is before it in the stream.
 */
#include "hub/time/stream_time.h"

#define BEHIND_NS \
	3000000000ull            /* no message of the present for so long: it is the clock, not a burst that came late \
				  */
#define IN_HAND_NS 1000000000ull /* what came within that time after there was none did not wait longer here */
#define DRIFT_EVERY_NS 60000000000ull
#define DRIFT_MAX_NS 60000000ll /* in each of these; clocks differ by a thousandth at the very most */

static int64_t apart(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

static void own_clock_pass(struct stream_time *t, uint64_t mono_ns)
{
	uint64_t passed_ns = mono_ns - t->mono_ns;

	t->mono_ns = mono_ns;
	t->own_ns += passed_ns;
}

/* It goes on, by 1 ns at the least: two messages never have the same time. */
static void now_set(struct stream_time *t, uint64_t ns)
{
	t->now_ns = apart(ns, t->now_ns) > 0 ? ns : t->now_ns + 1;
}

/* --- steps --- */

/* More than this process's clock passed between two messages, and it is ahead of that clock. Where messages that waited
 * here are gone through, each one is ahead by little, as time did pass. */
static int64_t step_ahead(const struct stream_time *t, uint64_t at_ns)
{
	int64_t jump_ns = apart(at_ns, t->stored_ns) - apart(t->mono_ns, t->stored_mono_ns);
	int64_t ahead_ns = apart(at_ns, t->own_ns);

	return t->runs && jump_ns > STREAM_STEP_NS && ahead_ns > STREAM_STEP_NS ? ahead_ns : 0;
}

/* A stream is stored in order: also in a past that is gone through this is a step. What passed between the two is known
 * where this one did not wait. */
static int64_t step_back(const struct stream_time *t, uint64_t at_ns, bool present)
{
	if (apart(at_ns, t->stored_ns) >= -STREAM_STEP_NS)
		return 0;
	return apart(at_ns, t->runs && present ? t->own_ns : t->stored_ns);
}

/* No message came while the clock was stepped: the next one may be stored behind the last one all the same. The step is
 * behind_ns then. */
static bool step_unseen(struct stream_time *t, uint64_t at_ns, bool present)
{
	int64_t off_ns = apart(at_ns, t->own_ns);

	if (!t->runs || off_ns >= -STREAM_STEP_NS) {
		t->behind_mono_ns = 0;
		return false;
	}
	if (!present)
		return false;
	if (!t->behind_mono_ns) {
		t->behind_mono_ns = t->mono_ns;
		t->behind_ns = off_ns;
	}
	t->behind_ns = off_ns > t->behind_ns ? off_ns : t->behind_ns;
	return t->mono_ns - t->behind_mono_ns > BEHIND_NS;
}

static int64_t step_of(struct stream_time *t, uint64_t at_ns, bool present)
{
	int64_t step_ns;

	if (!t->stored_ns)
		return 0;
	step_ns = step_ahead(t, at_ns);
	step_ns = step_ns ? step_ns : step_back(t, at_ns, present);
	t->misplaced = !step_ns && step_unseen(t, at_ns, present);
	step_ns = t->misplaced ? t->behind_ns : step_ns;
	if (step_ns)
		t->behind_mono_ns = t->drift_mono_ns = 0;
	return step_ns;
}

/* --- drift --- */

/* The least late message of a minute is of the present: where even that one is behind, this process's clock is fast. */
static void drift_note(struct stream_time *t, uint64_t at_ns)
{
	int64_t off_ns = apart(at_ns, t->own_ns);

	if (t->drift_mono_ns && t->mono_ns - t->drift_mono_ns > DRIFT_EVERY_NS) {
		if (t->drift_ns < 0)
			t->own_ns -= t->drift_ns > -DRIFT_MAX_NS ? (uint64_t)-t->drift_ns : (uint64_t)DRIFT_MAX_NS;
		t->drift_mono_ns = 0;
		off_ns = apart(at_ns, t->own_ns);
	}
	if (!t->drift_mono_ns) {
		t->drift_mono_ns = t->mono_ns;
		t->drift_ns = off_ns;
	}
	t->drift_ns = off_ns > t->drift_ns ? off_ns : t->drift_ns;
}

/* --- */

static void own_clock_set(struct stream_time *t, uint64_t at_ns, bool present)
{
	if (t->runs ? apart(at_ns, t->own_ns) > 0 : present)
		t->own_ns = at_ns;
	t->runs |= present;
	if (present)
		drift_note(t, at_ns);
}

int64_t stream_time_take(struct stream_time *t, uint64_t stored_ns, bool newest, uint64_t mono_ns)
{
	/* the last one that was kept may be the only one, and old: nothing says when it was stored */
	bool present = t->caught_up && newest && t->empty && mono_ns - t->mono_ns < IN_HAND_NS;
	uint64_t at_ns = stored_ns + (uint64_t)t->moved_ns;
	int64_t step_ns;

	own_clock_pass(t, mono_ns);
	step_ns = step_of(t, at_ns, present);
	t->moved_ns -= step_ns;
	at_ns -= (uint64_t)step_ns;
	own_clock_set(t, at_ns, present);
	t->caught_up |= newest;
	t->stored_ns = at_ns;
	t->stored_mono_ns = mono_ns;
	now_set(t, present ? t->own_ns : at_ns);
	return step_ns;
}

void stream_time_pass(struct stream_time *t, uint64_t mono_ns)
{
	uint64_t passed_ns = mono_ns - t->mono_ns;

	own_clock_pass(t, mono_ns);
	t->empty = true;
	if (!t->now_ns)
		return;
	if (!t->runs)
		t->now_ns += passed_ns;
	else if (apart(t->own_ns, t->now_ns) > 0)
		t->now_ns = t->own_ns;
}
