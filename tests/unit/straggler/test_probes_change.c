/* SPDX-License-Identifier: Apache-2.0
 *
 * test_probes_change.c - what the tracer's own probes do to a rank makes no straggler of it, and no slow step of its
 * job: iterations in which probes of a rank go or come, for what they cost, do not count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define SLOW_RANK 2
#define SLOW_STEP 20
#define EVERY_NS (3 * SEC / 2)

static struct event change(uint64_t ts_ns, bool back)
{
	struct event e = job_event(EV_BUDGET, SLOW_RANK, ts_ns);

	e.budget.what = back ? BUDGET_BACK : BUDGET_SHED;
	e.budget.group = PROBES_RANGES;
	e.budget.shed = back ? 0 : 1u << PROBES_RANGES;
	return e;
}

/* Among the events of the job, again and again until `until_ns`. */
static void changes_insert(struct job *j, uint64_t until_ns)
{
	struct event *all = malloc(2 * j->n_events * sizeof(*all));
	uint64_t next_ns = JOB_T0;
	size_t n = 0, n_changes = 0;

	assert_non_null(all);
	for (size_t i = 0; i < j->n_events; i++) {
		if (j->events[i].ts_ns >= next_ns && next_ns < until_ns) {
			all[n++] = change(next_ns, n_changes++ % 2);
			next_ns += EVERY_NS;
		}
		all[n++] = j->events[i];
	}
	free(j->events);
	j->events = all;
	j->n_events = n;
}

/* A rank that takes half as long again, whose probes change until then. */
static struct verdicts played(uint64_t until_ns)
{
	struct job_opts o = job_usual(1, 4, 1, 7);
	struct verdicts v;
	struct job *j;

	o.steps = 80;
	o.faults[0] = (struct fault){ FAULT_SLOW, SLOW_RANK, SLOW_STEP, 50, 0, 1 };
	j = job_new(&o);
	changes_insert(j, until_ns);
	job_play(j, &v, NULL, NULL);
	job_free(j);
	return v;
}

static void as_long_as_they_change(void **state)
{
	struct verdicts v = played(UINT64_MAX);

	(void)state;
	assert_null(verdict_of(&v, FINDING_STRAGGLER));
	assert_null(verdict_of(&v, FINDING_SLOW_STEP));
	verdicts_free(&v);
}

/* The rank is slow by itself: it is named when they have settled. */
static void when_they_are_settled(void **state)
{
	uint64_t settled_ns = JOB_T0 + 20 * SEC;
	struct verdicts v = played(settled_ns);
	const struct seen_finding *s = verdict_of(&v, FINDING_STRAGGLER);

	(void)state;
	assert_non_null(s);
	assert_true(s->f.n_ranks == 1 && s->f.ranks[0] == SLOW_RANK);
	assert_true(s->open_ns > settled_ns && s->f.since_ns + EVERY_NS > settled_ns);
	verdicts_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_long_as_they_change),
		cmocka_unit_test(when_they_are_settled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
