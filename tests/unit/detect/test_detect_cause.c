/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_cause.c - why a rank is slow: what the host did to it and not to its peers, of the threads that count;
 * and what is no cause because everybody has it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/cause.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

static double evidence(const struct finding *f, const char *name)
{
	return number_named(f, name, -1);
}

static const char *evidence_text(const struct finding *f, const char *name)
{
	return text_named(f, name, "");
}

enum host_fault { NONE, RUNQ, RUNQ_OF_WATCHDOG, RUNQ_OF_ALL, DISK, STOPPED };

/* Totals grow by `share` of the time from the fault on. */
static void host_fault_put(struct job *j, enum host_fault kind, int rank, double share)
{
	for (size_t i = 0; i < j->n_events; i++) {
		struct event *e = &j->events[i];
		bool watchdog = e->tid != e->tgid;
		uint64_t ns;

		if (e->kind != EV_TASK || (kind != RUNQ_OF_ALL && e->tgid != job_pid(rank)) ||
		    (kind == RUNQ_OF_WATCHDOG) != watchdog)
			continue;
		ns = e->ts_ns > j->fault_ns[0] ? (e->ts_ns - j->fault_ns[0]) * share : 0;
		if (kind == RUNQ || kind == RUNQ_OF_WATCHDOG || kind == RUNQ_OF_ALL) {
			e->task.wait_ns += ns;
			e->task.preempted = ns / MSEC;
			e->task.preempted_by = "hog";
		}
		e->task.disk_ns += kind == DISK ? ns : 0;
		e->task.stopped_ns += kind == STOPPED ? ns : 0;
	}
}

static struct finding slow_rank(struct job_opts o, enum host_fault kind)
{
	struct finding f = { 0 };
	struct verdicts v;
	struct job *j;

	o.steps = 30;
	o.faults[0] = (struct fault){ FAULT_SLOW, 2, 8, 40, 0, 1 };
	j = job_new(&o);
	if (kind != NONE)
		host_fault_put(j, kind, 2, 0.25);
	job_play(j, &v, NULL, NULL);
	for (size_t i = 0; i < v.n; i++)
		if (v.all[i].f.kind == FINDING_STRAGGLER)
			f = v.all[i].f; /* its last words */
	verdicts_free(&v);
	job_free(j);
	assert_int_equal(f.kind, FINDING_STRAGGLER);
	assert_true(f.ranks[0] == 2 || f.ranks[1] == 2);
	return f;
}

static void test_missing_cpu(void **state)
{
	struct finding f = slow_rank(job_usual(1, 4, 1, 11), RUNQ);

	(void)state;
	assert_string_equal(cause_name(f.cause), "cpu_starved");
	assert_true(evidence(&f, "runqueue_wait_share") > 0.2 && evidence(&f, "runqueue_wait_share") < 0.3);
	assert_true(evidence(&f, "runqueue_wait_share_peers") < 0.01);
	assert_true(evidence(&f, "preempted_per_s") > 200 && evidence(&f, "preempted_per_s") < 300);
	assert_string_equal(evidence_text(&f, "preempted_by"), "hog");
}

static void test_other_causes(void **state)
{
	(void)state;
	assert_string_equal(cause_name(slow_rank(job_usual(1, 4, 1, 11), DISK).cause), "d_state");
	assert_string_equal(cause_name(slow_rank(job_usual(1, 4, 1, 11), STOPPED).cause), "stopped");
	assert_string_equal(cause_name(slow_rank(job_usual(1, 4, 1, 11), NONE).cause), "gpu_or_unknown");
}

/* A loaded machine, and a thread that the step does not wait for. */
static void test_what_is_no_cause(void **state)
{
	(void)state;
	assert_string_equal(cause_name(slow_rank(job_usual(1, 4, 1, 11), RUNQ_OF_ALL).cause), "gpu_or_unknown");
	assert_string_equal(cause_name(slow_rank(job_usual(1, 4, 1, 11), RUNQ_OF_WATCHDOG).cause), "gpu_or_unknown");
}

/* Late for ten iterations while all wait for CPUs: it is not named. For sixteen it is, and where nobody waits at once.
 */
