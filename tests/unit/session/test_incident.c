/* SPDX-License-Identifier: Apache-2.0
 *
 * test_incident.c - what faults cost a job: all of its time while peers wait, the blamed share of a straggler, summed
 * under the root cause and listed by cost, also when they are over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/finding_id.h"
#include "pipeline/incident.h"
#include "tests/unit/job/job_script.h"

static void put(struct finding_list *list, enum finding_kind kind, uint64_t key, uint64_t caused_by, uint64_t since_ns,
		int rank)
{
	struct finding *f = finding_list_add(list);

	assert_non_null(f);
	f->kind = kind;
	f->key = key;
	f->caused_by_key = caused_by;
	f->since_ns = since_ns;
	finding_add_rank(f, rank, job_pid(rank));
	if (kind == FINDING_STRAGGLER)
		finding_note(f, EVIDENCE_WHAT_IF_PERCENT, 20);
}

static void tick(struct incidents *s, struct model *m, const struct finding_list *list, uint64_t now_ns)
{
	struct event e = { .kind = EV_TICK, .ts_ns = now_ns };

	assert_int_equal(model_apply(m, &e), 0);
	assert_int_equal(incidents_update(s, list, m), 0);
}

static void test_costs_add_up_under_the_root(void **state)
{
	struct incidents *s = incidents_new();
	struct finding_list list = { 0 };
	const struct incident *to[4];
	struct model *m = model_new();

	(void)state;
	put(&list, FINDING_STRAGGLER, 1, 0, JOB_T0, 3);         /* 10 s at 20 %, until all does not move: 2 s */
	put(&list, FINDING_D_STATE, 2, 0, JOB_T0 + 4 * SEC, 5); /* its hang's 10 s */
	put(&list, FINDING_HANG, 3, 2, JOB_T0 + 10 * SEC, 5);
	put(&list, FINDING_OBSERVATION, 4, 0, JOB_T0, 6); /* costs nothing */
	for (int i = 11; i <= 20; i++)
		tick(s, m, &list, JOB_T0 + i * SEC);
	assert_int_equal(incidents_by_cost(s, to, 4), 2);
	assert_int_equal(to[0]->f.kind, FINDING_D_STATE);
	assert_true(fabs(to[0]->cost_s - 10) < 1e-6);
	assert_int_equal(to[1]->f.kind, FINDING_STRAGGLER);
	assert_true(fabs(to[1]->cost_s - 2) < 1e-6);
	list.n = 0;
	put(&list, FINDING_HANG, 9, 0, JOB_T0 + 24100 * MSEC, 1);
	for (int i = 21; i <= 26; i++)
		tick(s, m, &list, JOB_T0 + i * SEC);
	assert_int_equal(incidents_by_cost(s, to, 4), 3); /* two of them over */
	assert_true(to[0]->f.kind == FINDING_D_STATE && to[1]->f.kind == FINDING_STRAGGLER &&
		    to[2]->f.kind == FINDING_HANG);
	assert_true(fabs(to[2]->cost_s - 1.9) < 1e-6);
	assert_int_equal(incidents_by_cost(s, to, 1), 1); /* of more than there is room for the most expensive */
	assert_int_equal(to[0]->f.kind, FINDING_D_STATE);
	incidents_free(s);
	finding_list_free(&list);
	model_free(m);
}

/* Of a note who is in it comes and goes, and is said with the next regular word, after 10 s; of all else at once. */
static void test_ranks_of_a_note_are_no_update(void **state)
{
	static const enum finding_kind kinds[] = { FINDING_UNOBSERVED, FINDING_HANG };

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct incidents *s = incidents_new();
		struct finding_list list = { 0 };
		struct model *m = model_new();
		int n = 0;

		for (int i = 1; i <= 12; i++) {
			list.n = 0;
			put(&list, kinds[k], 1, 0, JOB_T0, i);
			finding_add_rank(&list.items[0], 20 + i, job_pid(20 + i));
			list.items[0].severity = k ? SEVERITY_WARNING : SEVERITY_INFO;
			tick(s, m, &list, JOB_T0 + i * SEC);
			while (incidents_next(s))
				n++;
		}
		assert_int_equal(n, k ? 12 : 2); /* opened, and the word of 10 s later */
		incidents_free(s);
		finding_list_free(&list);
		model_free(m);
	}
}

