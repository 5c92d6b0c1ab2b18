// SPDX-License-Identifier: Apache-2.0
/* test_intern.c - one copy of each string, and never more memory than the limit: what came before it stays known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/intern.h"

static void test_one_copy_each(void **state)
{
	struct intern *t = intern_new();
	char a[] = "rank", b[] = "rank";

	(void)state;
	assert_ptr_equal(intern(t, a), intern(t, b));
	assert_ptr_equal(intern(t, a), intern_bytes(t, "ranks", 4));
	assert_ptr_equal(intern(t, a), intern_bytes(t, "rank\0s", 6));
	assert_string_equal(intern(t, NULL), "");
	assert_ptr_not_equal(intern(t, a), a);
	intern_free(t);
}

static void test_memory_ends_at_the_limit(void **state)
{
	struct intern *t = intern_new();
	const char *first = intern(t, "the first");
	char text[4096];
	size_t kept = 0, i;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	for (i = 0; i < 3 * INTERN_BYTES_MAX / sizeof(text); i++) {
		snprintf(text, 16, "%zu", i);
		text[strlen(text)] = 'x';
		kept += strcmp(intern(t, text), INTERN_FULL) != 0;
	}
	assert_in_range(kept, INTERN_BYTES_MAX / sizeof(text) * 9 / 10, INTERN_BYTES_MAX / sizeof(text));
	assert_ptr_equal(intern(t, "the first"), first);
	memset(text, 'y', sizeof(text) - 1);
	assert_string_equal(intern(t, text), INTERN_FULL);
	intern_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_copy_each),
		cmocka_unit_test(test_memory_ends_at_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
