/* SPDX-License-Identifier: Apache-2.0
 *
 * test_keeper.c - what a process that is to read a recording can still do: read and write what is open, ask its keeper
 * for what was named before. Anything else kills it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/confine.h"
#include "base/keeper.h"

static char folder[48];
static char in[64], part[64], final[64], other[64];
static struct keeper *keeper;

static void file_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const char *file_text(const char *path)
{
	static char text[64];
	FILE *f = fopen(path, "r");

	memset(text, 0, sizeof(text));
	if (!f)
		return NULL;
	(void)!fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	return text;
}

static int setup(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/ranktrace-unit-keeper-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(in, sizeof(in), "%s/in", folder);
	snprintf(part, sizeof(part), "%s/final.part", folder);
	snprintf(final, sizeof(final), "%s/final", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	return 0;
}

static int teardown(void **state)
{
	const char *all[] = { in, part, final, other };

	(void)state;
	for (int i = 0; i < 4; i++)
		unlink(all[i]);
	return rmdir(folder);
}

/* How `doing` ends, confined: its result, or 256 + the signal that ended it. */
static int confined(int (*doing)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		const char *inputs[] = { in };
		struct keeper_output outputs[] = { { part, final }, { other, NULL } };

		if (keeper_start(inputs, 1, outputs, 2, &keeper) || confine_replay() || confine_replay_calls())
			_exit(100);
		_exit(doing());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int names_use(void)
{
	char text[8] = "";
	int fd = keeper_open(keeper, 0);

	if (fd < 0 || read(fd, text, 2) != 2 || strcmp(text, "hi") || write(fd, "x", 1) >= 0)
		return 1;
	if (keeper_open(keeper, 1) != -EINVAL || keeper_rename(keeper, 2) != -EINVAL)
		return 2;
	if (keeper_rename(keeper, 0) || keeper_rename(keeper, 0) != -ENOENT)
		return 3;
	return keeper_unlink(keeper, 1) ? 4 : 0;
}

static void test_names(void **state)
{
	(void)state;
	file_write(in, "hi");
	file_write(part, "new");
	file_write(final, "old");
	file_write(other, "");
	assert_int_equal(confined(names_use), 0);
	assert_string_equal(file_text(final), "new");
	assert_string_equal(file_text(in), "hi");
	assert_null(file_text(part));
	assert_null(file_text(other));
}

static int file_open(void)
{
	return open(in, O_RDONLY) < 0;
}

static int file_make(void)
{
	return open(other, O_WRONLY | O_CREAT, 0600) < 0;
}

static int file_rename(void)
{
	return rename(in, other);
}

static int file_remove(void)
{
	return unlink(in);
}

static int socket_make(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static int process_make(void)
{
	return fork() < 0;
}

static int program_run(void)
{
	return execl("/bin/true", "true", NULL);
}

static int process_end(void)
{
	return kill(getppid(), SIGKILL);
}

static int code_make(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static void test_misbehaviour(void **state)
{
	int (*const all[])(void) = { file_open,    file_make,   file_rename, file_remove, socket_make,
				     process_make, program_run, process_end, code_make };

	(void)state;
	if (CONFINE_SANITIZED)
		skip();
	file_write(in, "hi");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(confined(all[i]), 256 + SIGSYS);
	assert_string_equal(file_text(in), "hi");
	assert_null(file_text(other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_misbehaviour, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
