/* SPDX-License-Identifier: Apache-2.0
 *
 * test_output_file.c - under which name an output is written, and what becomes of the file that it replaces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/output_file.h"

static char folder[] = "/tmp/ranktrace-output-XXXXXX";
static char paths[8][64];
static int used;

static const char *at(const char *name)
{
	char *path = paths[used++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void text_put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect_text(const char *path, const char *text)
{
	char got[64] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_non_null(fgets(got, sizeof(got), f));
	fclose(f);
	assert_string_equal(got, text);
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

/* A killed session leaves it under its own name. */
static void new_file_is_written_at_once(void **state)
{
	struct output_file f;

	(void)state;
	assert_int_equal(output_file_begin(&f, at("new.rtr")), 0);
	assert_string_equal(f.name, at("new.rtr"));
	assert_null(f.replaces);
	text_put(f.name, "new");
	assert_int_equal(output_file_commit(&f), 0);
	output_file_free(&f);
	expect_text(at("new.rtr"), "new");
}

static void old_file_stays_until_its_successor_is_complete(void **state)
{
	struct output_file f;
	struct stat st;

	(void)state;
	text_put(at("old.rtr"), "old");
	chmod(at("old.rtr"), 0640);
	assert_int_equal(output_file_begin(&f, at("old.rtr")), 0);
	assert_string_equal(f.name, at("old.rtr.part"));
	text_put(f.name, "new");
	expect_text(at("old.rtr"), "old");
	assert_int_equal(output_file_commit(&f), 0);
	output_file_free(&f);
	expect_text(at("old.rtr"), "new");
	assert_false(exists(at("old.rtr.part")));
	assert_int_equal(stat(at("old.rtr"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
}

/* What a killed session left may be what this one reads. */
static void no_part_is_overwritten(void **state)
{
	struct output_file f;

	(void)state;
	text_put(at("twice.rtr"), "old");
	text_put(at("twice.rtr.part"), "of a killed session");
	assert_int_equal(output_file_begin(&f, at("twice.rtr")), 0);
	assert_string_equal(f.name, at("twice.rtr.part2"));
	assert_int_equal(output_file_commit(&f), 0);
	output_file_free(&f);
	expect_text(at("twice.rtr.part"), "of a killed session");
}

static void link_stays_a_link(void **state)
{
	struct output_file f;
	struct stat st;

	(void)state;
	text_put(at("target.rtr"), "old");
	assert_int_equal(symlink("target.rtr", at("link.rtr")), 0);
	assert_int_equal(output_file_begin(&f, at("link.rtr")), 0);
	text_put(f.name, "new");
	assert_int_equal(output_file_commit(&f), 0);
	output_file_free(&f);
	assert_int_equal(lstat(at("link.rtr"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	expect_text(at("target.rtr"), "new");
}

static void discarded_leaves_what_was_there(void **state)
{
	struct output_file f;

	(void)state;
	text_put(at("kept.rtr"), "old");
	assert_int_equal(output_file_begin(&f, at("kept.rtr")), 0);
	output_file_discard(&f);
	output_file_free(&f);
	expect_text(at("kept.rtr"), "old");
	assert_false(exists(at("kept.rtr.part")));
	assert_int_equal(output_file_begin(&f, at("none.rtr")), 0);
	text_put(f.name, "nothing yet");
	output_file_discard(&f);
	output_file_free(&f);
	assert_false(exists(at("none.rtr")));
}

static void what_is_no_file_is_written_as_it_is(void **state)
{
	static const char *const names[] = { "-", "/dev/stderr", "/dev/null", "/nowhere/x.rtr" };
	struct output_file f;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(output_file_begin(&f, names[i]), 0);
		assert_string_equal(f.name, names[i]);
		assert_null(f.replaces);
		output_file_discard(&f);
		assert_int_equal(output_file_commit(&f), 0);
		output_file_free(&f);
	}
	assert_true(exists("/dev/null"));
}

static int folder_make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_file_is_written_at_once),
		cmocka_unit_test(old_file_stays_until_its_successor_is_complete),
		cmocka_unit_test(no_part_is_overwritten),
		cmocka_unit_test(link_stays_a_link),
		cmocka_unit_test(discarded_leaves_what_was_there),
		cmocka_unit_test(what_is_no_file_is_written_as_it_is),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
