/* SPDX-License-Identifier: Apache-2.0
 *
 * pace_series.c - see pace_series.h. A second holds many steps of one job and not one of another: windows of several
 * widths are tried, and the newest compared only where those of the past are alike. A window in which nothing was
 * entered is a pause (checkpoint, compilation, hang) and says nothing of the pace.
 */
#include "detect/straggler/pace_series.h"

#include "base/sorted.h"

#define EVERY_NS 900000000ull
#define GAP_NS 3000000000ull /* no sample: what it entered meanwhile has no pace */
#define WIDTH_MAX 16
#define BASE_MAX 60 /* windows of the past */
#define BASE_MIN 15
#define RECENT_MIN 3 /* windows of a drop */
#define PAUSES_MAX 3 /* of the past at most one in so many may be a pause */
#define EVEN 0.85    /* its lowest tenth lies above that share of its median */
#define SLOWER 0.8   /* all recent windows below that share of it: steps that take 25 % longer, or more */
#define OVER 0.9     /* back again */
#define OVER_POINTS 3
#define HABIT 2 /* a drop as a job makes them by itself (evaluation) has to last so many times as long */
#define HABIT_NS 600000000000ull    /* longer ones are none */
#define LASTING_NS 1800000000000ull /* by then it is how the job is */

void pace_restart(struct pace_series *s)
{
	s->n_points = s->width = 0;
	s->since_ns = 0;
}

/* Operations a second in the `width` intervals that end `back` points before the newest. */
static double rate(const struct pace_series *s, size_t back, size_t width)
{
	uint64_t to = s->n_points - 1 - back, from = to - width;
	uint64_t n = s->points[to % PACE_POINTS].n - s->points[from % PACE_POINTS].n;

	return n * 1e9 / (s->points[to % PACE_POINTS].ns - s->points[from % PACE_POINTS].ns);
}

static size_t n_intervals(const struct pace_series *s)
{
	return s->n_points < PACE_POINTS ? s->n_points - !!s->n_points : PACE_POINTS - 1;
}

static size_t n_recent(size_t width)
{
	size_t n = PACE_DROP_NS / 1000000000 / width;

	return n > RECENT_MIN ? n : RECENT_MIN;
}

/* The past is known, and even: its median. */
static bool base_of(const struct pace_series *s, size_t width, double *ret_median)
{
	size_t back = n_recent(width) * width, have = n_intervals(s), n = have > back ? (have - back) / width : 0,
	       pauses = 0;
	double all[BASE_MAX], *at = all;

	n = n < BASE_MAX ? n : BASE_MAX;
	if (n < BASE_MIN)
		return false;
	for (size_t i = 0; i < n; i++)
		all[i] = rate(s, back + i * width, width);
	doubles_sort(all, n);
	while (pauses < n && all[pauses] <= 0)
		pauses++;
	if (pauses > n / PAUSES_MAX)
		return false;
	at += pauses;
	n -= pauses;
	*ret_median = at[n / 2];
	return at[n / 10] >= EVEN * *ret_median;
}

static bool recent_below(const struct pace_series *s, size_t width, double limit)
{
	for (size_t i = 0; i < n_recent(width); i++) {
		double r = rate(s, i * width, width);

		if (r <= 0 || r >= limit)
			return false;
	}
	return true;
}

static bool is_below(const struct pace_series *s, size_t width, double *ret_median)
{
	return base_of(s, width, ret_median) && recent_below(s, width, SLOWER * *ret_median);
}

static void drop_find(struct pace_series *s)
{
	size_t width = 1, first;
	double median;

	while (width <= WIDTH_MAX && !is_below(s, width, &median))
		width *= 2;
	if (width > WIDTH_MAX)
		return;
	first = s->n_points - 1 - n_recent(width) * width;
	s->width = width;
	s->since_ns = s->points[first % PACE_POINTS].ns;
	s->usual = median;
	s->slow = rate(s, 0, n_recent(width) * width);
	s->n_over = 0;
	s->explained = false;
}

/* Pauses inside of it change nothing. */
static void drop_follow(struct pace_series *s, uint64_t now_ns)
{
	double r = rate(s, 0, s->width);

	if (r <= 0)
		return;
	s->n_over = r >= OVER * s->usual ? s->n_over + 1 : 0;
	if (!s->n_over)
		s->slow += 0.1 * (r - s->slow);
	if (s->n_over >= OVER_POINTS) {
		uint64_t lasted_ns = now_ns - s->since_ns;

		if (!s->explained && lasted_ns < HABIT_NS && lasted_ns > s->longest_ns)
			s->longest_ns = lasted_ns;
		pace_restart(s);
	} else if (now_ns - s->since_ns > LASTING_NS) {
		pace_restart(s);
	}
}

void pace_add(struct pace_series *s, uint64_t ns, uint64_t n, bool judge)
{
	uint64_t last = (s->n_points - 1) % PACE_POINTS;

	if (s->n_points && ns < s->points[last].ns + EVERY_NS)
		return;
	if (s->n_points && (n < s->points[last].n || ns > s->points[last].ns + GAP_NS))
		pace_restart(s);
	s->points[s->n_points % PACE_POINTS].ns = ns;
	s->points[s->n_points % PACE_POINTS].n = n;
	s->n_points++;
	if (s->width)
		drop_follow(s, ns);
	else if (judge)
		drop_find(s);
}

bool pace_dropped(const struct pace_series *s, uint64_t now_ns)
{
	return s->width && now_ns - s->since_ns >= HABIT * s->longest_ns;
}
