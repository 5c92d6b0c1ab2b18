/* SPDX-License-Identifier: Apache-2.0
 *
 * test_compare.c - two sets of measures against each other: what is slower is named, what varies is not, and what only
 * one has is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "compare/compare.h"

static uint64_t drawn_state;

/* 0 to 1, the same in every run. */
static double drawn(void)
{
	drawn_state = drawn_state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(drawn_state >> 11) / 9007199254740992.0;
}

/* `n` values around `s`, up to `spread` more or less. */
static struct measure *add(struct measures *m, enum measure_kind kind, int rank, const char *what, const char *where,
			   double s, double spread, int n)
{
	struct measure *one = measures_add(m, kind, rank, what, where);

	assert_non_null(one);
	one->per_step = 1;
	for (int i = 0; i < n; i++)
		assert_int_equal(durations_put(&one->s, s + spread * (2 * drawn() - 1)), 0);
	return one;
}

/* Steps of 100 ms with a backward of 40 ms, and two communicators. */
static void job(struct measures *m, int n_ranks, uint64_t seed)
{
	drawn_state = seed;
	*m = (struct measures){ 0 };
	for (int r = 0; r < n_ranks; r++)
		add(m, MEASURE_STEP, r, "step", "", 0.100, 0.010, 100);
	for (int r = 0; r < n_ranks; r++)
		add(m, MEASURE_PHASE, r, "backward", "", 0.040, 0.008, 100);
	add(m, MEASURE_OPERATION, -1, "AllReduce 16 MiB", "ranks 0-1", 0.005, 0.001, 400)->per_step = 4;
	add(m, MEASURE_OPERATION, -1, "AllReduce 16 MiB", "ranks 2-3", 0.005, 0.001, 400)->per_step = 4;
}

static struct measure *find(struct measures *m, const char *what, int rank, const char *where)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->v[i].what, what) && m->v[i].rank == rank && !strcmp(m->v[i].where, where))
			return &m->v[i];
	fail_msg("no %s of rank %d, %s", what, rank, where);
	return NULL;
}

static void lengthen(struct measure *m, double by_s)
{
	for (size_t i = 0; i < m->s.n; i++)
		m->s.v[i] += by_s;
}

static const struct difference *verdict_find(const struct comparison *c, enum verdict v)
{
	const struct difference *found = NULL;

	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i].verdict != v)
			continue;
		assert_null(found);
		found = &c->v[i];
	}
	return found;
}

static void compared(const struct measures *a, const struct measures *b, struct comparison *c)
{
	assert_int_equal(comparison_make(a, b, COMPARE_SHARE_DEFAULT, c), 0);
}

static void freed(struct measures *a, struct measures *b, struct comparison *c)
{
	comparison_free(c);
	measures_free(a);
	measures_free(b);
}

static void test_equal(void **state)
{
	struct measures a, b;
	struct comparison c;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		job(&a, 4, seed);
		job(&b, 4, seed + 1000);
		compared(&a, &b, &c);
		assert_int_equal(c.n_compared, 10);
		assert_int_equal(c.n_slower + c.n_faster, 0);
		freed(&a, &b, &c);
	}
}

static void test_slow_backward(void **state)
{
	const struct difference *d;
	struct measures a, b;
	struct comparison c;

	(void)state;
	job(&a, 4, 1);
	job(&b, 4, 2);
	lengthen(find(&b, "backward", 2, ""), 0.012);
	compared(&a, &b, &c);
	d = verdict_find(&c, COMPARE_SLOWER);
	assert_non_null(d);
	assert_int_equal(d->a->rank, 2);
	assert_string_equal(d->a->what, "backward");
	assert_float_equal(d->b_s - d->a_s, 0.012, 0.003);
	assert_true(d->noise_s < 0.012);
	assert_int_equal(c.n_faster, 0);
	freed(&a, &b, &c);
	job(&a, 4, 1);
	job(&b, 4, 2);
	lengthen(find(&a, "backward", 2, ""), 0.012);
	compared(&a, &b, &c);
	assert_int_equal(c.n_slower, 0);
	assert_non_null(verdict_find(&c, COMPARE_FASTER));
	freed(&a, &b, &c);
}

static void test_slow_communicator(void **state)
{
	const struct difference *d;
	struct measures a, b;
	struct comparison c;

	(void)state;
	job(&a, 4, 1);
	job(&b, 4, 2);
	lengthen(find(&b, "AllReduce 16 MiB", -1, "ranks 2-3"), 0.0008);
	compared(&a, &b, &c);
	d = verdict_find(&c, COMPARE_SLOWER);
	assert_non_null(d);
	assert_string_equal(d->a->where, "ranks 2-3");
	assert_float_equal(d->step_s, 0.0032, 0.0008); /* four in a step */
	freed(&a, &b, &c);
}