static void test_late_where_all_wait(void **state)
{
	static const struct {
		enum host_fault kind;
		int until;          /* step */
		double least, most; /* steps after which it is named; 0 it is not */
	} cases[] = { { NONE, 18, 3, 6 }, { RUNQ_OF_ALL, 18, 0, 0 }, { RUNQ_OF_ALL, 40, 16, 20 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct job_opts o = job_usual(1, 4, 1, 11);
		const struct seen_finding *s;
		struct verdicts v;
		struct job *j;

		o.steps = 50;
		o.faults[0] = (struct fault){ FAULT_SLOW, 2, 8, 40, 0, 1 };
		o.faults[1] = (struct fault){ FAULT_SLOW, 2, cases[i].until, 0, 0, 1 };
		j = job_new(&o);
		if (cases[i].kind != NONE)
			host_fault_put(j, cases[i].kind, 2, 0.25);
		job_play(j, &v, NULL, NULL);
		s = verdict_of(&v, FINDING_STRAGGLER);
		assert_int_equal(!s, !cases[i].most);
		if (s) {
			double after_steps = (s->open_ns - s->f.since_ns) * 1e-9 / evidence(&s->f, "step_s");

			assert_string_equal(cause_name(s->f.cause), "gpu_or_unknown");
			assert_int_equal(s->f.ranks[0], 2);
			assert_true(after_steps >= cases[i].least && after_steps <= cases[i].most);
		}
		verdicts_free(&v);
		job_free(j);
	}
}

/* Tensor-parallel partners cannot be distinguished by blame; what the host did distinguishes them. */
static void test_the_host_distinguishes_a_set(void **state)
{
	struct job_opts o = job_usual(2, 4, 1, 5);
	struct finding f;

	(void)state;
	o.run_ahead = o.check_sync = true;
	f = slow_rank(o, NONE);
	assert_true(f.n_ranks > 1);
	f = slow_rank(o, RUNQ);
	assert_int_equal(f.n_ranks, 1);
	assert_int_equal(f.ranks[0], 2);
	assert_string_equal(cause_name(f.cause), "cpu_starved");
}

static void stragglers_count(const struct verdicts *v, int *n, struct finding *last)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->all[i].f.kind == FINDING_STRAGGLER) {
			*last = v->all[i].f;
			++*n;
		}
}

/* Thirty-two partners: no name by themselves, but the one that the host delayed is one. */
static void test_one_of_a_large_set(void **state)
{
	static const enum host_fault kinds[] = { NONE, RUNQ, RUNQ_OF_ALL };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct job_opts o = job_usual(32, 2, 1, 5);
		struct finding last = { 0 };
		struct verdicts v;
		struct job *j;
		int n = 0;

		o.run_ahead = o.check_sync = true;
		o.steps = 24;
		o.faults[0] = (struct fault){ FAULT_SLOW, 2, 8, 30, 0, 1 };
		j = job_new(&o);
		if (kinds[i] != NONE)
			host_fault_put(j, kinds[i], 2, 0.25);
		job_play(j, &v, NULL, NULL);
		stragglers_count(&v, &n, &last);
		assert_int_equal(n, kinds[i] == RUNQ);
		if (n) {
			assert_int_equal(last.n_ranks, 1);
			assert_int_equal(last.ranks[0], 2);
			assert_true(evidence(&last, "one_of") == 32);
			assert_string_equal(cause_name(last.cause), "cpu_starved");
		}
		verdicts_free(&v);
		job_free(j);
	}
}

static struct cost_rates no_rates(void)
{
	struct cost_rates r = { .throttled = -1, .preempted_per_s = -1, .io_bytes_s = -1 };

	for (int k = 0; k < COST_MAX; k++)
		r.cost[k] = 0.001;
	return r;
}

static void test_the_most_expensive_is_named(void **state)
{
	struct cost_rates own = no_rates(), peers[4] = { no_rates(), no_rates(), no_rates(), no_rates() };
	struct host_cause c;

	(void)state;
	assert_int_equal(host_cause(&own, peers, 4, 0.2).cause, CAUSE_NONE);
	own.cost[COST_ALLOC] = 0.1;
	own.cost[COST_MODULE] = 0.15;
	c = host_cause(&own, peers, 4, 0.2);
	assert_string_equal(cause_name(c.cause), "module_load");
	assert_true(c.own.cost[COST_ALLOC] == 0.1 && c.own.cost[COST_GRAPH] < 0); /* evidence: what stands out */
	assert_int_equal(host_cause(&own, peers, 4, 0.9).cause, CAUSE_NONE);      /* too little to explain that */
	assert_int_equal(host_cause(&own, peers, 0, 0.2).cause, CAUSE_NONE);      /* nobody to compare with */
	for (int i = 0; i < 4; i++) /* peers differ so much among themselves that it is one of them */
		peers[i].cost[COST_MODULE] = peers[i].cost[COST_ALLOC] = 0.04 * i;
	assert_int_equal(host_cause(&own, peers, 4, 0.2).cause, CAUSE_NONE);
}

