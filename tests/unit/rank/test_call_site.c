/* SPDX-License-Identifier: Apache-2.0
 *
 * test_call_site.c - stacks as the model has them: until when one is of now, which frames are a wait for the GPU, which
 * are NCCL's, when two threads are at one place, what a place is called, and where the others are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/rank/call_site.h"
#include "tests/unit/job/finding_text.h"
#define HAND_RANKS 6
#include "tests/unit/job/hand_known.h"

#define READ (NOW - SEC)
#define p (known[0])

static struct op op;
static struct finding f;
static struct finding_list list;

static void reads(struct task *t, const char *native, const char *python, const char *frames)
{
	t->stack = (struct task_stack){ .ns = READ,
					.wait = "futex",
					.file = "",
					.kernel = "",
					.end = "",
					.native = native,
					.python = python,
					.frames = frames };
}

static int fresh(void **state)
{
	hand_setup(state);
	hand_find();
	for (int r = 0; r < HAND_RANKS; r++)
		reads(&mains[r], "read (libc.so.6)", "a.py:1 load", "read (libc.so.6)\nload (a.py:1)");
	f = (struct finding){ .peer = -1 };
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	hand_lose();
	return 0;
}

/* --- is it of now? --- */

static void until_the_process_moves(void **state)
{
	(void)state;
	assert_ptr_equal(call_site_task(p), &mains[0]);
	p->last_call_ns = READ;
	assert_ptr_equal(call_site_task(p), &mains[0]);
	p->last_call_ns = READ + 1;
	assert_null(call_site_task(p));
	p->last_call_ns = 0;
	members[0].samples = (struct samples){ .moved = true, .since_ns = READ };
	assert_ptr_equal(call_site_task(p), &mains[0]);
	members[0].samples.since_ns++;
	assert_null(call_site_task(p));
	members[0].samples.moved = false;
	assert_ptr_equal(call_site_task(p), &mains[0]);
	members[0].samples.moved = members[0].gone = true;
	assert_ptr_equal(call_site_task(p), &mains[0]);
	mains[0].stack.ns = 0;
	assert_null(call_site_task(p));
	p->tasks = NULL;
	assert_null(call_site_task(p));
}

static void which_thread(void **state)
{
	(void)state;
	reads(&proxies[0], "n", "", "");
	assert_ptr_equal(call_site_thread(p, proxies[0].tid), &proxies[0]);
	assert_ptr_equal(call_site_thread(p, 0), &mains[0]);
	assert_null(call_site_thread(p, 77));
	p->last_call_ns = NOW; /* one rank: what any thread called moved it */
	assert_null(call_site_thread(p, proxies[0].tid));
}

/* Of several ranks in a process each thread moves by its own calls; the main one by all. */
static void threads_of_a_shared_process(void **state)
{
	struct op older = { .tid = proxies[0].tid, .call_ns = READ };

	(void)state;
	p->shared = true;
	p->last_call_ns = NOW;
	reads(&proxies[0], "n", "", "");
	assert_null(call_site_thread(p, 0));
	assert_ptr_equal(call_site_thread(p, proxies[0].tid), &proxies[0]);
	op = (struct op){ .tid = 99, .call_ns = NOW, .prev_in_proc = &older };
	p->last_op = &op;
	assert_ptr_equal(call_site_thread(p, proxies[0].tid), &proxies[0]);
	older.call_ns = READ + 1;
	assert_null(call_site_thread(p, proxies[0].tid));
	op.call_ns = READ; /* what lies behind it is older yet */
	assert_ptr_equal(call_site_thread(p, proxies[0].tid), &proxies[0]);
}

/* --- what it is in --- */

