/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_files.c - see loop_files.h.
 */
#include "session/loop_files.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

int loop_files_open(const struct session_cfg *cfg, uint32_t loop_ns, int *timer_fd, int *signal_fd, int *child_fd)
{
	struct itimerspec every = { .it_interval.tv_nsec = loop_ns, .it_value.tv_nsec = loop_ns };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	if (cfg->reopens)
		sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	*signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	*timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (*signal_fd < 0 || *timer_fd < 0 || timerfd_settime(*timer_fd, 0, &every, NULL))
		return -errno;
	if (cfg->child)
		*child_fd = syscall(SYS_pidfd_open, cfg->child, 0);
	return cfg->child && *child_fd < 0 ? -errno : 0;
}