/* Behind whom it waited is evidence unless it waited for its quota. */
static void test_who_was_in_front_of_it(void **state)
{
	struct host_cause c = { .own = no_rates(), .usual = no_rates() };
	struct finding f = { 0 }, of_quota = { 0 };

	(void)state;
	c.own.behind = "hog";
	c.own.cost[COST_RUNQ] = 0.2;
	c.own.throttled = 0.09;
	host_cause_note(&f, &c, NULL);
	assert_string_equal(evidence_text(&f, "preempted_by"), "hog");
	assert_true(evidence(&f, "throttled_share") == 0.09);
	c.own.throttled = 0.11;
	host_cause_note(&of_quota, &c, NULL);
	assert_null(evidence_named(&of_quota, "preempted_by"));
}

static void give(struct model *m, struct event e)
{
	assert_int_equal(model_apply(m, &e), 0);
}

static void allocation(struct model *m, uint64_t begin_ns, uint64_t end_ns)
{
	struct event e = job_event(EV_CALL, 0, end_ns);

	e.call.class = CALL_ALLOC;
	e.call.begin_ns = begin_ns;
	give(m, e);
}

static double allocating(struct model *m, const struct keyed_table *histories)
{
	return cost_rates(histories, m, model_proc(m, job_pid(0)), 0).cost[COST_ALLOC];
}

/* A rank whose calls are not probed all the time is no example of one that makes none, and none that makes more. */
static void test_calls_that_were_not_probed(void **state)
{
	struct event shed = job_event(EV_BUDGET, 0, 3 * SEC), back = job_event(EV_BUDGET, 0, 5 * SEC);
	struct keyed_table list = { 0 }, later = { 0 };
	struct model *m = model_new();

	(void)state;
	shed.budget = (struct budget_change){ .what = BUDGET_SHED, .group = PROBES_CALLS, .shed = 1 << PROBES_CALLS };
	back.budget = (struct budget_change){ .what = BUDGET_BACK, .group = PROBES_CALLS };
	allocation(m, 0, SEC);
	assert_int_equal(cost_push(&list, m, model_proc(m, job_pid(0))), 0);
	allocation(m, 3 * SEC / 2, 2 * SEC);
	assert_true(allocating(m, &list) > 0.49 && allocating(m, &list) < 0.51);
	give(m, shed);
	assert_true(allocating(m, &list) < 0);
	give(m, back);
	allocation(m, 11 * SEC / 2, 6 * SEC);
	assert_true(allocating(m, &list) < 0);
	assert_int_equal(cost_push(&later, m, model_proc(m, job_pid(0))), 0);
	allocation(m, 7 * SEC, 8 * SEC);
	assert_true(allocating(m, &later) > 0.49 && allocating(m, &later) < 0.51);
	keyed_free(&list);
	keyed_free(&later);
	model_free(m);
}

static void test_bytes_explain_only_what_nothing_else_does(void **state)
{
	struct cost_rates own = no_rates(), peers[2] = { no_rates(), no_rates() };

	(void)state;
	own.io_bytes_s = 50e6;
	peers[0].io_bytes_s = peers[1].io_bytes_s = 1e6;
	assert_string_equal(cause_name(host_cause(&own, peers, 2, 0.2).cause), "io");
	own.cost[COST_RUNQ] = 0.2;
	assert_string_equal(cause_name(host_cause(&own, peers, 2, 0.2).cause), "cpu_starved");
	own.cost[COST_RUNQ] = 0.001;
	peers[0].io_bytes_s = peers[1].io_bytes_s = 30e6;
	assert_int_equal(host_cause(&own, peers, 2, 0.2).cause, CAUSE_NONE);
}

/* Throttled by `share` of the time from 3 s on for `sec`: these ranks, of 4. */
static struct verdicts throttled_job(struct job_opts o, unsigned int ranks, double share, double sec, double waits)
{
	struct verdicts v;
	struct job *j;
	size_t n;

