/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_files.c - see loop_files.h.
 */
#include "session/loop_files.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/loader.h"
#include "session/session_private.h"

#define SEC 1000000000ull

int loop_files_open(struct session *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	if (s->cfg.reopens)
		sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->signal_fd < 0 || s->timer_fd < 0)
		return -errno;
	if (s->cfg.child)
		s->child_fd = syscall(SYS_pidfd_open, s->cfg.child, 0);
	return s->cfg.child && s->child_fd < 0 ? -errno : 0;
}

int loop_timer_start(const struct session *s, uint64_t at_ns)
{
	uint64_t first_ns = at_ns + s->pace->loop_ns;
	struct itimerspec every = { .it_interval.tv_nsec = s->pace->loop_ns,
				    .it_value = { .tv_sec = first_ns / SEC, .tv_nsec = first_ns % SEC } };

	return timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &every, NULL) ? -errno : 0;
}

static void child_reap(struct session *s)
{
	if (waitpid(s->cfg.child, &s->result.child_status, WNOHANG)) /* -1: the kernel reaped it itself */
		s->stop = true;
}

int loop_wait(struct session *s, int timeout_ms)
{
	struct pollfd fds[] = {
		{ .fd = s->timer_fd, .events = POLLIN },
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = s->child_fd, .events = POLLIN },
		{ .fd = loader_wake_fd(s->loader), .events = POLLIN },
		{ .fd = s->cfg.control_fd ? s->cfg.control_fd : -1, .events = POLLIN },
	};
	uint64_t expirations;

	if (poll(fds, sizeof(fds) / sizeof(*fds), timeout_ms) < 0 && errno != EINTR)
		return -errno;
	if (read(s->timer_fd, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
		return -errno;
	session_signals_take(s);
	if (fds[2].revents)
		child_reap(s);
	if (fds[4].revents)
		session_asked(s);
	return 0;
}