/* Told at once, and once. */
static void test_what_the_culprit_does_is_an_update(void **state)
{
	static const struct {
		const char *python, *wchan, *others;
		bool reported;
	} ticks[] = {
		{ NULL, "futex", NULL, true },
		{ NULL, "poll", NULL, false },
		{ "a.py:1 f", "poll", NULL, true },
		{ "a.py:1 f", "futex", NULL, false },
		{ "a.py:2 f", "futex", NULL, true },
		{ NULL, "futex", NULL, false },
		{ NULL, "futex", "1 of 2 others", true },
		{ NULL, "futex", "2 of 2 others", false },
	};
	struct incidents *s = incidents_new();
	struct finding_list list = { 0 };
	struct model *m = model_new();

	(void)state;
	for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		const struct incident *next_one;

		list.n = 0;
		put(&list, FINDING_HANG, 1, 0, JOB_T0, 3);
		finding_note_text(&list.items[0], EVIDENCE_WCHAN, ticks[i].wchan);
		finding_note_text(&list.items[0], EVIDENCE_PYTHON, ticks[i].python);
		finding_note_text(&list.items[0], EVIDENCE_WAITING_IN, ticks[i].others);
		tick(s, m, &list, JOB_T0 + (i + 1) * 250 * MSEC);
		next_one = incidents_next(s);
		assert_true(!next_one == !ticks[i].reported);
		assert_true(!next_one || next_one->phase == (i ? PHASE_UPDATE : PHASE_OPEN));
	}
	incidents_free(s);
	finding_list_free(&list);
	model_free(m);
}

/* --- one event, one root --- */

static const struct incident *open_of(const struct incidents *s, uint64_t key)
{
	const struct incident *i = NULL;

	while ((i = incidents_next_open(s, i)))
		if (i->f.key == key)
			return i;
	return NULL;
}

static int n_roots(struct incidents *s)
{
	int n = 0;

	for (const struct incident *i = incidents_next_open(s, NULL); i; i = incidents_next_open(s, i))
		n += !*i->caused_by;
	return n;
}

/* The cause is seen before, with, or after what follows from it; or a chain of causes after it. */
static void test_the_first_that_is_seen_is_the_root(void **state)
{
	static const struct {
		int n_first;               /* so many of these at the first tick, all at the second */
		uint64_t keys[3], from[3]; /* the i-th follows from that key */
		uint64_t root;
		int explaining; /* the i-th: the cause, seen later; -1 none */
	} cases[] = {
		{ 1, { 1, 2 }, { 0, 1 }, 1, -1 },       { 2, { 1, 2 }, { 0, 1 }, 1, -1 },
		{ 1, { 2, 1 }, { 1, 0 }, 2, 1 },        { 1, { 3, 2, 1 }, { 2, 1, 0 }, 3, 2 },
		{ 2, { 3, 2, 1 }, { 2, 1, 0 }, 2, 2 },  { 1, { 3, 1, 2 }, { 2, 0, 1 }, 3, 1 },
		{ 1, { 1, 3, 2 }, { 0, 2, 1 }, 1, -1 },
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct incidents *s = incidents_new();
		struct finding_list list = { 0 };
		struct model *m = model_new();
		int n = cases[c].keys[2] ? 3 : 2;

		for (int t = 1; t < 50; t++) {
			list.n = 0;
			for (int i = 0; i < (t > 4 ? n : cases[c].n_first); i++)
				put(&list, FINDING_XID, cases[c].keys[i], cases[c].from[i], JOB_T0, i);
			tick(s, m, &list, JOB_T0 + t * SEC);
			assert_int_equal(n_roots(s), 1);
			assert_true(!*open_of(s, cases[c].root)->caused_by);
			assert_int_equal(incidents_opened(s), list.n);
			for (int i = 0; i < (int)list.n; i++)
				assert_int_equal(open_of(s, cases[c].keys[i])->explains, i == cases[c].explaining);
		}
		if (cases[c].explaining > 0)
			assert_string_equal(open_of(s, cases[c].keys[cases[c].explaining])->caused_by,
					    open_of(s, cases[c].root)->id);
		incidents_free(s);
		finding_list_free(&list);
		model_free(m);
	}
}