/* A quarter more of what a step hardly has makes no step slower. */
static void test_share_of_step(void **state)
{
	struct measures a = { 0 }, b = { 0 };
	struct comparison c;

	(void)state;
	add(&a, MEASURE_STEP, 0, "step", "", 0.100, 0.001, 100);
	add(&a, MEASURE_PHASE, 0, "optimizer", "", 0.0020, 0.0001, 100);
	add(&b, MEASURE_STEP, 0, "step", "", 0.100, 0.001, 100);
	add(&b, MEASURE_PHASE, 0, "optimizer", "", 0.0025, 0.0001, 100);
	compared(&a, &b, &c);
	assert_int_equal(c.n_slower, 0);
	comparison_free(&c);
	assert_int_equal(comparison_make(&a, &b, 0.01, &c), 0);
	assert_int_equal(c.n_slower, 1);
	freed(&a, &b, &c);
}

/* Its level wanders by 20 % within each recording: 5 % from one to the other is none, though each value is exact. */
static void test_drift(void **state)
{
	struct measures a = { 0 }, b = { 0 };
	struct comparison c;

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct measure *m = measures_add(k ? &b : &a, MEASURE_STEP, 0, "step", "");

		m->per_step = 1;
		for (int i = 0; i < 1000; i++)
			durations_put(&m->s, (k ? 0.105 : 0.100) * (i / 100 % 2 ? 1.1 : 0.9) + 1e-6 * drawn());
	}
	compared(&a, &b, &c);
	assert_int_equal(c.n_compared, 1);
	assert_int_equal(c.n_slower, 0);
	freed(&a, &b, &c);
}

static void test_other_ranks_and_phases(void **state)
{
	struct measures a, b;
	struct comparison c;
	int only_a = 0, only_b = 0;

	(void)state;
	job(&a, 4, 1);
	job(&b, 6, 2);
	add(&a, MEASURE_PHASE, 0, "data_wait", "", 0.001, 0, 100);
	compared(&a, &b, &c);
	for (size_t i = 0; i < c.n; i++) {
		only_a += c.v[i].verdict == COMPARE_ONLY_A && !strcmp(c.v[i].a->what, "data_wait") && !c.v[i].b;
		only_b += c.v[i].verdict == COMPARE_ONLY_B && c.v[i].b->rank >= 4 && !c.v[i].a;
	}
	assert_int_equal(only_a, 1);
	assert_int_equal(only_b, 4);
	assert_int_equal(c.n_compared, 10);
	assert_int_equal(c.n_slower, 0);
	assert_float_equal(c.a_step_s, 0.1, 0.005);
	freed(&a, &b, &c);
}

static void test_too_few(void **state)
{
	struct measures a = { 0 }, b = { 0 };
	struct comparison c;

	(void)state;
	add(&a, MEASURE_STEP, 0, "step", "", 0.1, 0, 100);
	add(&b, MEASURE_STEP, 0, "step", "", 0.9, 0, COMPARE_VALUES_MIN - 1);
	compared(&a, &b, &c);
	assert_int_equal(c.n_compared, 0);
	assert_int_equal(c.n_too_few, 1);
	assert_int_equal(c.n_slower, 0);
	freed(&a, &b, &c);
}

/* Of a long recording every part counts the same. */
static void test_durations_thinned(void **state)
{
	struct durations s = { 0 };

	(void)state;
	for (int i = 0; i < 10 * DURATIONS_KEPT; i++)
		assert_int_equal(durations_put(&s, i), 0);
	assert_int_equal(s.seen, 10 * DURATIONS_KEPT);
	assert_in_range(s.n, DURATIONS_KEPT / 2, DURATIONS_KEPT);
	for (size_t i = 0; i < s.n; i++)
		assert_float_equal(s.v[i], (double)(i * s.every), 0);
	assert_float_equal(s.v[s.n - 1], 10.0 * DURATIONS_KEPT, (double)s.every);
	durations_free(&s);
}

static void test_ranks_text(void **state)
{
	const int some[] = { 0, 1, 2, 3, 8, 10, 11 };
	char text[32];

	(void)state;
	ranks_text(some, 7, text, sizeof(text));
	assert_string_equal(text, "ranks 0-3,8,10-11");
	ranks_text(some + 4, 1, text, sizeof(text));
	assert_string_equal(text, "rank 8");
	ranks_text(some, 7, text, 15);
	assert_string_equal(text, "ranks 0-3,...");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_slow_backward),
		cmocka_unit_test(test_slow_communicator),
		cmocka_unit_test(test_share_of_step),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_other_ranks_and_phases),
		cmocka_unit_test(test_too_few),
		cmocka_unit_test(test_durations_thinned),
		cmocka_unit_test(test_ranks_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
