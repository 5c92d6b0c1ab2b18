/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stack_group.c - equal stacks of ranks as one, minority first; and a thread's frames as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "inspect/stack/stack.h"
#include "sink/stack_group.h"

static void minority_first(void **state)
{
	/* Ranks 0..3: all but rank 2 wait in "b"; each has three threads in "pool", rank 1 one more. */
	static const struct stack_item items[] = {
		{ "b", 3, 13, 13 },    { "b", 0, 10, 10 },    { "b", 1, 11, 11 },
		{ "a", 2, 12, 12 },    { "pool", 0, 10, 20 }, { "pool", 2, 12, 23 },
		{ "pool", 1, 11, 22 }, { "pool", 3, 13, 24 }, { "pool", 1, 11, 21 },
	};
	size_t order[9];
	struct stack_group g[9];

	(void)state;
	assert_int_equal(stack_groups_make(items, 9, order, g), 3);
	assert_true(g[0].n == 1 && g[0].n_ranks == 1 && items[order[g[0].first]].rank == 2);
	assert_true(g[1].n == 3 && g[1].n_ranks == 3);
	assert_true(g[2].n == 5 && g[2].n_ranks == 4);
	for (int i = 0; i < 3; i++)
		assert_int_equal(items[order[g[1].first + i]].rank, ((int[]){ 0, 1, 3 })[i]);
	for (int i = 0; i < 5; i++)
		assert_int_equal(items[order[g[2].first + i]].tid, ((int[]){ 20, 21, 22, 23, 24 })[i]);
	assert_int_equal(stack_groups_make(items, 0, order, g), 0);
}

/* Processes that are no ranks count each for itself; of groups as large, the one of the lowest rank is first. */
static void ties_and_strangers(void **state)
{
	static const struct stack_item items[] = {
		{ "x", -1, 50, 50 }, { "x", -1, 50, 51 },  { "x", -1, 60, 60 },
		{ "late", 5, 5, 5 }, { "early", 1, 1, 1 },
	};
	size_t order[5];
	struct stack_group g[5];

	(void)state;
	assert_int_equal(stack_groups_make(items, 5, order, g), 3);
	assert_string_equal(items[order[g[0].first]].text, "early");
	assert_string_equal(items[order[g[1].first]].text, "late");
	assert_true(g[2].n == 3 && g[2].n_ranks == 2);
}

static struct stack_native_frame native[] = {
	{ .func = "read", .module = "libc.so.6" },
	{ .func = "_PyEval_EvalFrameDefault.cold", .module = "python" },
	{ .func = "call", .module = "python", .guessed = 1 },
	{ .func = "_PyEval_EvalFrameDefault", .module = "python", .guessed = 1 },
	{ .func = "", .module = "python", .guessed = 1 },
};
static struct stack_python_frame python[] = {
	{ .func = "a", .file = "f.py", .line = 1 },
	{ .func = "b", .file = "f.py", .line = 0, .is_entry = 1 },
	{ .func = "c", .file = "f.py", .line = 3, .is_entry = 1 },
};

static void python_in_its_place(void **state)
{
	struct stack_thread t = { .native = native, .n_native = 5, .python = python, .n_python = 3 };
	char text[512];

	(void)state;
	assert_int_equal(stack_thread_text(&t, text, sizeof(text)), 6);
	assert_string_equal(text, "read (libc.so.6)\na (f.py:1)\nb (f.py)\n? call (python)\nc (f.py:3)\n? ?? (python)");
	/* A native stack that ends early still shows all of Python, one without Python shows the loop itself. */
	t.n_native = 2;
	stack_thread_text(&t, text, sizeof(text));
	assert_string_equal(text, "read (libc.so.6)\na (f.py:1)\nb (f.py)\nc (f.py:3)");
	t.n_python = 0;
	stack_thread_text(&t, text, sizeof(text));
	assert_string_equal(text, "read (libc.so.6)\n_PyEval_EvalFrameDefault.cold (python)");
	/* Whole lines only. */
	assert_int_equal(stack_thread_text(&t, text, 20), 1);
	assert_string_equal(text, "read (libc.so.6)");
	assert_int_equal(stack_thread_text(&t, text, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(minority_first),
		cmocka_unit_test(ties_and_strangers),
		cmocka_unit_test(python_in_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