static void waits_for_its_gpu(void **state)
{
	static const struct {
		const char *frames;
		bool waits;
	} cases[] = {
		{ "cuStreamSynchronize (libcuda.so.1)", true },
		{ "ioctl (libc.so.6)\ncuStreamSynchronize (libcuda.so.1)\nsync (a.py:7)", true },
		{ "? cudaDeviceSynchronize_ptsz (libtorch_cuda.so)", true },
		{ "cuMemcpyDtoH_v2 (libcuda.so.1)", true },
		{ "cuMemcpyDtoHAsync_v2 (libcuda.so.1)", false },
		{ "cuMemcpyHtoD_v2 (libcuda.so.1)", false },
		{ "wait_synchronize (libcuda.so.1)", true },
		{ "wait_synchronize (libc.so.6)", false },
		{ "synchronize (a.py:3)", false },
		{ "cuLaunchKernel (libcuda.so.1)", false },
		{ "cuStreamSync (libcuda.so.1)", false },
		{ "custom (a.so)\nSynchronize (b.so)", false },
		{ "ynchronize (libcuda.so.1)", true },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		mains[0].stack.frames = cases[i].frames;
		if (call_site_gpu_wait(p) != cases[i].waits)
			fail_msg("%s", cases[i].frames);
		assert_int_equal(call_site_in_nccl_or_driver(p), strstr(cases[i].frames, "libcuda") || cases[i].waits);
		assert_false(call_site_in_nccl(p));
	}
	mains[0].stack.frames = cases[0].frames;
	p->last_call_ns = NOW;
	assert_false(call_site_gpu_wait(p) || call_site_in_nccl_or_driver(p));
}

