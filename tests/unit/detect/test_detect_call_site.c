/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_call_site.c - stacks in verdicts: what the culprit does, what the others wait in, and who is a culprit at
 * all, where system calls look alike.
 */
#include "tests/unit/job/outside_samples.h"

#include "detect/rank/call_site.h"

#define GPU_STACK "ioctl (libc.so.6)\n?? (libcuda.so.1)\ncuStreamSynchronize (libcuda.so.1)\nsync (train.py:7)"

static void stacks_set(int odd, const char *python, const char *native, const char *frames)
{
	for (int r = 0; r < RANKS; r++) {
		stack_of[r].python = r == odd ? python : "/job/train.py:7 sync";
		stack_of[r].native = r == odd ? native : "cuStreamSynchronize (libcuda.so.1)";
		stack_of[r].frames = r == odd ? frames : GPU_STACK;
	}
}

/* Both in a futex; what called it distinguishes them. */
static void who_stands_elsewhere_is_the_root(void **state)
{
	(void)state;
	stacks_set(3, "/job/data.py:41 fetch", "lock_wait (libdata.so)",
		   "lock_wait (libdata.so)\nfetch (/job/data.py:41)");
	two_groups();
	assert_int_equal(only()->ranks[0], 3);
	assert_true(only()->confidence > 0.8);
}

static void what_it_does_is_reported(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };
	const struct finding *f;

	(void)state;
	who();
	at[2].syscall = "openat";
	stacks_set(2, "/job/ckpt.py:9 save", "PyOS_fopen (python3.12)", "openat (libc.so.6)\nsave (/job/ckpt.py:9)");
	for (int i = 0; i < 2; i++) {
		world(n);
		tick();
	}
	f = only();
	assert_string_equal(text_of(f, "python"), "/job/ckpt.py:9 save");
	assert_string_equal(text_of(f, "native_frame"), "PyOS_fopen (python3.12)");
	assert_string_equal(text_of(f, "kernel_wait"), "openat");
	assert_string_equal(text_of(f, "stack"), "openat (libc.so.6)\nsave (/job/ckpt.py:9)");
	assert_string_equal(text_of(f, "waiting_in"),
			    "3 of 3 others: cuStreamSynchronize (libcuda.so.1), /job/train.py:7 sync");
}

static void wait_give(int r, enum waits_kind kind, uint64_t ns)
{
	struct event e = job_event(EV_WAIT, r, 0);

	e.tid = e.tgid;
	e.wait = (struct waits_for){
		.ns = ns,
		.kind = kind,
		.flags = WAITS_STANDS,
		.since_ns = ns - 2000 * MSEC,
		.what = "10.0.0.7:443",
		.who = "",
		.activity = "",
	};
	give(e);
}

static void what_it_waits_for_is_reported(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 }, later[] = { 15, 15, 14, 15 };

	(void)state;
	who();
	stacks_set(2, "/job/ckpt.py:9 save", "ssl_read (libssl.so.3)", "recv (libc.so.6)\nsave (/job/ckpt.py:9)");
	for (int i = 0; i < 2; i++) {
		world(n);
		wait_give(2, WAITS_SOCKET, now);
		tick();
	}
	assert_string_equal(text_of(only(), "waits_for"), "waits for an answer of 10.0.0.7:443 (no byte for 2 s)");
	assert_string_equal(text_of(only(), "waits_for_kind"), "socket");
	assert_string_equal(text_of(only(), "waits_for_peer"), "10.0.0.7:443");
	assert_true(finding_number(only(), EVIDENCE_WAITS_FOR_QUIET_S) == 2);
	assert_non_null(finding_evidence(only(), EVIDENCE_WAITS_FOR_MOVES));
	assert_null(finding_evidence(only(), EVIDENCE_WAITS_FOR_PID));
	wait_give(2, WAITS_UNKNOWN, now); /* it ran when it was read again */
	tick();
	assert_null(text_of(only(), "waits_for"));
	wait_give(2, WAITS_SOCKET, now - 1);
	for (int i = 0; i < 2; i++) { /* it went on since */
		world(later);
		tick();
	}
	assert_null(text_of(only(), "waits_for"));
}

/* The driver's way to sleep says nothing. */
/* An address, or a file: by what it waits for. */
static void what_a_wait_leads_to_has_its_place(void **state)
{
	static const struct {
		enum waits_kind kind;
		bool is_peer, is_file;
	} kinds[] = { { WAITS_SOCKET, true, false }, { WAITS_FILE, false, true },   { WAITS_PIPE, false, true },
		      { WAITS_LOCK, false, true },   { WAITS_CHILD, false, false }, { WAITS_TIMER, false, false } };
	struct finding_list found = { 0 };
	struct task t = { .tid = 7, .tgid = 7 };
	struct proc p = { .tgid = 7, .tasks = &t };

	(void)state;
	t.proc = &p;
	t.stack = (struct task_stack){ 1, false, "", "", "", "f (x)", "", "f (x)", "" };
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct finding f = { 0 };

		t.wait = (struct waits_for){ .ns = 1,
					     .kind = kinds[i].kind,
					     .what = "there",
					     .who = "",
					     .activity = "",
					     .pid = 5,
					     .thread = 6 };
		call_site_note(&f, &found, &p, 0);
		assert_int_equal(text_of(&f, "waits_for_peer") != NULL, kinds[i].is_peer);
		assert_int_equal(text_of(&f, "waits_for_file") != NULL, kinds[i].is_file);
		assert_int_equal(finding_number(&f, EVIDENCE_WAITS_FOR_PID), 5);
		assert_int_equal(finding_number(&f, EVIDENCE_WAITS_FOR_TID), 6);
	}
	finding_list_free(&found);
}

