/* SPDX-License-Identifier: Apache-2.0
 *
 * bisect.c - see bisect.h. What is not known yet is a list of sets; a round makes tests of them, and the results make
 * the sets of the next.
 */
#include "tools/stress/bisect/bisect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 4         /* up to here one half is tested, and the rests share a test */
#define SINGLES_MAX 10  /* a shared test that failed: each by itself, to save rounds */
#define RETRIES_MAX 2   /* of a set that failed and whose parts then passed */
#define ROUNDS_MAX 1000 /* a bug must not loop on a cluster's time */

enum set_kind {
	SET_UNKNOWN, /* a first group, or one to be tried again as a whole */
	SET_SUSPECT, /* one of it is bad */
	SET_REST,    /* the other half failed */
	SET_SINGLES, /* one of it is bad: each by itself */
};

struct set {
	struct set *next, *born_before; /* of what is open now; of all, which are freed at the end */
	enum set_kind kind;
	int n, retries;
	bool halved; /* both halves are in tests of this round */
	int members[];
};

enum part { PART_WHOLE, PART_FIRST, PART_SECOND, PART_ONE, PART_SHARED, PART_SINGLE };

struct plan {
	enum part part;
	struct set *of; /* PART_SHARED: the first of a chain of rests */
	bool failed;
};

struct bisect {
	int n, group_size, rounds, n_tests, n_all;
	enum bisect_verdict *verdicts;
	bool *known_good;
	struct set *sets, *born;
	struct plan *plans;
	struct bisect_test *tests;
};

static struct set *set_new(struct bisect *b, enum set_kind kind, const int *members, int n, int retries)
{
	struct set *s = malloc(sizeof(*s) + n * sizeof(int));

	if (!s)
		abort();
	*s = (struct set){ .next = b->sets, .born_before = b->born, .kind = kind, .n = n, .retries = retries };
	memcpy(s->members, members, n * sizeof(int));
	b->sets = b->born = s;
	return s;
}

struct bisect *bisect_new(int n)
{
	struct bisect *b = calloc(1, sizeof(*b));
	int groups = ceil(sqrt(n)), at = 0, *all = malloc(n * sizeof(int));

	if (!b || !all)
		abort();
	groups = groups > n / 2 ? n / 2 : groups;
	*b = (struct bisect){ .n = n, .group_size = (n + groups - 1) / groups };
	b->verdicts = calloc(n, sizeof(*b->verdicts));
	b->known_good = calloc(n, sizeof(*b->known_good));
	b->plans = calloc(n, sizeof(*b->plans));
	b->tests = calloc(n, sizeof(*b->tests));
	if (!b->verdicts || !b->known_good || !b->plans || !b->tests)
		abort();
	for (int i = 0; i < n; i++) {
		all[i] = i;
		b->verdicts[i] = BISECT_OPEN;
	}
	for (int i = 0; i < groups; i++) {
		int size = n / groups + (i < n % groups);

		set_new(b, SET_UNKNOWN, all + at, size, 0);
		at += size;
	}
	free(all);
	return b;
}

/* --- a round --- */

static struct bisect_test *test_add(struct bisect *b, enum part part, struct set *of, const int *members, int n)
{
	struct bisect_test *t = &b->tests[b->n_tests];

	b->plans[b->n_tests++] = (struct plan){ .part = part, .of = of };
	*t = (struct bisect_test){ .n = n, .n_suspects = n, .members = malloc(b->n * sizeof(int)) };
	if (!t->members)
		abort();
	memcpy(t->members, members, n * sizeof(int));
	return t;
}

static int first_half(const struct set *s)
{
	return (s->n + 1) / 2;
}

/* Rests come into the last test that has room for them. */
static void rest_add(struct bisect *b, struct set *s)
{
	struct bisect_test *t;

	for (int i = 0; i < b->n_tests; i++) {
		t = &b->tests[i];
		if (b->plans[i].part != PART_SHARED || t->n + s->n > b->group_size)
			continue;
		memcpy(t->members + t->n, s->members, s->n * sizeof(int));
		t->n_suspects = t->n += s->n;
		s->next = b->plans[i].of;
		b->plans[i].of = s;
		return;
	}
	s->next = NULL;
	test_add(b, PART_SHARED, s, s->members, s->n);
}

