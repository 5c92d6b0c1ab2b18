/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_maps.c - maps text and the other /proc texts, well-formed and hostile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inspect/stack/evidence.h"
#include "inspect/reader/maps.h"
#include "inspect/reader/proc_files.h"

static const char good[] =
	"55d0c0000000-55d0c0001000 r--p 00000000 fe:01 1234                       /usr/bin/python3.12\n"
	"55d0c0001000-55d0c0003000 r-xp 00001000 fe:01 1234                       /usr/bin/python3.12\n"
	"7f0000000000-7f0000001000 rw-s 00000000 00:05 99                         /a b/x\\012y (deleted)\n"
	"7f0000002000-7f0000003000 ---p 00000000 00:00 0 \n"
	"7f0000003000-7f0000004000 rwxp 00000000 00:00 0\n"
	"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void parses_what_the_kernel_writes(void **state)
{
	struct maps m = { 0 };

	(void)state;
	assert_int_equal(maps_parse(good, strlen(good), &m), 0);
	assert_int_equal(m.n, 7);
	assert_int_equal(m.rows[1].prot, MAPPING_READ | MAPPING_EXEC);
	assert_int_equal(m.rows[1].dev_major, 0xfe);
	assert_int_equal(m.rows[1].inode, 1234);
	assert_string_equal(m.rows[2].path, "/a b/x\ny");
	assert_true(m.rows[2].deleted && m.rows[2].shared);
	assert_string_equal(m.rows[4].path, "");
	assert_ptr_equal(maps_find(&m, 0x55d0c0002fff), &m.rows[1]);
	assert_int_equal(mapping_file_offset(&m.rows[1], 0x55d0c0002000), 0x2000);
	assert_null(maps_find(&m, 0x55d0c0003000));
	assert_null(maps_find(&m, 0));
	assert_null(maps_find(&m, UINT64_MAX));
	maps_free(&m);
}

static int parse(const char *text)
{
	struct maps m = { 0 };
	int rc = maps_parse(text, strlen(text), &m);

	maps_free(&m);
	return rc;
}

static void refuses_what_it_cannot_be(void **state)
{
	static const char *const bad[] = {
		"x",
		"1-2",
		"1-2 r-xp",
		"2-1 r-xp 0 0:0 0",
		"1-1 r-xp 0 0:0 0",
		"-2 r-xp 0 0:0 0",
		"1-2 r-x 0 0:0 0",
		"1-2 r-xq 0 0:0 0",
		"1-2 r-xp 0 00 0",
		"1-2 r-xp 0 0:0 ",
		"1-2 r-xp 0 0:0 1x",
		"1-2 r-xp  0:0 1",
		"11112222333344445-2 r-xp 0 0:0 0",
		"1-2 r-xp 0 0:0 99999999999999999999999",
		"1-2 r-xp 0 100000000:0 0",
		"1-2 r-xp ffffffffffffffff 0:0 0",
		"\n",
		"1-2 r-xp 0 0:0 0\n\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse(bad[i]), -EBADMSG);
	assert_int_equal(parse(""), 0);
	struct maps m = { 0 };

	assert_int_equal(maps_parse("1-2 r-xp\0 0 0:0 0", 18, &m), -EBADMSG);
	assert_null(m.rows);
}

static void keeps_order_in_a_torn_text(void **state)
{
	static const char torn[] = "1000-3000 r--p 0 0:0 0\n2000-4000 r--p 0 0:0 0\n4000-5000 r--p 0 0:0 0\n";
	struct maps m = { 0 };

	(void)state;
	assert_int_equal(maps_parse(torn, strlen(torn), &m), 0);
	assert_int_equal(m.n, 2);
	assert_int_equal(m.n_dropped, 1);
	maps_free(&m);
}

static void limits_the_rows(void **state)
{
	size_t line = 32, n = MAPS_ROWS_MAX + 1;
	char *text = malloc(n * line + 1), *p = text;

	(void)state;
	for (size_t i = 0; i < n; i++)
		p += sprintf(p, "%zx-%zx r--p 0 0:0 0\n", i * 4096 + 4096, i * 4096 + 8192);
	assert_int_equal(parse(text), -E2BIG);
	free(text);
}

static void survives_mutations(void **state)
{
	char text[sizeof(good)];

	(void)state;
	srand(7);
	for (int i = 0; i < 20000; i++) {
		memcpy(text, good, sizeof(good));
		for (int k = rand() % 4; k >= 0; k--)
			text[rand() % (sizeof(good) - 1)] = rand();
		struct maps m = { 0 };

		if (maps_parse(text, sizeof(good) - 1, &m))
			continue;
		for (size_t k = 1; k < m.n; k++)
			assert_true(m.rows[k].start >= m.rows[k - 1].end);
		maps_free(&m);
	}
}

static void reads_stat_with_a_hostile_name(void **state)
{
	struct proc_stat st;
	char text[512];

	(void)state;
	snprintf(text, sizeof(text),
		 "7 (a) R 1 (x) S 42 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %lu 4096 9 1 11 0 22 0 0 0 0 0 0 0 "
		 "0 0 17 0 0 0 0 0 0 0 0 0 33 0 0 0 0\n",
		 3 * sysconf(_SC_CLK_TCK));
	assert_int_equal(proc_stat_parse(text, &st), 0);
	assert_int_equal(st.parent, 42);
	assert_int_equal(st.state, 'S');
	assert_string_equal(st.name, "a) R 1 (x");
	assert_int_equal(st.start_time_ns, 3000000000);
	assert_int_equal(st.vsize, 4096);
	assert_false(st.is_kernel);
	assert_int_equal(proc_stat_parse("7 (a", &st), -EBADMSG);
	assert_int_equal(proc_stat_parse("7 (a) S 1 2", &st), -EBADMSG);
	assert_int_equal(proc_stat_parse("", &st), -EBADMSG);
	assert_int_equal(proc_stat_read(getpid(), &st), 0);
	assert_int_equal(st.parent, getppid());
}

static void cleans_kernel_stacks(void **state)
{
	char to[256], small[12];

	(void)state;
	kernel_stack_clean("[<0>] percpu_rwsem_wait+0x11/0x20\n[<ffffffff81000000>] ext4_create+0x1/0x2 [ext4]\n[<0>] "
			   "0xffffffffffffffff\n",
			   to, sizeof(to));
	assert_string_equal(to, "percpu_rwsem_wait+0x11/0x20\next4_create+0x1/0x2 [ext4]");
	kernel_stack_clean("[<0>] percpu_rwsem_wait+0x11/0x20\n[", small, sizeof(small));
	assert_string_equal(small, "percpu_rwse");
	kernel_stack_clean("", to, sizeof(to));
	assert_string_equal(to, "");
	assert_string_equal(syscall_name(SYS_openat), "openat");
	assert_int_equal(syscall_subject(SYS_unlinkat), SUBJECT_AT);
	assert_null(syscall_name(-1));
	assert_null(syscall_name(100000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_what_the_kernel_writes),
		cmocka_unit_test(refuses_what_it_cannot_be),
		cmocka_unit_test(keeps_order_in_a_torn_text),
		cmocka_unit_test(limits_the_rows),
		cmocka_unit_test(survives_mutations),
		cmocka_unit_test(reads_stat_with_a_hostile_name),
		cmocka_unit_test(cleans_kernel_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
