/* SPDX-License-Identifier: Apache-2.0
 *
 * test_finding.c - the filling of a finding: evidence of the wrong type ends the program, ranks past those that are
 * listed are counted and shown as a number; what to do about each.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "finding.h"
#include "remedy.h"
#include "sink/incident_text.h"

static void number_as_text(struct finding *f)
{
	finding_note_text(f, EVIDENCE_WAITING_S, "9");
}

static void text_as_number(struct finding *f)
{
	finding_note(f, EVIDENCE_STATE, 9);
}

static void number_read_as_text(struct finding *f)
{
	(void)finding_text(f, EVIDENCE_WAITING_S);
}

static void text_read_as_number(struct finding *f)
{
	(void)finding_number(f, EVIDENCE_STATE);
}

static void all_right(struct finding *f)
{
	finding_note(f, EVIDENCE_WAITING_S, 9);
	finding_note_text(f, EVIDENCE_STATE, "sleep");
	finding_note_text(f, EVIDENCE_WCHAN, ""); /* not known: no evidence */
	if (f->n_evidence != 2 || finding_number(f, EVIDENCE_WAITING_S) < 9 || !finding_text(f, EVIDENCE_STATE))
		abort();
}

static bool aborts(void (*what)(struct finding *f))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct finding f = { .kind = FINDING_HANG };
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr)) /* what assert() says */
			_exit(2);
		what(&f);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_types(void **state)
{
	(void)state;
	assert_false(aborts(all_right));
	assert_true(aborts(number_as_text));
	assert_true(aborts(text_as_number));
	assert_true(aborts(number_read_as_text));
	assert_true(aborts(text_read_as_number));
}

static char *sentence(const struct finding *f)
{
	struct incident i = { .phase = PHASE_OPEN, .f = *f };
	struct text t = { 0 };
	char *copy;

	incident_text_sentence(&t, &i);
	copy = strdup(t.data);
	free(t.data);
	return copy;
}

static void test_ranks_are_counted(void **state)
{
	struct finding f = { .kind = FINDING_MISMATCH, .peer = -1 };
	char *text;

	(void)state;
	for (int r = 0; r < FINDING_RANKS_MAX; r++)
		finding_add_rank(&f, r, proc_key(r / 8, 100 + r));
	finding_add_rank(&f, 3, proc_key(0, 103)); /* known */
	assert_true(f.n_ranks == FINDING_RANKS_MAX && f.n_ranks_all == FINDING_RANKS_MAX);
	text = sentence(&f);
	assert_null(strstr(text, "more"));
	free(text);
	for (int r = FINDING_RANKS_MAX; r < 128; r++)
		finding_add_rank(&f, r, proc_key(r / 8, 100 + r));
	assert_true(f.n_ranks == FINDING_RANKS_MAX && f.n_ranks_all == 128);
	text = sentence(&f);
	assert_non_null(strstr(text, "ranks 0, 1, 2,"));
	assert_non_null(strstr(text, "14, 15 and 112 more called something else than their peers"));
	free(text);
}

/* Of more ranks than are listed any may be meant. */
static void test_finding_of_a_rank(void **state)
{
	struct finding_list list = { 0 };
	struct finding *f = finding_list_add(&list);

	(void)state;
	f->kind = FINDING_CPU_STARVED;
	for (int r = 0; r < FINDING_RANKS_MAX; r++)
		finding_add_rank(f, r, proc_key(0, 100 + r));
	assert_ptr_equal(finding_list_of(&list, FINDING_CPU_STARVED, proc_key(0, 105)), f);
	assert_null(finding_list_of(&list, FINDING_CPU_STARVED, proc_key(0, 200)));
	assert_null(finding_list_of(&list, FINDING_HANG, proc_key(0, 105)));
	finding_add_rank(f, 16, proc_key(0, 116));
	assert_ptr_equal(finding_list_of(&list, FINDING_CPU_STARVED, proc_key(0, 116)), f);
	assert_null(finding_list_of(&list, FINDING_HANG, proc_key(0, 116)));
	finding_list_free(&list);
}

static void remedy_check(enum finding_kind kind, enum hang_class class, enum finding_cause cause)
{
	struct finding f = { .kind = kind, .class = class, .cause = cause };
	const char *without = finding_remedy(&f), *with;

	assert_true(strlen(without) > 20);
	assert_null(strstr(without, "call site"));
	assert_null(strstr(without, "kernel stack names"));
	finding_note_text(&f, EVIDENCE_PYTHON, "x.py:3 step");
	finding_note_text(&f, EVIDENCE_KERNEL_STACK, "wait_on_page");
	with = finding_remedy(&f);
	assert_true(strlen(with) > 20);
	assert_null(strstr(with, "above")); /* nothing is, in JSON */
}

/* What to do speaks of a call site only where the finding has one. */
static void remedies(void **state)
{
	struct finding f = { .kind = FINDING_HANG, .class = HANG_MISSING_ENTER, .cause = CAUSE_ASLEEP };

	(void)state;
	for (int kind = 0; kind < FINDING_KIND_MAX; kind++)
		for (int class = 0; class < HANG_CLASS_MAX; class ++)
			for (int cause = 0; cause < CAUSE_MAX; cause++)
				remedy_check(kind, class, cause);
	assert_non_null(strstr(finding_remedy(&f), "ranktrace ps --stacks"));
	finding_note_text(&f, EVIDENCE_NATIVE_FRAME, "recv (libc.so.6)");
	assert_non_null(strstr(finding_remedy(&f), "call site"));
	finding_note_text(&f, EVIDENCE_WAITS_FOR_REMEDY, "look at pid 7");
	assert_string_equal(finding_remedy(&f), "look at pid 7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_ranks_are_counted),
		cmocka_unit_test(test_finding_of_a_rank),
		cmocka_unit_test(remedies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
