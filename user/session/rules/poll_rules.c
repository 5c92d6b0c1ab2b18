/* SPDX-License-Identifier: Apache-2.0
 *
 * poll_rules.c - see poll_rules.h.
 */
#include "session/rules/poll_rules.h"

static void window_begin(struct poll_state *s, const struct poll_sample *x)
{
	s->since_ns = x->now_ns;
	s->n_ended = x->n_ended;
	s->n_polled = x->n_polled;
}

static bool is_open_long(const struct poll_sample *x)
{
	return x->open_since_ns && x->now_ns > x->open_since_ns + POLLS_OPEN_NS;
}

static void unwanted_turn(struct poll_state *s, const struct poll_sample *x)
{
	bool is_open = is_open_long(x);

	if (!is_open && x->now_ns < s->until_ns)
		return;
	*s = (struct poll_state){ .until_ns = is_open ? x->now_ns + POLLS_STAY_NS : 0 };
	window_begin(s, x);
}

static void wanted_turn(struct poll_state *s, const struct poll_sample *x)
{
	uint64_t ended = x->n_ended - s->n_ended;

	if (x->now_ns < s->since_ns + POLLS_WINDOW_NS || x->now_ns < s->until_ns)
		return; /* the window is longer then */
	s->unwanted = ended >= POLLS_ENDS_MIN && (x->n_polled - s->n_polled) * POLLS_WORTH <= ended && !is_open_long(x);
	if (s->unwanted)
		s->until_ns = x->now_ns + POLLS_AGAIN_NS;
	window_begin(s, x);
}

bool polls_wanted(struct poll_state *s, const struct poll_sample *x)
{
	if (!x->probed || !s->since_ns) {
		*s = (struct poll_state){ 0 };
		window_begin(s, x);
		return true;
	}
	if (s->unwanted)
		unwanted_turn(s, x);
	else
		wanted_turn(s, x);
	return !s->unwanted;
}