static void set_plan(struct bisect *b, struct set *s)
{
	int half = first_half(s);

	s->halved = s->kind == SET_SUSPECT && s->n > SMALL;
	if (s->kind == SET_REST) {
		rest_add(b, s);
	} else if (s->kind == SET_UNKNOWN) {
		test_add(b, PART_WHOLE, s, s->members, s->n);
	} else if (s->kind == SET_SINGLES || s->n == 1) {
		for (int i = 0; i < s->n; i++)
			test_add(b, PART_SINGLE, s, s->members + i, 1);
	} else if (s->halved) {
		test_add(b, PART_FIRST, s, s->members, half);
		test_add(b, PART_SECOND, s, s->members + half, s->n - half);
	} else {
		test_add(b, PART_ONE, s, s->members, half);
	}
}

static int good_count(const struct bisect *b)
{
	int good = 0;

	for (int i = 0; i < b->n; i++)
		good += b->known_good[i];
	return good;
}

/* How many of the set's tests would have one member, and so need a good partner. */
static int partners_of(const struct set *s)
{
	if (s->kind == SET_SINGLES || s->n == 1)
		return s->n;
	return s->kind == SET_SUSPECT && s->n == 2;
}

/* Sets for whose tests there are no partners wait; singles that no round has partners for are halved instead. */
static void sets_plan(struct bisect *b)
{
	struct set *s = b->sets, *next;
	int partners = good_count(b);

	b->sets = NULL;
	for (; s; s = next) {
		next = s->next;
		if (s->kind == SET_SINGLES && s->n > good_count(b))
			s->kind = SET_SUSPECT;
		if (partners_of(s) > partners) {
			s->next = b->sets;
			b->sets = s;
			continue;
		}
		partners -= partners_of(s);
		set_plan(b, s);
	}
}

/* The size that all tests can be filled up to with what is known to be good. */
static int common_size(const struct bisect *b, int good)
{
	int size = b->group_size, needed;

	for (; size > 2; size--) {
		needed = 0;
		for (int i = 0; i < b->n_tests; i++)
			needed += b->tests[i].n < size ? size - b->tests[i].n : 0;
		if (needed <= good)
			break;
	}
	return size;
}

/* A member is in one test of a round, so each known good one fills up one. */
static void tests_fill(struct bisect *b)
{
	int at = 0, size = common_size(b, good_count(b));

	for (int i = 0; i < b->n_tests; i++) {
		struct bisect_test *t = &b->tests[i];

		for (; t->n < size && at < b->n; at++)
			if (b->known_good[at])
				t->members[t->n++] = at;
	}
}

static void tests_clear(struct bisect *b)
{
	for (int i = 0; i < b->n_tests; i++)
		free(b->tests[i].members);
	b->n_tests = 0;
}

/* --- results --- */

static void good_mark(struct bisect *b, const int *members, int n)
{
	for (int i = 0; i < n; i++) {
		b->verdicts[members[i]] = BISECT_GOOD;
		b->known_good[members[i]] = true;
	}
}

/* Failed, but no part of it did: once more as a whole, and good if it passes then. */
static void retry(struct bisect *b, const struct set *s)
{
	if (s->retries < RETRIES_MAX)
		set_new(b, SET_UNKNOWN, s->members, s->n, s->retries + 1);
}

/* These failed: one by itself among good ones is named. */
static void failed_part(struct bisect *b, const struct bisect_test *t, const int *members, int n, int retries)
{
	if (n == 1 && t->n > t->n_suspects)
		b->verdicts[members[0]] = BISECT_BAD;
	else
		set_new(b, SET_SUSPECT, members, n, retries);
}

static void halves_take(struct bisect *b, const struct plan *p, const struct bisect_test *t)
{
	struct set *s = p[0].of;
	int half = first_half(s);

	if (!p[0].failed && !p[1].failed) {
		retry(b, s);
		return;
	}
	for (int i = 0; i < 2; i++) {
		const int *members = s->members + (i ? half : 0);
		int n = i ? s->n - half : half;

		if (p[i].failed)
			failed_part(b, t + i, members, n, s->retries);
		else
			good_mark(b, members, n);
	}
}

