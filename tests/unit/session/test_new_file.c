/* SPDX-License-Identifier: Apache-2.0
 *
 * test_new_file.c - what is written is its owner's alone, and links are not followed to where there is no file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new_file.h"

static char folder[] = "/tmp/ranktrace-new-XXXXXX";
static char file[64], away[64], way[64];

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(file, sizeof(file), "%s/file", folder);
	snprintf(away, sizeof(away), "%s/away", folder);
	snprintf(way, sizeof(way), "%s/way", folder);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(file), unlink(away), unlink(way);
	return rmdir(folder);
}

static struct stat stat_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st;
}

static void a_new_file_is_its_owners_alone(void **state)
{
	mode_t before = umask(0);
	int fd = new_file_open(file);

	(void)state;
	umask(before);
	assert_true(fd >= 0);
	assert_int_equal(stat_of(file).st_mode & 0777, 0600);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

static void what_is_there_is_emptied_and_keeps_its_mode(void **state)
{
	int fd = open(file, O_WRONLY | O_CREAT, 0600);

	(void)state;
	assert_int_equal(write(fd, "old", 3), 3);
	assert_int_equal(fchmod(fd, 0640), 0);
	close(fd);
	close(new_file_open(file));
	assert_int_equal(stat_of(file).st_size, 0);
	assert_int_equal(stat_of(file).st_mode & 0777, 0640);
}

static void a_link_is_not_followed(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(symlink(away, way), 0);
	assert_int_equal(new_file_open(way), -ELOOP);
	assert_int_equal(lstat(away, &st), -1); /* nothing was created where it leads */
	close(new_file_open(away));
	assert_int_equal(new_file_open(way), -ELOOP);
	unlink(way), unlink(away);
}

/* /dev/stdout and /dev/fd/3 are links. */
static void a_pipe_is_opened_behind_its_link(void **state)
{
	int reader, fd;

	(void)state;
	assert_int_equal(mkfifo(away, 0600), 0);
	assert_int_equal(symlink(away, way), 0);
	reader = open(away, O_RDONLY | O_NONBLOCK);
	fd = new_file_open(way);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	close(reader);
	unlink(way), unlink(away);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_file_is_its_owners_alone),
		cmocka_unit_test(what_is_there_is_emptied_and_keeps_its_mode),
		cmocka_unit_test(a_link_is_not_followed),
		cmocka_unit_test(a_pipe_is_opened_behind_its_link),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
