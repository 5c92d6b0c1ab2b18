/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_align.c - see clock_align.h. Of two hosts a and b with the collectives i in common, what is to be added to b's
 * clock for a's lies in [max(enter_a - leave_b), min(leave_a - enter_b)]; the middle is taken, half the width is the
 * error. Where clocks run apart so far that the two cross, half of that is. From host to host the closest pairs are
 * followed (a minimum spanning tree), and errors add up.
 */
#include "autopsy/clock_align.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"

int clock_span_add(struct clock_spans *s, const struct clock_span *span)
{
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 256;
		struct clock_span *grown = realloc(s->all, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->all = grown;
		s->room = room;
	}
	s->all[s->n++] = *span;
	return 0;
}

void clock_spans_free(struct clock_spans *s)
{
	free(s->all);
	*s = (struct clock_spans){ 0 };
}

static int span_compare(const void *x, const void *y)
{
	const struct clock_span *a = x, *b = y;

	if (a->comm != b->comm)
		return a->comm < b->comm ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Those of several ranks of the host become one. */
static void spans_settle(struct clock_spans *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), span_compare);
	for (size_t i = 0; i < s->n; i++) {
		struct clock_span *at = &s->all[i], *last = n ? &s->all[n - 1] : NULL;

		if (!last || span_compare(last, at)) {
			s->all[n++] = *at;
			continue;
		}
		last->enter_ns = larger(last->enter_ns, at->enter_ns);
		last->leave_ns = last->leave_ns < at->leave_ns ? last->leave_ns : at->leave_ns;
	}
	s->n = n;
}

/* Of b against a. */
static struct clock_offset pair_align(const struct clock_spans *a, const struct clock_spans *b)
{
	int64_t least = INT64_MIN, most = INT64_MAX, low, high, width;
	struct clock_offset ret = { .error_ns = CLOCK_ERROR_UNKNOWN };

	for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
		int order = span_compare(&a->all[i], &b->all[k]);

		if (!order) {
			low = (int64_t)(a->all[i].enter_ns - b->all[k].leave_ns);
			high = (int64_t)(a->all[i].leave_ns - b->all[k].enter_ns);
			least = low > least ? low : least;
			most = high < most ? high : most;
			ret.n_spans++;
		}
		i += order <= 0;
		k += order >= 0;
	}
	if (!ret.n_spans)
		return ret;
	width = most - least;
	ret.offset_ns = least + width / 2;
	ret.error_ns = (uint64_t)(width < 0 ? -width : width) / 2;
	return ret;
}

/* The host that is not in the tree yet and nearest to it; n: no other one is known to it. */
static size_t nearest(const struct clock_offset *best, const bool *done, size_t n)
{
	size_t at = n;

	for (size_t i = 0; i < n; i++)
		if (!done[i] && best[i].n_spans && (at == n || best[i].error_ns < best[at].error_ns))
			at = i;
	return at;
}

/* `ret` has the best that is known until a host is done: over one that is, with the errors of both. */
static void tree_grow(const struct clock_spans *hosts, size_t n, struct clock_offset *ret, bool *done)
{
	for (size_t from = 0; from < n; from = nearest(ret, done, n)) {
		done[from] = true;
		for (size_t i = 0; i < n; i++) {
			struct clock_offset step;

			if (done[i])
				continue;
			step = pair_align(&hosts[from], &hosts[i]);
			if (!step.n_spans || step.error_ns + ret[from].error_ns >= ret[i].error_ns)
				continue;
			step.offset_ns += ret[from].offset_ns;
			step.error_ns += ret[from].error_ns;
			ret[i] = step;
		}
	}
}

int clocks_align(struct clock_spans *hosts, size_t n, struct clock_offset *ret)
{
	bool *done = calloc(n + 1, sizeof(*done));

	if (!done)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		spans_settle(&hosts[i]);
		ret[i] = (struct clock_offset){ .error_ns = i ? CLOCK_ERROR_UNKNOWN : 0 };
	}
	if (n)
		tree_grow(hosts, n, ret, done);
	free(done);
	return 0;
}
