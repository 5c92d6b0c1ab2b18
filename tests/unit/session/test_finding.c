/* SPDX-License-Identifier: Apache-2.0
 *
 * test_finding.c - the filling of a finding: evidence of the wrong type ends the program, ranks past those that are
 * listed are counted and shown as a number. And every kind, class and cause in words: a severity, a sentence, a remedy.
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
#include "detect/severity.h"
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
	assert_non_null(strstr(text, "14, 15 and 112 more called an operation with other arguments"));
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

/* --- every kind in words --- */

#define SUBJECTS 3

/* Of a rank, of a port, of nobody: as little as a detector may know. */
static struct finding bare(enum finding_kind kind, enum hang_class class, enum finding_cause cause, int about)
{
	struct finding f = { .kind = kind, .class = class, .cause = cause, .peer = -1, .confidence = 1 };

	f.subject = about == 1 ? subject_port(0, "mlx5_0", 1, -1, 0) : subject_rank(3, proc_key(0, 103));
	if (!about)
		finding_add_rank(&f, 3, proc_key(0, 103));
	return f;
}

/* Of what is printed: words, and none that only the code knows. */
static void assert_sentence(const struct finding *f)
{
	char *text = sentence(f);

	if (strlen(text) < 10 || (strpbrk(text, "_?{") && !strstr(text, "mlx5_0")) || strstr(text, "  ") ||
	    strstr(text, "(null)") || text[strlen(text) - 1] == ' ')
		fail_msg("%s, %s, %s: '%s'", finding_kind_name(f->kind), hang_class_name(f->class),
			 cause_name(f->cause), text);
	free(text);
}

static void assert_remedy(const struct finding *f)
{
	char text[REMEDY_MAX];

	finding_remedy(f, text, sizeof(text));
	assert_true(strlen(text) >= 20 && strlen(text) < 200);
	assert_null(strpbrk(text, "{}"));
	assert_null(strstr(text, "above"));                       /* nothing is, in JSON */
	assert_null(strstr(text, "see what it waits for there")); /* no call site is known */
	assert_null(strstr(text, "kernel stack names"));
	assert_null(strstr(text, "pid PID") && f->n_ranks ? text : NULL);
}

static void assert_severity(const struct finding *f)
{
	struct finding_list list = { 0 };

	*finding_list_add(&list) = *f;
	severities_judge(&list, f->since_ns);
	assert_true(list.items[0].severity < SEVERITY_MAX);
	assert_string_not_equal(severity_name(list.items[0].severity), "?");
	finding_list_free(&list);
}

static void test_every_kind_in_words(void **state)
{
	int n = 0;

	(void)state;
	for (int kind = 0; kind < FINDING_KIND_MAX; kind++)
		for (int class = 0; class < (kind == FINDING_HANG ? HANG_CLASS_MAX : 1); class ++)
			for (int cause = 0; cause < SUBJECTS * CAUSE_MAX; cause++, n++) {
				struct finding f = bare(kind, class, cause % CAUSE_MAX, cause / CAUSE_MAX);

				assert_sentence(&f);
				assert_remedy(&f);
				assert_severity(&f);
			}
	assert_true(n > FINDING_KIND_MAX * CAUSE_MAX);
}

static void assert_remedy_is(const struct finding *f, const char *expected)
{
	char text[REMEDY_MAX], cut[8];

	finding_remedy(f, text, sizeof(text));
	assert_string_equal(text, expected);
	finding_remedy(f, cut, sizeof(cut));
	assert_int_equal(strlen(cut), 7);
	assert_memory_equal(cut, expected, 7);
}

