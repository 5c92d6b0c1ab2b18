/* SPDX-License-Identifier: Apache-2.0
 *
 * test_config_file.c - a configuration file: keys are the long options' names; what is wrong is reported with file and
 * line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "session/config/config_file.h"

static struct session_args args;
static char path[64], error[1200];

static int own_set(void *of, const char *name, const char *value, char *to, size_t size)
{
	if (strcmp(name, "own"))
		return -ENOENT;
	if (strcmp(value, "good")) {
		snprintf(to, size, "'%s' is not good", value);
		return -EINVAL;
	}
	*(int *)of += 1;
	return 0;
}

static char messages[4096];

static void message_keep(void *of, const char *message)
{
	(void)of;
	strncat(messages, message, sizeof(messages) - strlen(messages) - 1);
	strncat(messages, "\n", sizeof(messages) - strlen(messages) - 1);
}

/* `all`: with a message of each line, not of the first. */
static int load_how(const char *text, int *own, bool all)
{
	struct config_keys keys = {
		.set = own_set, .of = own, .names = { "own" }, .n_names = 1, .wrong = all ? message_keep : NULL
	};
	FILE *f;
	int fd, err;

	strcpy(path, "/tmp/ranktrace-config-XXXXXX");
	fd = mkstemp(path);
	f = fdopen(fd, "w");
	fputs(text, f);
	fclose(f);
	config_values_free(&args);
	memset(&args, 0, sizeof(args));
	session_args_init(&args, TIER_WATCH);
	err = config_file_read(&args, path, &keys, error, sizeof(error));
	unlink(path);
	return err;
}

static int load(const char *text, int *own)
{
	return load_how(text, own, false);
}

static void keys_are_options(void **state)
{
	int own = 0;

	(void)state;
	assert_int_equal(
		load("# a comment\n\n hang-limit = 2.5 # another\njob=train-7\npid = 12\npid = 13\njson = yes\n"
		     "ring-size = 131072\noutput = /a b/x.rtr\nown = good\nduration = 60\nbudget = 2.5\nbudget-node "
		     "= no\n",
		     &own),
		0);
	assert_int_equal(args.session.budget_ppm, 25000);
	assert_true(args.budget_given && args.budget_node_given && !args.session.budget_node_ppm);
	assert_int_equal(own, 1);
	assert_int_equal(args.session.hang_floor_ns, 2500000000ull);
	assert_int_equal(args.session.duration_ns, 60000000000ull);
	assert_string_equal(args.session.job, "train-7");
	assert_int_equal(args.session.n_pids, 2);
	assert_int_equal(args.session.pids[1], 13);
	assert_true(args.json);
	assert_int_equal(args.session.ring_bytes, 131072);
	assert_int_equal(args.outputs.n, 1);
	assert_string_equal(args.outputs.paths[0], "/a b/x.rtr");
	assert_int_equal(args.session.tier, TIER_WATCH);
}

static int values_free(void **state)
{
	(void)state;
	config_values_free(&args);
	return 0;
}

static void expect_error(const char *text, const char *place, const char *words)
{
	int own = 0;
	char where[96];

	assert_true(load(text, &own) < 0);
	snprintf(where, sizeof(where), "%s%s", path, place);
	assert_non_null(strstr(error, where));
	assert_non_null(strstr(error, words));
}