static void a_wait_for_the_gpu_has_no_other_name(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };

	(void)state;
	who();
	stacks_set(2, "/job/train.py:30 forward", "cuStreamSynchronize (libcuda.so.1)", GPU_STACK);
	for (int i = 0; i < 6; i++) {
		world(n);
		wait_give(2, WAITS_CONDITION, now);
		tick();
	}
	assert_string_equal(cause_name(only()->cause), "gpu_not_returning");
	assert_null(text_of(only(), "waits_for"));
}

/* Rank 2 is late, and another process sits in poll. */
static void late_beside(int rank, int ranks, const char *job)
{
	const uint64_t n[] = { 12, 12, 11, 12 };
	struct event who_e = job_proc_event(rank, ranks, 0), task, stack;

	who();
	who_e.proc.job = job;
	task = job_event(EV_TASK, 0, 0);
	task.task.state = TASK_SLEEP;
	stack = job_event(EV_STACK, 0, 0);
	stack.stack.wait = stack.stack.native = stack.stack.frames = "poll";
	stack.stack.file = stack.stack.kernel = stack.stack.end = stack.stack.python = "";
	who_e.tgid = who_e.tid = task.tgid = task.tid = stack.tgid = stack.tid = 40;
	stacks_set(2, "/job/ckpt.py:9 save", "PyOS_fopen (python3.12)", "openat (libc.so.6)");
	give(who_e);
	for (int i = 0; i < 2; i++) {
		give(task);
		give(stack);
		world(n);
		tick();
	}
	assert_string_equal(text_of(only(), "waiting_in"),
			    "3 of 3 others: cuStreamSynchronize (libcuda.so.1), /job/train.py:7 sync");
}

/* A launcher waits for its ranks: nobody asks where. */
static void a_launcher_is_no_peer(void **state)
{
	(void)state;
	late_beside(-1, -1, "");
}

static void a_rank_of_another_job_is_no_peer(void **state)
{
	(void)state;
	late_beside(0, 8, "other");
}

/* Behind, and in a wait for its GPU: that may be a long step, for a while. */
static void a_gpu_that_does_not_return(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };

	(void)state;
	who();
	stacks_set(2, "/job/train.py:30 forward", "cuStreamSynchronize (libcuda.so.1)", GPU_STACK);
	for (int i = 0; i < 6; i++) {
		world(n);
		tick();
		assert_int_equal(list.n, i >= 3);
	}
	assert_int_equal(only()->kind, FINDING_HANG);
	assert_int_equal(only()->ranks[0], 2);
	assert_string_equal(cause_name(only()->cause), "gpu_not_returning");
}

static void unread_stacks_are_reported(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };
	struct event e;

	(void)state;
	who();
	for (int i = 0; i < 2; i++) {
		world(n);
		e = job_event(EV_STACK, 2, 0);
		e.tid = e.tgid;
		e.stack.unread = true;
		e.stack.end = "not read in time";
		give(e);
		tick();
	}
	assert_string_equal(text_of(only(), "stack_unread"), "not read in time");
	assert_null(text_of(only(), "stack"));
}

/* Where it stood for an earlier hang. */
static void a_stack_from_before_it_went_on_is_not_reported(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 }, later[] = { 15, 15, 14, 15 };

	(void)state;
	who();
	stacks_set(2, "/job/ckpt.py:9 save", "PyOS_fopen (python3.12)", "openat (libc.so.6)\nsave (/job/ckpt.py:9)");
	for (int i = 0; i < 2; i++) {
		world(n);
		tick();
	}
	assert_string_equal(text_of(only(), "python"), "/job/ckpt.py:9 save");
	for (int r = 0; r < RANKS; r++)
		stack_of[r].native = NULL;
	for (int i = 0; i < 2; i++) {
		world(later);
		tick();
	}
	assert_int_equal(only()->ranks[0], 2);
	assert_null(text_of(only(), "python"));
	assert_null(text_of(only(), "waiting_in"));
}

/* A live session reads the stack of what it has reported; that its culprit waits for its GPU neither takes the verdict
 * back nor makes a hang of one who works. */
static void a_stack_that_comes_later_is_evidence_only(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };

	(void)state;
	for (int busy = 0; busy < 2; busy++) {
		if (busy) {
			end(state);
			start(state);
			at[2].state = TASK_RUNNABLE;
		}
		who();
		for (int i = 0; i < 8; i++) {
			if (i == 3)
				stacks_set(2, "/job/train.py:30 forward", "cuStreamSynchronize (libcuda.so.1)",
					   GPU_STACK);
			world(n);
			tick();
			if (i < 2)
				continue;
			assert_int_equal(only()->kind, busy ? FINDING_OBSERVATION : FINDING_HANG);
			assert_string_equal(cause_name(only()->cause), !busy ? "asleep" : i < 3 ? "busy" : "gpu");
			assert_true(!text_of(only(), "native_frame") == (i < 3));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_stands_elsewhere_is_the_root),
		TEST(what_it_does_is_reported),
		TEST(what_it_waits_for_is_reported),
		TEST(what_a_wait_leads_to_has_its_place),
		TEST(a_wait_for_the_gpu_has_no_other_name),
		TEST(a_launcher_is_no_peer),
		TEST(a_rank_of_another_job_is_no_peer),
		TEST(a_gpu_that_does_not_return),
		TEST(unread_stacks_are_reported),
		TEST(a_stack_from_before_it_went_on_is_not_reported),
		TEST(a_stack_that_comes_later_is_evidence_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