/* With the numbers at hand; about what was seen, and not about what is usual. */
static void test_remedies(void **state)
{
	struct finding f = bare(FINDING_STOPPED, HANG_NONE, CAUSE_STOPPED, 0);

	(void)state;
	assert_remedy_is(
		&f, "find out who stopped it (a debugger, a snapshot, Ctrl-Z in its terminal), then: kill -CONT 103");
	f = bare(FINDING_D_STATE, HANG_NONE, CAUSE_D_STATE, 0);
	assert_remedy_is(&f, "look at dmesg and at the file systems it uses; as root ranktrace reads the kernel stack");
	finding_note_text(&f, EVIDENCE_KERNEL_STACK, "wait_on_page");
	assert_remedy_is(
		&f, "look at the storage that its kernel stack names (with -v), and at dmesg; signals do not reach it");
	finding_note_text(&f, EVIDENCE_FILE, "/data/{pid}");
	assert_remedy_is(
		&f, "look at the storage behind /data/{pid} (NFS server, disk, frozen mount) and at dmesg; signals do "
		    "not reach it");
	f = bare(FINDING_STRAGGLER, HANG_NONE, CAUSE_CPU_STARVED, 0);
	finding_note(&f, EVIDENCE_RUNQUEUE_WAIT_SHARE, 0.8);
	assert_remedy_is(&f, "other processes take its cores: move them away, or pin the rank to cores of its own");
	finding_note(&f, EVIDENCE_THROTTLED_SHARE, 0.7); /* nobody takes them: there is a quota */
	assert_remedy_is(&f, "raise the CPU limit of its container or cgroup, or give it fewer threads");
	f = bare(FINDING_LINK, HANG_NONE, CAUSE_FLAP, 1);
	finding_note_text(&f, EVIDENCE_REMEDY, "reseat the cable");
	assert_remedy_is(&f, "reseat the cable; to confirm it: ranktrace stress rdma");
	f.subject = subject_address("192.0.2.1", "eth0"); /* TCP has the same causes, and no such test */
	assert_remedy_is(&f, "reseat the cable");
	f = bare(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP, 0);
	finding_note_text(&f, EVIDENCE_PYTHON, "train.py:3 load");
	assert_remedy_is(&f, "see what it waits for there: that has to come, or the job has to be restarted");
	finding_note_text(&f, EVIDENCE_WAITS_FOR_REMEDY, "look at child 7");
	assert_remedy_is(&f, "look at child 7");
	f = bare(FINDING_HANG, HANG_PROCESS_DEAD, CAUSE_DEAD, 0);
	finding_note(&f, EVIDENCE_EXIT_CODE, 1);
	assert_remedy_is(&f, "read the end of that rank's log: it ended by itself; the job cannot go on: restart it "
			     "from its checkpoint");
	finding_note(&f, EVIDENCE_EXIT_SIGNAL, 9); /* by somebody, or for want of memory */
	assert_remedy_is(&f, "read that rank's log, and dmesg for the OOM killer; the job cannot go on: restart it "
			     "from its checkpoint");
}

static void assert_sentence_is(const struct finding *f, const char *expected)
{
	char *text = sentence(f);

	assert_string_equal(text, expected);
	free(text);
}

/* Which of several it is is not known: then it is one of them. */
static void test_a_guess(void **state)
{
	struct finding f = bare(FINDING_HANG, HANG_UNKNOWN, CAUSE_ASLEEP, 0);

	(void)state;
	f.has_op = true;
	f.op = OP_ALLREDUCE;
	f.seq = 71;
	finding_add_rank(&f, 5, proc_key(0, 105));
	assert_sentence_is(&f, "ranks 3 and 5 seem to block AllReduce #71: its main thread sleeps outside of NCCL");
	finding_note(&f, EVIDENCE_ONE_OF, 2);
	assert_sentence_is(&f,
			   "one of ranks 3 and 5 seems to block AllReduce #71: its main thread sleeps outside of NCCL");
}