static void one_take(struct bisect *b, const struct plan *p, const struct bisect_test *t)
{
	struct set *s = p->of;
	int half = first_half(s);

	if (p->failed) {
		failed_part(b, t, s->members, half, s->retries);
		set_new(b, SET_REST, s->members + half, s->n - half, s->retries);
	} else {
		good_mark(b, s->members, half);
		set_new(b, SET_SUSPECT, s->members + half, s->n - half, s->retries);
	}
}

/* The sets of a shared test are one from now on. */
static void shared_take(struct bisect *b, const struct plan *p, const struct bisect_test *t)
{
	enum set_kind kind = t->n_suspects <= SINGLES_MAX ? SET_SINGLES : SET_SUSPECT;

	if (!p->failed)
		good_mark(b, t->members, t->n_suspects);
	else if (t->n_suspects == 1)
		failed_part(b, t, t->members, 1, 0);
	else
		set_new(b, kind, t->members, t->n_suspects, 0);
}

/* All tests of a set of singles, which stand one after the other; how many. */
static int singles_take(struct bisect *b, int at)
{
	struct set *s = b->plans[at].of;
	int n = 0, n_failed = 0;

	for (; n < s->n; n++)
		n_failed += b->plans[at + n].failed;
	for (int i = 0; i < s->n && n_failed; i++) {
		if (b->plans[at + i].failed)
			b->verdicts[s->members[i]] = BISECT_BAD;
		else
			good_mark(b, &s->members[i], 1);
	}
	if (!n_failed)
		retry(b, s);
	return n;
}

static void whole_take(struct bisect *b, const struct plan *p, const struct bisect_test *t)
{
	if (p->failed)
		failed_part(b, t, p->of->members, p->of->n, p->of->retries);
	else
		good_mark(b, p->of->members, p->of->n);
}

static void results_take(struct bisect *b)
{
	for (int i = 0; i < b->n_tests;) {
		const struct plan *p = &b->plans[i];
		int n = 1;

		switch (p->part) {
		case PART_WHOLE: whole_take(b, p, &b->tests[i]); break;
		case PART_FIRST:
			halves_take(b, p, &b->tests[i]);
			n = 2;
			break;
		case PART_SECOND: break;
		case PART_ONE: one_take(b, p, &b->tests[i]); break;
		case PART_SHARED: shared_take(b, p, &b->tests[i]); break;
		case PART_SINGLE: n = singles_take(b, i); break;
		}
		i += n;
	}
}

int bisect_round(struct bisect *b, const struct bisect_test **tests)
{
	results_take(b);
	tests_clear(b);
	if (b->rounds < ROUNDS_MAX)
		sets_plan(b);
	tests_fill(b);
	*tests = b->tests;
	b->n_all += b->n_tests;
	b->rounds += b->n_tests > 0;
	return b->n_tests;
}

void bisect_result(struct bisect *b, int test, bool failed)
{
	b->plans[test].failed = failed;
}

void bisect_doubt(struct bisect *b, const int *members, int n)
{
	for (int i = 0; i < n; i++) {
		b->verdicts[members[i]] = BISECT_OPEN;
		b->known_good[members[i]] = false;
	}
	set_new(b, n > 1 ? SET_SUSPECT : SET_SINGLES, members, n, 0);
}

void bisect_recall(struct bisect *b, int member)
{
	bisect_doubt(b, &member, 1);
}

enum bisect_verdict bisect_member(const struct bisect *b, int member)
{
	return b->verdicts[member];
}

int bisect_rounds(const struct bisect *b)
{
	return b->rounds;
}

int bisect_tests(const struct bisect *b)
{
	return b->n_all;
}

void bisect_free(struct bisect *b)
{
	struct set *s, *before;

	for (s = b->born; s; s = before) {
		before = s->born_before;
		free(s);
	}
	tests_clear(b);
	free(b->verdicts);
	free(b->known_good);
	free(b->plans);
	free(b->tests);
	free(b);
}
