/* SPDX-License-Identifier: Apache-2.0
 *
 * test_late_environ.c - the environment as it is in a process' memory, at its bounds: variables over the end of a page,
 * at the end of what is mapped, as long as may be; tables of many variables; several copies of `environ`. The process
 * is this one. Programs that set their variables late: test_target_ranks.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/discover/discover_private.h"

#define PAGE 4096
#define COPIES_MAX 12

static struct reader *reader;
static struct proc_environ got;
static struct target_file files[COPIES_MAX];
static struct target_lib libs[COPIES_MAX];
static char **environs[COPIES_MAX]; /* what is taken for `environ` of file i */

static int setup(void **state)
{
	(void)state;
	return reader_open(&reader);
}

static int teardown(void **state)
{
	(void)state;
	reader_free(reader);
	return 0;
}

/* The first of `n` copies is an address without a load address, as of a program that is not moved. */
static int read_copies(size_t n)
{
	struct target_proc p = { .tgid = getpid(), .libs = libs, .n_libs = 0, .n_files = n };

	got = PROC_ENVIRON_NONE;
	for (size_t i = 0; i < n; i++) {
		libs[i].file = &files[i];
		libs[i].bias = i * 16;
		files[i].facts.environ_vaddr = environs[i] ? (uintptr_t)&environs[i] - i * 16 : 0;
	}
	return late_environ_read(reader, &p, &got);
}

static int read_table(char **table)
{
	environs[0] = table;
	return read_copies(1);
}

/* Two pages, and nothing mapped behind them. */
static char *pages_new(void)
{
	char *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	munmap(at + 2 * PAGE, PAGE);
	return at;
}

static void variables_and_what_is_none(void **state)
{
	char *table[] = { "RANK=3", "no variable", "WORLD_SIZE=8", "", "LOCAL_RANK=1", NULL, "POD_NAME=behind" };

	(void)state;
	assert_int_equal(read_table(table), 0);
	assert_true(got.rank == 3 && got.world_size == 8 && got.local_rank == 1);
	assert_string_equal(got.pod_name, "");
	assert_int_equal(read_table(table + 5), 0); /* an empty one */
	assert_int_equal(got.rank, -1);
	environs[0] = (char **)((char *)table + 1); /* no table of pointers */
	assert_int_equal(read_copies(1), 0);
	assert_int_equal(got.rank, -1);
	environs[0] = NULL; /* no file has one */
	assert_int_equal(read_copies(1), -61);
}

/* A variable goes on on the next page, where there is one; a hole ends its own variable only. */
static void over_the_end_of_a_page(void **state)
{
	char *at = pages_new(), *table[] = { NULL, "WORLD_SIZE=8", NULL, "LOCAL_RANK=2", NULL };

	(void)state;
	for (int before = 1; before < 7; before++) {
		table[0] = strcpy(at + PAGE - before, "RANK=3");
		table[2] = (char *)16; /* nothing is mapped there */
		assert_int_equal(read_table(table), 0);
		assert_true(got.rank == 3 && got.world_size == 8 && got.local_rank == 2);
	}
	table[0] = strcpy(at + 2 * PAGE - 7, "RANK=3"); /* its zero byte is the last that is mapped */
	assert_int_equal(read_table(table), 0);
	assert_int_equal(got.rank, 3);
	table[0] = memcpy(at + 2 * PAGE - 6, "RANK=3", 6); /* and where it has none, it is not whole */
	assert_int_equal(read_table(table), 0);
	assert_true(got.rank == -1 && got.source == RANK_UNKNOWN);
	munmap(at, 2 * PAGE);
}

