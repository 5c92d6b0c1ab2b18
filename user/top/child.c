/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - see child.h.
 */
#include "top/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

#define PIPE_BYTES (1 << 20) /* what a screen that is not drawn for a while may leave unread */
#define END_MS 5000          /* probes are taken out by then */

/* What its user types is for `top` alone. */
__attribute__((noreturn)) static void child_run(int (*run)(void *of, int control_fd), void *of, int data_fd, int log_fd,
						int control_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setpgid(0, 0);
	if (dup2(data_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		_exit(EXIT_INTERNAL);
	close(data_fd);
	close(log_fd);
	_exit(run(of, control_fd));
}

int top_child_start(int (*run)(void *of, int control_fd), void *of, struct top_child *ret)
{
	int data[2] = { -1, -1 }, log[2] = { -1, -1 }, control[2] = { -1, -1 }, err = 0;

	if (pipe2(data, O_CLOEXEC) || pipe2(log, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control))
		return -errno;
	fcntl(data[0], F_SETPIPE_SZ, PIPE_BYTES);
	fcntl(log[0], F_SETFL, O_NONBLOCK);
	fflush(NULL);
	ret->pid = fork();
	if (!ret->pid) {
		close(data[0]);
		close(log[0]);
		close(control[0]);
		child_run(run, of, data[1], log[1], control[1]);
	}
	err = ret->pid < 0 ? -errno : 0;
	close(data[1]);
	close(log[1]);
	close(control[1]);
	ret->data_fd = data[0];
	ret->log_fd = log[0];
	ret->control_fd = control[0];
	return err;
}

int top_child_end(struct top_child *c)
{
	int status, waited_ms = 0;
	pid_t ended;

	if (c->control_fd >= 0)
		close(c->control_fd);
	c->control_fd = -1;
	if (c->data_fd >= 0)
		close(c->data_fd); /* it may be at a write */
	c->data_fd = -1;
	while (!(ended = waitpid(c->pid, &status, WNOHANG)) && waited_ms < END_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		waited_ms += 20;
	}
	return ended == c->pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
