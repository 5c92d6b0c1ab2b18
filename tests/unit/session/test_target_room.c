/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_room.c - the table of targets: a user that is not root has a bounded share of it, in the collector and in
 * the kernel, and a full table is an answer, no end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/loader.h"
#include "bpf/target.h"
#include "inspect/discover/discover.h"

#define NO_PID 10000000u /* and more: no process has these */
#define USER 12345u

static struct loader *l;

static int drop(void *to, const struct wire_hdr *rec)
{
	(void)to;
	(void)rec;
	return 0;
}

static int open_one(void **state)
{
	struct loader_cfg cfg = { .ring_bytes = { 65536, 65536, 65536 }, .emit = drop };

	(void)state;
	return geteuid() ? 0 : loader_open(&cfg, &l);
}

static int free_one(void **state)
{
	(void)state;
	loader_free(l);
	l = NULL;
	return 0;
}

/* `n` targets of the user from NO_PID + from on. The first error, 0 none. */
static int add(uint32_t uid, uint32_t from, uint32_t n)
{
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++)
		err = loader_target_add(l, NO_PID + from + i, uid);
	return err;
}

static void test_a_user_has_a_share(void **state)
{
	(void)state;
	if (!l)
		skip();
	assert_int_equal(add(USER, 0, TARGETS_OF_USER), 0);
	assert_int_equal(add(USER, TARGETS_OF_USER, 1), -EDQUOT);
	assert_int_equal(add(USER, 0, 1), 0); /* is one already */
	assert_int_equal(add(USER + 1, 50000, 1), 0);
	assert_int_equal(add(0, 60000, 1), 0);
	loader_target_forget(l, NO_PID + 7);
	assert_int_equal(add(USER, TARGETS_OF_USER, 1), 0);
	assert_int_equal(add(USER, TARGETS_OF_USER + 1, 1), -EDQUOT);
	assert_int_equal(loader_forks_refused(l), 0);
}

static void test_a_full_table(void **state)
{
	(void)state;
	if (!l)
		skip();
	assert_int_equal(add(0, 0, TARGETS_MAX), 0);
	assert_int_equal(add(USER, TARGETS_MAX, 1), -ENOSPC);
	loader_target_forget(l, NO_PID);
	assert_int_equal(add(USER, TARGETS_MAX, 1), 0);
}

/* Waits for a byte, becomes the user, forks a child at each further byte and answers with its pid. */
static void forker(int in, int out)
{
	char byte;

	if (setresuid(USER, USER, USER))
		_exit(1);
	while (read(in, &byte, 1) == 1) {
		pid_t child = fork();

		if (!child) {
			pause();
			_exit(0);
		}
		if (write(out, &child, sizeof(child)) != sizeof(child))
			break;
	}
	_exit(0);
}

static pid_t fork_one(const int ask[2], const int answer[2])
{
	pid_t child = 0;

	assert_int_equal(write(ask[1], "x", 1), 1);
	assert_int_equal(read(answer[0], &child, sizeof(child)), sizeof(child));
	return child;
}

/* The kernel adds the children of targets, as long as their user has room. */
static void test_children_count(void **state)
{
	int ask[2], answer[2];
	pid_t parent, in, beyond;

	(void)state;
	if (!l)
		skip();
	assert_int_equal(pipe(ask) || pipe(answer), 0);
	parent = fork();
	if (!parent) {
		close(ask[1]);
		forker(ask[0], answer[1]);
	}
	assert_int_equal(loader_attach_life(l), 0);
	assert_int_equal(loader_target_add(l, parent, USER), 0);
	assert_int_equal(add(USER, 0, TARGETS_OF_USER - 2), 0);
	in = fork_one(ask, answer);
	beyond = fork_one(ask, answer);
	assert_true(loader_is_target(l, in));
	assert_false(loader_is_target(l, beyond));
	assert_int_equal(loader_forks_refused(l), 1);
	assert_int_equal(add(USER, 50000, 1), -EDQUOT);
	kill(in, SIGKILL);
	for (int i = 0; i < 500 && loader_is_target(l, in); i++)
		usleep(10000);
	assert_int_equal(add(USER, 50000, 1), 0); /* its room is free again */
	kill(beyond, SIGKILL);
	close(ask[1]);
	waitpid(parent, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_user_has_a_share, open_one, free_one),
		cmocka_unit_test_setup_teardown(test_a_full_table, open_one, free_one),
		cmocka_unit_test_setup_teardown(test_children_count, open_one, free_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