/* 512 bytes with the name and the zero byte. */
static void as_long_as_may_be(void **state)
{
	char *at = pages_new(), *table[] = { NULL, "RANK=1", "WORLD_SIZE=2", NULL };

	(void)state;
	for (int len = 510; len <= 513; len++)
		for (int before = 100; before <= 600; before += 100) { /* in one page, and over its end */
			char *v = at + PAGE - before;

			memset(v, 'x', len);
			memcpy(v, "TORCHELASTIC_RUN_ID=", 20);
			v[len] = '\0';
			table[0] = v;
			assert_int_equal(read_table(table), 0);
			assert_int_equal(got.rank, 1);
			assert_int_equal(*got.job != 0, len < 512);
		}
	munmap(at, 2 * PAGE);
}

static char **table_of(int n, const char *last)
{
	char **t = calloc(n + 1, sizeof(*t));

	assert_non_null(t);
	for (int i = 0; i < n - 2; i++)
		t[i] = "FILL=x";
	t[n - 2] = "WORLD_SIZE=100";
	t[n - 1] = (char *)last;
	return t;
}

static void so_many_variables(void **state)
{
	static const int counts[] = { 2, 63, 64, 65, 66, 127, 128, 129, 130, 1000, 4095, 4096 };

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		char **t = table_of(counts[i], "RANK=42");

		assert_int_equal(read_table(t), 0);
		if (got.rank != 42)
			fail_msg("%d variables", counts[i]);
		free(t);
	}
	char **t = table_of(4097, "RANK=42");

	assert_int_equal(read_table(t), 0); /* more are left out */
	assert_int_equal(got.rank, -1);
	free(t);
}

/* The table itself stands at the end of what is mapped: as much of it as is there. */
static void a_table_at_the_end(void **state)
{
	char *at = pages_new(), **t = (char **)(at + 2 * PAGE) - 3;

	(void)state;
	t[0] = "RANK=1";
	t[1] = "WORLD_SIZE=2";
	t[2] = "LOCAL_RANK=1";
	assert_int_equal(read_table(t), 0);
	assert_true(got.rank == 1 && got.local_rank == 1);
	munmap(at, 2 * PAGE);
}

/* A mebibyte in all; what is small may fit when something larger did not. */
static void so_much_text(void **state)
{
	char **t = calloc(4000, sizeof(*t)), *fill = malloc(401);

	(void)state;
	assert_non_null(t);
	memset(fill, 'x', 400);
	memcpy(fill, "FILL=", 5);
	fill[400] = '\0';
	for (int i = 0; i < 3000; i++)
		t[i] = fill;
	t[3000] = "RANK=1";
	t[3001] = "WORLD_SIZE=2";
	assert_int_equal(read_table(t), 0);
	assert_int_equal(got.rank, 1);
	free(fill);
	free(t);
}

/* libc's own, a program's copy, another libc's: all of the first eight are read, and what has none is none of them. */
static void copies(void **state)
{
	char *none[] = { NULL }, *rank[] = { "RANK=1", NULL }, *size[] = { "WORLD_SIZE=2", NULL };

	(void)state;
	for (int i = 0; i < 7; i++)
		environs[i] = none;
	environs[2] = rank;
	environs[7] = size;
	assert_int_equal(read_copies(8), 0);
	assert_int_equal(got.rank, 1);
	environs[7] = none;
	environs[8] = size;
	assert_int_equal(read_copies(9), 0);
	assert_int_equal(got.rank, -1); /* the ninth */
	environs[0] = NULL;
	assert_int_equal(read_copies(9), 0);
	assert_int_equal(got.rank, 1);
	files[3].facts.environ_vaddr = 16;
	environs[3] = (char **)16; /* a copy that points nowhere does not hide those behind it */
	assert_int_equal(read_copies(9), 0);
	assert_int_equal(got.rank, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_and_what_is_none),
		cmocka_unit_test(over_the_end_of_a_page),
		cmocka_unit_test(as_long_as_may_be),
		cmocka_unit_test(so_many_variables),
		cmocka_unit_test(a_table_at_the_end),
		cmocka_unit_test(so_much_text),
		cmocka_unit_test(copies),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