/* The root is as grave as the cause that joined it, in an update, and stays so. */
static void test_a_root_learns_of_a_graver_cause(void **state)
{
	struct incidents *s = incidents_new();
	struct finding_list list = { 0 };
	struct model *m = model_new();
	int updates = 0;

	(void)state;
	for (int t = 1; t < 12; t++) {
		const struct incident *i;

		list.n = 0;
		put(&list, FINDING_HANG, 1, 2, JOB_T0, 3);
		list.items[0].severity = SEVERITY_WARNING;
		if (t > 2)
			put(&list, FINDING_XID, 2, 0, JOB_T0, 3);
		list.items[list.n - 1].severity = t > 2 ? SEVERITY_CRITICAL : SEVERITY_WARNING;
		tick(s, m, &list, JOB_T0 + t * 500 * MSEC);
		assert_int_equal(open_of(s, 1)->f.severity, t > 2 ? SEVERITY_CRITICAL : SEVERITY_WARNING);
		while ((i = incidents_next(s)))
			updates += i->phase == PHASE_UPDATE;
	}
	assert_int_equal(updates, 1);
	assert_int_equal(incidents_worst(s), SEVERITY_CRITICAL);
	incidents_free(s);
	finding_list_free(&list);
	model_free(m);
}

/* A rank that is stopped in the middle of an operation, and then lacks the next: the same hang, and subject. */
static void test_a_hang_goes_on_under_another_key(void **state)
{
	static const struct {
		int rank, since_ms;
		enum finding_kind kind;
		bool both, same;
	} cases[] = {
		{ 3, 2000, FINDING_HANG, false, true },       { 3, 4000, FINDING_HANG, false, true },
		{ 3, 4001, FINDING_HANG, false, false },      { 2, 2000, FINDING_HANG, false, false },
		{ 3, 2000, FINDING_STRAGGLER, false, false }, { 3, 2000, FINDING_HANG, true, false },
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct incidents *s = incidents_new();
		struct finding_list list = { 0 };
		struct model *m = model_new();

		for (int t = 1; t <= 8; t++) {
			list.n = 0;
			if (t <= 4 || cases[c].both)
				put(&list, FINDING_HANG, 1, 0, JOB_T0, 3);
			if (t > 4)
				put(&list, cases[c].kind, 2, 0, JOB_T0 + cases[c].since_ms * MSEC, cases[c].rank);
			for (size_t i = 0; i < list.n; i++)
				list.items[i].subject.type = t > 4 ? SUBJECT_RANK : SUBJECT_COMMUNICATOR;
			tick(s, m, &list, JOB_T0 + t * SEC);
		}
		assert_int_equal(incidents_opened(s), cases[c].same ? 1 : 2);
		assert_non_null(open_of(s, 2));
		assert_int_equal(open_of(s, 2)->f.subject.type, cases[c].same ? SUBJECT_COMMUNICATOR : SUBJECT_RANK);
		assert_int_equal(!!open_of(s, 1), cases[c].both);
		incidents_free(s);
		finding_list_free(&list);
		model_free(m);
	}
}

