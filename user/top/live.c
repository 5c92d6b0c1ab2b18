/* SPDX-License-Identifier: Apache-2.0
 *
 * live.c - see live.h.
 */
#include "top/live.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "command.h"

#define PIPE_BYTES (1 << 20) /* what a screen that is not drawn for a while may leave unread */
#define END_MS 5000          /* probes are taken out by then */

static int session_live(struct session_args *a)
{
	struct session_result r = { .child_status = -1 };
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	int err = session_readers_open(a, &reader), code;

	if (!err && !(p = pipeline_new()))
		err = -ENOMEM;
	if (err) {
		log_error("starting: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	code = session_outputs_open(a, p);
	if (!code)
		code = session_args_run(a, reader, p, &r);
	pipeline_free(p);
	session_readers_free(a, reader);
	return code;
}

/* What its user types is for `top` alone. */
__attribute__((noreturn)) static void child_run(struct session_args *a, int records_fd, int log_fd, int control_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setpgid(0, 0);
	if (dup2(records_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		_exit(EXIT_INTERNAL);
	close(records_fd);
	close(log_fd);
	a->outputs.paths[a->outputs.n++] = "-";
	a->session.control_fd = control_fd;
	_exit(session_live(a));
}

int top_live_start(struct session_args *a, struct top_live *ret)
{
	int records[2] = { -1, -1 }, log[2] = { -1, -1 }, control[2] = { -1, -1 }, err = 0;

	if (pipe2(records, O_CLOEXEC) || pipe2(log, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control))
		return -errno;
	fcntl(records[0], F_SETPIPE_SZ, PIPE_BYTES);
	fcntl(log[0], F_SETFL, O_NONBLOCK);
	fflush(NULL);
	ret->pid = fork();
	if (!ret->pid) {
		close(records[0]);
		close(log[0]);
		close(control[0]);
		child_run(a, records[1], log[1], control[1]);
	}
	err = ret->pid < 0 ? -errno : 0;
	close(records[1]);
	close(log[1]);
	close(control[1]);
	ret->records_fd = records[0];
	ret->log_fd = log[0];
	ret->control_fd = control[0];
	return err;
}

int top_live_ask(const struct top_live *l, enum session_wish wish, uint32_t pid)
{
	struct session_ask a = { .wish = wish, .pid = pid };

	return write(l->control_fd, &a, sizeof(a)) == sizeof(a) ? 0 : -errno;
}

int top_live_end(struct top_live *l)
{
	int status, waited_ms = 0;
	pid_t ended;

	if (l->control_fd >= 0)
		close(l->control_fd);
	l->control_fd = -1;
	if (l->records_fd >= 0)
		close(l->records_fd); /* it may be at a write */
	l->records_fd = -1;
	while (!(ended = waitpid(l->pid, &status, WNOHANG)) && waited_ms < END_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		waited_ms += 20;
	}
	return ended == l->pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
