/* SPDX-License-Identifier: Apache-2.0
 *
 * test_settings.c - lines of settings: put, replaced, taken out, read, whatever they hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/settings.h"

static char text[SETTINGS_BYTES];
static char seen[2048];

static int note(void *of, const char *name, const char *value)
{
	(void)of;
	strcat(strcat(strcat(strcat(seen, name), " "), value), ";");
	return 0;
}

static int refuse(void *of, const char *name, const char *value)
{
	(void)name;
	(void)value;
	++*(int *)of;
	return -7;
}

static int begin(void **state)
{
	(void)state;
	memset(text, 0, sizeof(text));
	memset(seen, 0, sizeof(seen));
	return 0;
}

static void one_of_each_name(void **state)
{
	(void)state;
	assert_true(setting_put(text, "hang-limit", "2"));
	assert_true(setting_put(text, "raise", "no"));
	assert_true(setting_put(text, "hang-limit", "3"));
	assert_string_equal(text, "raise=no\nhang-limit=3\n");
	assert_true(setting_put(text, "raise", NULL));
	assert_true(setting_put(text, "busy-limit", NULL));
	assert_string_equal(text, "hang-limit=3\n");
}

static void a_name_is_not_the_begin_of_another(void **state)
{
	(void)state;
	assert_true(setting_put(text, "budget-node", "4"));
	assert_true(setting_put(text, "budget", "2"));
	assert_string_equal(text, "budget-node=4\nbudget=2\n");
}

static void what_is_no_line_is_passed_over(void **state)
{
	(void)state;
	settings_each("hang-limit=2\nrubbish\n=\nflight=/etc\nraise=a=b\nbusy-limit=9", note, NULL);
	assert_string_equal(seen, "hang-limit 2;raise a=b;busy-limit 9;");
}

static void it_ends_where_one_is_refused(void **state)
{
	int n = 0;

	(void)state;
	assert_int_equal(settings_each("raise=no\nraise=yes\n", refuse, &n), -7);
	assert_int_equal(n, 1);
}

/* Who may write settings may write anything: no line is longer than the room, and no value ends a line. */
static void what_does_not_fit_changes_nothing(void **state)
{
	static char long_value[SETTINGS_BYTES];

	(void)state;
	memset(long_value, 'x', sizeof(long_value) - 1);
	assert_true(setting_put(text, "raise", "no"));
	assert_false(setting_put(text, "hang-limit", long_value));
	assert_false(setting_put(text, "hang-limit", "2\npaused=yes"));
	assert_string_equal(text, "raise=no\n");
	memset(text, 'y', sizeof(text) - 1);
	settings_each(text, note, NULL);
	assert_string_equal(seen, "");
}

static void the_names_are_known(void **state)
{
	(void)state;
	assert_true(setting_is_known("hang-limit"));
	assert_false(setting_is_known("flight"));
	assert_false(setting_is_known(""));
	assert_non_null(strstr(settings_names(), "hang-limit, busy-limit"));
	assert_non_null(strstr(settings_names(), "paused"));
}

#define CASE(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(one_of_each_name),
		CASE(a_name_is_not_the_begin_of_another),
		CASE(what_is_no_line_is_passed_over),
		CASE(it_ends_where_one_is_refused),
		CASE(what_does_not_fit_changes_nothing),
		CASE(the_names_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