static void is_in_nccl(void **state)
{
	static const struct {
		const char *frames;
		bool is;
	} cases[] = {
		{ "ncclAllReduce (train)", true },
		{ "pncclAllReduce (train)", true },
		{ "wait (libnccl.so.2)", true },
		{ "? ncclGroupEnd (x)\nmain (train)", true },
		{ "main (train)\nncclSend (x)", true },
		{ "main (train)\nx (y)", false },
		{ "my_nccl (train)", false },
		{ "read (libnc.so)", false },
		{ "poll (libc.so.6)\n? f (libcuda.so.1)", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		mains[0].stack.frames = cases[i].frames;
		if (call_site_in_nccl_or_driver(p) != cases[i].is)
			fail_msg("%s", cases[i].frames);
		assert_int_equal(call_site_in_nccl(p), cases[i].is && !strstr(cases[i].frames, "libcuda"));
	}
	mains[0].stack.frames = "ioctl (libc.so.6)";
	mains[0].stack.file = "/dev/nvidia0";
	assert_true(call_site_in_nccl_or_driver(p) && !call_site_in_nccl(p));
	mains[0].stack.file = "/dev/nvme0";
	assert_false(call_site_in_nccl_or_driver(p));
}

/* --- two threads --- */

static void two_at_one_place(void **state)
{
	struct task *a = &mains[0], *b = &mains[1];

	(void)state;
	assert_int_equal(call_site_same(a, b), 1);
	b->stack.native = "write (libc.so.6)";
	assert_int_equal(call_site_same(a, b), 0);
	a->stack.frames = b->stack.frames = "cuCtxSynchronize (libcuda.so.1)"; /* whatever is below it */
	assert_int_equal(call_site_same(a, b), 1);
	a->stack.frames = "read (libc.so.6)";
	assert_int_equal(call_site_same(a, b), 0);
	assert_int_equal(call_site_same(b, a), 0);
	a->stack.native = b->stack.native = "";
	b->stack.frames = "read (libc.so.6)";
	assert_int_equal(call_site_same(a, b), 1); /* by their Python lines */
	a->stack.python = "";
	assert_int_equal(call_site_same(a, b), -1);
	assert_int_equal(call_site_same(b, a), -1);
	a->stack.native = "read (libc.so.6)";
	assert_int_equal(call_site_same(a, b), 0);
	known[1]->last_call_ns = NOW;
	assert_int_equal(call_site_same(a, b), -1);
	assert_int_equal(call_site_same(b, a), -1);
}

/* --- words --- */

static const char *said(uint32_t tid)
{
	f = (struct finding){ .peer = -1 };
	call_site_note(&f, &list, p, tid);
	return strstr(finding_text_of(&f), "ranks") + 5;
}

static void what_is_said(void **state)
{
	(void)state;
	mains[0].stack.end = "no rule";
	assert_string_equal(said(0), "\npython a.py:1 load\nnative_frame read (libc.so.6)\nkernel_wait futex\n"
				     "stack read (libc.so.6)\nload (a.py:1)\nstack_end no rule");
	mains[0].stack.file = "/data/x";
	assert_non_null(strstr(said(0), "kernel_wait futex of /data/x\n"));
	mains[0].stack.wait = "";
	assert_non_null(strstr(said(0), "kernel_wait /data/x\n"));
	p->outside.stacks_unread = "no privilege";
	assert_null(strstr(said(0), "privilege"));
	assert_string_equal(said(77), "\nstack_unread no privilege");
}

static void a_wait_is(enum waits_kind kind, uint64_t ns)
{
	mains[0].wait = (struct waits_for){ .ns = ns,
					    .kind = kind,
					    .what = "x",
					    .who = "",
					    .activity = "",
					    .pid = 4,
					    .thread = 5,
					    .since_ns = ns - SEC };
}

static void what_it_waits_for(void **state)
{
	(void)state;
	for (int kind = WAITS_UNKNOWN; kind < WAITS_KIND_MAX; kind++) {
		bool has_file = kind == WAITS_FILE || kind == WAITS_PIPE || kind == WAITS_LOCK;

		a_wait_is(kind, READ);
		assert_ptr_equal(call_site_wait(p, 0), kind ? &mains[0].wait : NULL);
		said(0);
		if (kind == WAITS_UNKNOWN) {
			assert_null(finding_evidence(&f, EVIDENCE_WAITS_FOR_KIND));
			continue;
		}
		assert_string_equal(finding_text(&f, EVIDENCE_WAITS_FOR_KIND), waits_kind_name(kind));
		assert_int_equal(!!finding_evidence(&f, EVIDENCE_WAITS_FOR_PEER), kind == WAITS_SOCKET);
		assert_int_equal(!!finding_evidence(&f, EVIDENCE_WAITS_FOR_QUIET_S), kind == WAITS_SOCKET);
		assert_int_equal(!!finding_evidence(&f, EVIDENCE_WAITS_FOR_FILE), has_file);
		assert_int_equal((int)finding_number(&f, EVIDENCE_WAITS_FOR_PID), 4);
		assert_int_equal((int)finding_number(&f, EVIDENCE_WAITS_FOR_TID), 5);
		assert_null(finding_evidence(&f, EVIDENCE_WAITS_FOR_MOVES));
	}
	a_wait_is(WAITS_SOCKET, READ);
	said(0);
	assert_true(finding_number(&f, EVIDENCE_WAITS_FOR_QUIET_S) == 1);
	mains[0].wait.since_ns = 0;
	mains[0].wait.pid = mains[0].wait.thread = 0;
	mains[0].wait.flags = WAITS_MOVES;
	said(0);
	assert_null(finding_evidence(&f, EVIDENCE_WAITS_FOR_QUIET_S));
	assert_null(finding_evidence(&f, EVIDENCE_WAITS_FOR_PID));
	assert_null(finding_evidence(&f, EVIDENCE_WAITS_FOR_TID));
	assert_true(finding_number(&f, EVIDENCE_WAITS_FOR_MOVES) == 1);
	mains[0].wait.flags = WAITS_STANDS;
	said(0);
	assert_non_null(finding_evidence(&f, EVIDENCE_WAITS_FOR_MOVES));
	assert_true(finding_number(&f, EVIDENCE_WAITS_FOR_MOVES) == 0);
	p->last_call_ns = READ + 1;
	assert_null(call_site_wait(p, 0));
	p->last_call_ns = 0;
	mains[0].stack.frames = "cuStreamSynchronize (libcuda.so.1)"; /* whichever way the driver sleeps */
	said(0);
	assert_null(finding_evidence(&f, EVIDENCE_WAITS_FOR));
	assert_null(call_site_wait(p, 77));
}

static void a_line(void **state)
{
	char text[64] = "in ";

	(void)state;
	call_site_line(text, sizeof(text), p, 0);
	assert_string_equal(text, "in read (libc.so.6), a.py:1 load");
	mains[0].stack.python = "";
	text[0] = 0;
	call_site_line(text, sizeof(text), p, 0);
	assert_string_equal(text, "read (libc.so.6)");
	mains[0].stack.python = "a.py:1 load";
	mains[0].stack.native = "";
	text[0] = 0;
	call_site_line(text, sizeof(text), p, 0);
	assert_string_equal(text, "a.py:1 load");
	text[0] = 0;
	call_site_line(text, sizeof(text), p, 77);
	assert_string_equal(text, "");
}

/* The program's own line that is nearest, else any of Python, else none of it. */
static void its_name(void **state)
{
	static const char *const cases[][2] = {
		{ "read (libc.so.6)\nckpt (/job/real.py:31)\nmain (/job/main.py:9)", "/job/real.py:31 ckpt" },
		{ "? ckpt (/job/real.py:31)", "/job/real.py:31 ckpt" },
		{ "wait (/usr/lib/python3.11/threading.py:3)\nckpt (/job/real.py:31)", "/job/real.py:31 ckpt" },
		{ "wait (/v/site-packages/x.py:3)\nckpt (/job/real.py:31)", "/job/real.py:31 ckpt" },
		{ "wait (/v/dist-packages/x.py:3)\nckpt (/job/real.py:31)", "/job/real.py:31 ckpt" },
		{ "wait (/usr/lib64/python3/x.py:3)\nckpt (/job/real.py:31)", "/job/real.py:31 ckpt" },
		{ "wait (<frozen importlib>)\nckpt (/job/real.py:31)", "/job/real.py:31 ckpt" },
		{ "wait (<x>.py:4)", "a.py:1 load" },
		{ "f (g) (/job/a.py:2)", "/job/a.py:2 f (g)" },
		{ "(/job/a.py:2)", "a.py:1 load" },
		{ "x(/job/a.py:2)\n", "a.py:1 load" },
		{ " (/job/a.py:2)", "a.py:1 load" },
		{ "ab (/job/a.py:2", "a.py:1 load" },
		{ "read (libc.so.6)\nno bracket", "a.py:1 load" },
		{ "a (/job/a.pyc)", "a.py:1 load" },
		{ "", "a.py:1 load" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		mains[0].stack.frames = cases[i][0];
		text[0] = 0;
		call_site_name(text, sizeof(text), &mains[0]);
		if (strcmp(text, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], text);
	}
	mains[0].stack.python = "";
	text[0] = 0;
	call_site_name(text, sizeof(text), &mains[0]);
	assert_string_equal(text, "read (libc.so.6)");
}

/* --- the others --- */

static const char *others(int n_named)
{
	f = (struct finding){ .peer = -1 };
	for (int r = 0; r < n_named; r++)
		finding_add_rank(&f, r, known[r]->key);
	call_site_note_others(&f, &list, &m);
	return finding_text(&f, EVIDENCE_WAITING_IN);
}

#define AT " others: read (libc.so.6), a.py:1 load"

static void where_the_others_are(void **state)
{
	(void)state;
	assert_string_equal(others(1), "5 of 5" AT);
	assert_string_equal(others(2), "4 of 4" AT);
	assert_string_equal(others(0), "6 of 6" AT);
	assert_null(others(6));
	mains[1].stack.native = "write (libc.so.6)";
	mains[2].stack.python = "a.py:2 load";
	assert_string_equal(others(1), "3 of 5" AT);
	mains[3].stack.native = "write (libc.so.6)";
	mains[4].stack.native = "write (libc.so.6)";
	assert_string_equal(others(1), "3 of 5 others: write (libc.so.6), a.py:1 load");
	mains[4].stack.native = "open (libc.so.6)"; /* two, one, one, one */
	assert_string_equal(others(1), "2 of 5 others: write (libc.so.6), a.py:1 load");
}

static void who_is_another(void **state)
{
	(void)state;
	known[1]->dead = true;
	assert_string_equal(others(1), "4 of 4" AT);
	known[2]->is_child = true;
	assert_string_equal(others(1), "3 of 3" AT);
	known[3]->job = hand_other_job;
	assert_string_equal(others(1), "2 of 2" AT);
	assert_string_equal(others(0), "4 of 4" AT); /* of no job that is known: all */
	known[4]->rank = -1;
	assert_string_equal(others(1), "2 of 2" AT); /* it has a communicator */
	known[4]->members = NULL;
	assert_string_equal(others(1), "1 of 1" AT);
	known[5]->last_call_ns = NOW;
	assert_null(others(1));
	known[5]->last_call_ns = 0;
	mains[5].stack.native = mains[5].stack.python = "";
	assert_null(others(1));
	mains[5].stack.python = "a.py:1 load";
	assert_string_equal(others(1), "1 of 1 others: a.py:1 load");
}

#undef p
int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(until_the_process_moves),
		TEST(which_thread),
		TEST(threads_of_a_shared_process),
		TEST(waits_for_its_gpu),
		TEST(is_in_nccl),
		TEST(two_at_one_place),
		TEST(what_is_said),
		TEST(what_it_waits_for),
		TEST(a_line),
		TEST(its_name),
		TEST(where_the_others_are),
		TEST(who_is_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