	j = job_new(&o);
	n = j->n_events;
	for (size_t i = 0; i < n; i++) {
		struct event *e = &j->events[i], t;
		uint64_t from = JOB_T0 + 3 * SEC, to = from + (uint64_t)(sec * SEC),
			 now = e->ts_ns < to ? e->ts_ns : to;
		int rank = (e->tgid - job_pid(0)) / 100;

		if (e->kind != EV_TASK || e->tid != e->tgid || e->tgid != job_pid(rank) || !(ranks >> rank & 1) ||
		    now < from)
			continue;
		e->task.wait_ns += (now - from) * waits;
		t = *e; /* instead of the watchdog's scan, which follows */
		t.kind = EV_THROTTLE;
		t.throttle.throttled_ns = (now - from) * share;
		t.throttle.periods = 1;
		t.throttle.quota_millicores = 500;
		j->events[i + 1] = t;
	}
	job_play(j, &v, NULL, NULL);
	job_free(j);
	return v;
}

static struct verdicts throttled(unsigned int ranks, double share, double sec, double waits)
{
	struct job_opts o = job_usual(1, 4, 1, 17);

	o.steps = 50;
	return throttled_job(o, ranks, share, sec, waits);
}

/* The quota of a whole job makes no straggler: all are slow alike. */
static void test_a_quota_is_reported(void **state)
{
	struct verdicts v = throttled(0xf, 0.4, 100, 0.4);
	const struct seen_finding *s = verdict_of(&v, FINDING_CPU_STARVED);

	(void)state;
	assert_int_equal(v.n, 1);
	assert_int_equal(s->f.n_ranks, 4);
	assert_string_equal(cause_name(s->f.cause), "cgroup_quota");
	assert_true(evidence(&s->f, "quota_cores") == 0.5);
	assert_true(evidence(&s->f, "throttled_share") > 0.35 && evidence(&s->f, "throttled_share") < 0.45);
	assert_true(s->open_ns > JOB_T0 + 7 * SEC && s->open_ns < JOB_T0 + 12 * SEC);
	verdicts_free(&v);
	v = throttled(0x4, 0.4, 12, 0.4); /* one rank, whose waits its peers do not feel */
	s = verdict_of(&v, FINDING_CPU_STARVED);
	assert_non_null(s);
	assert_int_equal(s->f.n_ranks, 1);
	assert_int_equal(s->f.ranks[0], 2);
	assert_true(s->last_ns > JOB_T0 + 14 * SEC && s->last_ns < JOB_T0 + 18 * SEC); /* and it ends */
	verdicts_free(&v);
}

/* While a straggler finding names the rank and its quota, this detector does not; its 5 s begin where that one ends. */
static void test_a_straggler_is_not_named_twice(void **state)
{
	struct job_opts o = job_usual(1, 4, 1, 17);
	const struct seen_finding *slow, *s;
	struct verdicts v;

	(void)state;
	o.steps = 60;
	o.faults[0] = (struct fault){ FAULT_SLOW, 2, 8, 40, 0, 1 };
	o.faults[1] = (struct fault){ FAULT_SLOW, 2, 24, 0, 0, 1 }; /* no longer slow, still throttled */
	v = throttled_job(o, 0x4, 0.4, 100, 0.4);
	slow = verdict_of(&v, FINDING_STRAGGLER);
	s = verdict_of(&v, FINDING_CPU_STARVED);
	assert_non_null(slow);
	assert_non_null(s);
	assert_true(s->open_ns >= slow->last_ns + 5 * SEC);
	verdicts_free(&v);
}

/* Too short; too little; of threads that training does not wait for; no quota. */
static void test_quotas_that_do_not_matter(void **state)
{
	static const double cases[][3] = { { 0.4, 3, 0.4 }, { 0.05, 12, 0.4 }, { 0.4, 12, 0.05 }, { 0, 12, 0.9 } };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct verdicts v = throttled(0xf, cases[i][0], cases[i][1], cases[i][2]);

		assert_int_equal(v.n, 0);
		verdicts_free(&v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_cpu),
		cmocka_unit_test(test_other_causes),
		cmocka_unit_test(test_what_is_no_cause),
		cmocka_unit_test(test_late_where_all_wait),
		cmocka_unit_test(test_the_host_distinguishes_a_set),
		cmocka_unit_test(test_one_of_a_large_set),
		cmocka_unit_test(test_the_most_expensive_is_named),
		cmocka_unit_test(test_who_was_in_front_of_it),
		cmocka_unit_test(test_calls_that_were_not_probed),
		cmocka_unit_test(test_bytes_explain_only_what_nothing_else_does),
		cmocka_unit_test(test_a_quota_is_reported),
		cmocka_unit_test(test_a_straggler_is_not_named_twice),
		cmocka_unit_test(test_quotas_that_do_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
