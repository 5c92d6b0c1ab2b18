/* SPDX-License-Identifier: Apache-2.0
 *
 * record_command.c - see record_command.h.
 */
#include "cmd/record_command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "command.h"

#define STATUS_NOT_STARTED 127
#define STATUS_SIGNAL 128 /* plus the signal, as in a shell */

static int program_check(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, X_OK) ? -errno : 0;
}

/* As execvp() looks for it. */
int record_command_check(char *const *argv)
{
	const char *path = getenv("PATH"), *end;
	char at[PATH_MAX];
	int err = -ENOENT, last;

	if (strchr(argv[0], '/') || !path)
		return program_check(argv[0]);
	for (; err && path; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		snprintf(at, sizeof(at), "%.*s%s%s", (int)(end - path), path, end > path ? "/" : "", argv[0]);
		last = program_check(at);
		err = last == -ENOENT || last == -ENOTDIR ? err : last;
	}
	return err;
}

__attribute__((noreturn)) static void command_exec(const struct record_command *c, int go_fd, int failed_fd,
						   bool quiet_stdout)
{
	char byte;
	ssize_t n;

	while ((n = read(go_fd, &byte, 1)) < 0 && errno == EINTR)
		;
	if (n != 1)
		_exit(STATUS_NOT_STARTED);
	if (quiet_stdout)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	execvp(c->argv[0], c->argv);
	(void)!write(failed_fd, &errno, sizeof(errno));
	_exit(STATUS_NOT_STARTED);
}

int record_command_fork(struct record_command *c, const sigset_t *signals, bool quiet_stdout)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC) || pipe2(failed, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	c->pid = fork();
	if (c->pid < 0)
		return -errno;
	if (!c->pid) {
		close(go[1]);
		sigprocmask(SIG_SETMASK, signals, NULL);
		command_exec(c, go[0], failed[1], quiet_stdout);
	}
	close(go[0]);
	close(failed[1]);
	c->go_fd = go[1];
	c->failed_fd = failed[0];
	return 0;
}

void record_command_kill(const struct record_command *c)
{
	kill(c->pid, SIGTERM);
	waitpid(c->pid, NULL, 0);
}

int record_command_result(const struct record_command *c, int status)
{
	int err;

	if (WIFSIGNALED(status)) {
		log_warn("%s was killed by signal %d (%s)", c->argv[0], WTERMSIG(status), strsignal(WTERMSIG(status)));
		return STATUS_SIGNAL + WTERMSIG(status);
	}
	if (WEXITSTATUS(status) == STATUS_NOT_STARTED && read(c->failed_fd, &err, sizeof(err)) == sizeof(err)) {
		log_error("%s: cannot start: %s", c->argv[0], strerror(err));
		return EXIT_USAGE;
	}
	if (WEXITSTATUS(status))
		log_warn("%s exited with status %d", c->argv[0], WEXITSTATUS(status));
	return WEXITSTATUS(status);
}