static void test_sentences(void **state)
{
	struct finding f = bare(FINDING_MISMATCH, HANG_NONE, CAUSE_COUNT, 0);

	(void)state;
	f.has_op = true;
	f.op = OP_ALLREDUCE;
	f.seq = 29;
	finding_note(&f, EVIDENCE_COUNT_FOUND, 2097152);
	finding_note(&f, EVIDENCE_COUNT_EXPECTED, 4194304);
	assert_sentence_is(&f, "rank 3 called AllReduce #29 with 2097152, its peers with 4194304 elements");
	finding_add_rank(&f, 5, proc_key(0, 105));
	f.confidence = 0.5;
	assert_sentence_is(&f, "ranks 3 and 5 called AllReduce #29 with 2097152 or 4194304 elements");
	f = bare(FINDING_XID, HANG_NONE, CAUSE_HARDWARE, 0);
	finding_note(&f, EVIDENCE_XID, 79);
	finding_note(&f, EVIDENCE_GPU, 1);
	finding_note_text(&f, EVIDENCE_MEANING, "the GPU has fallen off the bus");
	assert_sentence_is(&f, "GPU 1 (rank 3) reports XID 79: the GPU has fallen off the bus");
	f = bare(FINDING_STRAGGLER, HANG_NONE, CAUSE_GPU_OR_UNKNOWN, 0);
	finding_note(&f, EVIDENCE_GAP_S, 0.0909);
	finding_note(&f, EVIDENCE_STEP_S, 1.26);
	assert_sentence_is(&f,
			   "rank 3 makes its peers wait 91 ms in each step of 1.3 s: most likely its GPU, as nothing "
			   "on its host explains it");
	f = bare(FINDING_HANG, HANG_INIT, CAUSE_NOT_KNOWN, 2);
	finding_note_text(&f, EVIDENCE_CREATION, "Split");
	finding_note(&f, EVIDENCE_COMM_SIZE, 4);
	finding_note(&f, EVIDENCE_N_CALLED, 3);
	assert_sentence_is(&f,
			   "1 of 4 ranks has not joined ncclCommSplit: which is not known; 3 ranks have waited 0.0 s");
	finding_note(&f, EVIDENCE_WAITING_LONGER, 1);
	assert_sentence_is(&f, "1 of 4 ranks has not joined ncclCommSplit: which is not known; 3 ranks have waited at "
			       "least 0.0 s");
	for (int i = 0; i < 4; i++) { /* a state and a share that show it stands in line for a CPU, and others */
		f = bare(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY, 0);
		f.has_op = true;
		f.op = OP_ALLREDUCE;
		f.seq = 71;
		finding_note_text(&f, EVIDENCE_STATE, i == 1 ? "on_cpu" : "runnable");
		if (i < 3)
			finding_note(&f, EVIDENCE_CPU_SHARE, i == 2 ? 0.11 : 0.09);
		assert_sentence_is(
			&f, i ? "rank 3 has not entered AllReduce #71: it computes on the CPU"
			      : "rank 3 has not entered AllReduce #71: it wants to compute and gets hardly any CPU");
	}
	f = bare(FINDING_HANG, HANG_UNKNOWN, CAUSE_NOT_KNOWN, 2);
	f.n_ranks = f.n_ranks_all = 0;
	finding_note_text(&f, EVIDENCE_ELSEWHERE_RANKS, "0,2");
	assert_sentence_is(&f,
			   "ranks 0 and 2 sleep outside of NCCL while all others wait inside: which one they wait for "
			   "is not known");
	f = bare(FINDING_D_STATE, HANG_NONE, CAUSE_D_STATE, 0);
	finding_note(&f, EVIDENCE_CHILD_PID, 77);
	finding_note_text(&f, EVIDENCE_CHILD_NAME, "pt_data_worker");
	finding_note_text(&f, EVIDENCE_SYSCALL, "openat");
	finding_note_text(&f, EVIDENCE_FILE, "/data/x\n");
	finding_note(&f, EVIDENCE_PEERS_WAITING, 1);
	assert_sentence_is(&f,
			   "a child of rank 3 (pid 77, pt_data_worker) is blocked in the kernel (D state) in openat of "
			   "/data/x?; 1 peer has waited 0.0 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_ranks_are_counted),
		cmocka_unit_test(test_finding_of_a_rank),
		cmocka_unit_test(test_every_kind_in_words),
		cmocka_unit_test(test_remedies),
		cmocka_unit_test(test_a_guess),
		cmocka_unit_test(test_sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