static void errors_have_file_line_and_remedy(void **state)
{
	(void)state;
	expect_error("hang-limit = 2\nhang-limt = 3\n",
		     ":2: ", "'hang-limt' is not a setting (did you mean hang-limit?); settings are pid, job, ");
	expect_error("hang-limt = 3\n", ":1: ", ", verbose, own");
	expect_error("on = 3\n", ":1: ", "'on' is not a setting (did you mean own?); settings");
	expect_error("colour = red\n", ":1: ", "'colour' is not a setting; settings are");
	expect_error("output = run.txt\n", ":1: output: ", "'run.txt': unknown suffix; use .pftrace, .rtr, ");
	expect_error("budget = a lot\n", ":1: ", "neither 'no' nor a percentage of a core");
	expect_error("budget-node = 0\n", ":1: ", "neither 'no' nor a percentage of a core");
	expect_error("budget = 2 %\n", ":1: ", "neither 'no' nor a percentage of a core");
	expect_error("hang-limit = soon\n", ":1: ", "'soon' is not a number of seconds above 0");
	expect_error("\n\njust words\n", ":3: ", "'just words' is not 'key = value'");
	expect_error("json = maybe\n", ":1: ", "neither 'yes' nor 'no'");
	expect_error("ring-size = 70000\n", ":1: ", "not a power of two");
	expect_error("own = bad\n", ":1: ", "'bad' is not good");
	expect_error("pid = 0\n", ":1: ", "not a process id");
	expect_error("rotate = 500\n", ":1: ", "neither a size (500M, 2G) nor a time (30min, 12h, 7d)");
	expect_error("rotate = 5k\n", ":1: ", "less than 100k or 1s");
	expect_error("rotate = nanG\n", ":1: ", "less than 100k or 1s");
	expect_error("rotate = 75600000T\n", ":1: ", "more than 1000T or 3650d");
	expect_error("rotate = 3651d\n", ":1: ", "more than 1000T or 3650d");
	expect_error("keep = 0\n", ":1: ", "not a number from 1 to 999");
}

static void every_wrong_line_is_reported(void **state)
{
	int own = 0;
	char expected[256];

	(void)state;
	messages[0] = '\0';
	assert_int_equal(load_how("keep = 3\njson = maybe\nown = good\nhang-limit = -1\n", &own, true), -EINVAL);
	snprintf(expected, sizeof(expected), "%s:2: json: 'maybe' is neither 'yes' nor 'no'\n", path);
	assert_memory_equal(messages, expected, strlen(expected));
	snprintf(expected, sizeof(expected), "%s:4: hang-limit: '-1' is not a number of seconds above 0\n", path);
	assert_string_equal(messages + strlen(messages) - strlen(expected), expected);
	assert_int_equal(own, 1);
	assert_int_equal(args.outputs.rules.keep, 3);
}

/* Not read as two lines, of which the second is what its end happens to be. */
static void a_line_that_is_too_long(void **state)
{
	static char text[6000];
	int own = 0;

	(void)state;
	memset(text, ' ', sizeof(text) - 1);
	memcpy(text, "job = a", 7);
	strcpy(text + 5000, "own = good\nown = good\n");
	messages[0] = '\0';
	assert_int_equal(load_how(text, &own, true), -EINVAL);
	assert_non_null(strstr(messages, ":1: a line of more than 4094 bytes"));
	assert_int_equal(own, 1);
}

static void a_size_and_a_time_for_new_files(void **state)
{
	int own = 0;

	(void)state;
	assert_int_equal(load("rotate = 1.5G\nrotate = 12h\nkeep = 7\n", &own), 0);
	assert_int_equal(args.outputs.rules.rotate_bytes, 1500000000);
	assert_int_equal(args.outputs.rules.rotate_ns, 43200 * 1000000000ull);
	assert_int_equal(args.outputs.rules.keep, 7);
}

static void no_such_file(void **state)
{
	(void)state;
	assert_int_equal(config_file_read(&args, "/nowhere/x.conf", NULL, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "/nowhere/x.conf: No such file"));
	assert_int_equal(config_file_read(&args, "/tmp", NULL, error, sizeof(error)), -EISDIR);
	assert_non_null(strstr(error, "/tmp: Is a directory; give a readable file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_options),
		cmocka_unit_test(errors_have_file_line_and_remedy),
		cmocka_unit_test(no_such_file),
		cmocka_unit_test(every_wrong_line_is_reported),
		cmocka_unit_test(a_line_that_is_too_long),
		cmocka_unit_test(a_size_and_a_time_for_new_files),
	};

	return cmocka_run_group_tests(tests, NULL, values_free);
}