/* One rank that does not come, then any of two, of three, then another of these, then one that was none of them. */
static void test_a_guess_is_one_hang(void **state)
{
	static const int ranks[][4] = { { 3 }, { 3, 5 }, { 2, 3, 5 }, { 2 }, { 6 } }; /* 0: no more of them */
	struct incidents *s = incidents_new();
	struct finding_list list = { 0 };
	struct model *m = model_new();

	(void)state;
	for (uint64_t t = 0; t < 5; t++) {
		list.n = 0;
		put(&list, FINDING_HANG, 10 + t, 0, JOB_T0, ranks[t][0]);
		for (int i = 1; i < 4 && ranks[t][i]; i++)
			finding_add_rank(&list.items[0], ranks[t][i], job_pid(ranks[t][i]));
		list.items[0].class = list.items[0].n_ranks > 1 ? HANG_UNKNOWN : HANG_MISSING_ENTER;
		if (list.items[0].n_ranks > 1)
			finding_note(&list.items[0], EVIDENCE_ONE_OF, list.items[0].n_ranks);
		for (int k = 0; k < 2; k++)
			tick(s, m, &list, JOB_T0 + (t + 1) * SEC + k * MSEC);
		assert_int_equal(incidents_opened(s), t < 4 ? 1 : 2);
		assert_int_equal(open_of(s, 10 + t)->f.n_ranks, list.items[0].n_ranks);
	}
	incidents_free(s);
	finding_list_free(&list);
	model_free(m);
}

static const char *id_of(const char *host, uint64_t start_ns, uint64_t realtime_ns, uint64_t resumed_ns, bool merged)
{
	struct model m = { .host = host,
			   .start_ns = start_ns,
			   .start_realtime_ns = realtime_ns,
			   .resumed_ns = resumed_ns,
			   .merged = merged };
	static char ids[8][FINDING_ID_MAX];
	static int n;
	char *to = ids[n++ % 8];

	finding_id(to, &m, 7);
	return to;
}

/* The same for the same start of the same host, and for no other. */
static void test_ids(void **state)
{
	uint64_t start = 90000 * SEC + 5, at = 1795443252 * SEC + 345678901; /* 2026-11-23 14:14:12 UTC */
	const char *id = id_of("node-a", start, at, 0, false);
	static const char longest[] = "a.very-long-name-of-a-host.in-a-cluster-of-many.example.org";

	(void)state;
	assert_memory_equal(id, "node-a-20261123-141412-", 23);
	assert_string_equal(id + 27, "-7");
	assert_string_equal(id, id_of("node-a", start, at, 0, false));
	assert_string_not_equal(id, id_of("node-b", start, at, 0, false));
	assert_string_not_equal(id, id_of("node-a", start, at + 1, 0, false));
	assert_string_not_equal(id, id_of("node-a", start + 1, at, 0, false)); /* a wall clock that was set back */
	assert_string_not_equal(id_of("gpu1.a.example.of-a-long-name.org", start, at, 0, false),
				id_of("gpu1.b.example.of-a-long-name.org", start, at, 0, false));
	assert_memory_equal(id_of("gpu1.a.example.of-a-long-name.org", start, at, 0, false), "gpu1-2026", 9);
	assert_memory_equal(id_of("", start, at, 0, false), "host-2026", 9);
	assert_memory_equal(id_of("a b/c\"", start, at, 0, false), "a_b_c_-2026", 11);
	assert_memory_equal(id_of("node-a,node-b", start, at, 0, true), "merge-2026", 10);
	assert_string_not_equal(id_of("node-a,node-b", start, at, 0, true), id_of("node-a,node-c", start, at, 0, true));
	assert_string_equal(strstr(id_of("node-a", start, at, start + 95 * SEC, false), "-from"), "-from95s-7");
	assert_true(strlen(id_of(longest, UINT64_MAX, UINT64_MAX, UINT64_MAX, false)) < FINDING_ID_MAX - 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_costs_add_up_under_the_root),
		cmocka_unit_test(test_the_first_that_is_seen_is_the_root),
		cmocka_unit_test(test_a_root_learns_of_a_graver_cause),
		cmocka_unit_test(test_a_hang_goes_on_under_another_key),
		cmocka_unit_test(test_a_guess_is_one_hang),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_what_the_culprit_does_is_an_update),
		cmocka_unit_test(test_ranks_of_a_note_are_no_update),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
