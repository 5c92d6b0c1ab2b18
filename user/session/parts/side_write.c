/* SPDX-License-Identifier: Apache-2.0
 *
 * side_write.c - see side_write.h. One child at a time; of what comes meanwhile only the newest is kept.
 */
#include "session/parts/side_write.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/write_whole.h"

#define BESIDE ".part"
#define LATE_NS 10000000000ull
#define CLOSE_STEP_US 5000
#define FORK_AGAIN_NS 5000000000ull /* one that fails may have copied the whole process first */

int side_write_open(struct side_write *w, const char *path, const char *loss)
{
	*w = (struct side_write){ .path = path, .loss = loss };
	return strlen(path) + sizeof(BESIDE) > PATH_MAX ? -ENAMETOOLONG : 0;
}

/* --- in the child: nothing that takes a lock, as another thread may have had it at the fork --- */

static int text_write(const char *path, const char *text)
{
	int fd = new_file_open(path), err;

	if (fd < 0)
		return fd;
	err = write_whole(fd, text, strlen(text));
	if (!err && fsync(fd))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* The session's files (links, rings, pipes) must not live as long as a call of a dead disk; nor may it write beside a
 * session that comes after this one. Exits with errno. */
static void child_main(const char *beside, const char *path, const char *text)
{
	int err = close_range(0, ~0u, 0) ? -errno : 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	setpriority(PRIO_PROCESS, 0, 10);
	err = err ? err : text_write(beside, text);
	if (!err && rename(beside, path))
		err = -errno;
	if (err)
		unlink(beside);
	_exit(-err);
}

/* --- in the session --- */

/* The text goes on waiting. */
static void unforked_note(struct side_write *w, int err, uint64_t now_ns)
{
	w->fork_due_ns = now_ns + FORK_AGAIN_NS;
	if (!w->unforked)
		log_warn(
			"%s: not written, as no process could be started for it: %s; it is tried again every %llu s. "
			"Is there room for one more in TasksMax of the unit, or pids.max of the cgroup, that ranktrace "
			"runs in?",
			w->path, strerror(-err), FORK_AGAIN_NS / 1000000000);
	w->unforked = err;
}

static void next_begin(struct side_write *w, uint64_t now_ns)
{
	char beside[PATH_MAX];

	if (w->unforked && now_ns < w->fork_due_ns)
		return;
	snprintf(beside, sizeof(beside), "%s" BESIDE, w->path);
	w->child = fork();
	if (!w->child)
		child_main(beside, w->path, w->next);
	if (w->child < 0) {
		unforked_note(w, -errno, now_ns);
		w->child = 0;
		return;
	}
	if (w->unforked)
		log_info("%s: a process could be started for it again", w->path);
	w->unforked = 0;
	free(w->next);
	w->next = NULL;
	w->begin_ns = now_ns;
}

void side_write_put(struct side_write *w, char *text)
{
	free(w->next);
	w->next = text;
}

static void late_say(struct side_write *w, uint64_t now_ns)
{
	if (w->late_said || now_ns < w->begin_ns + LATE_NS)
		return;
	w->late_said = true;
	log_warn("%s: not written after %.0f s, as its disk does not answer; the session goes on, and what is to "
		 "be written waits",
		 w->path, (now_ns - w->begin_ns) * 1e-9);
}

static void end_say(struct side_write *w, int err, uint64_t now_ns)
{
	if (w->late_said)
		log_warn("%s: its disk answers again, after %.0f s", w->path, (now_ns - w->begin_ns) * 1e-9);
	if (err && !w->failed)
		log_warn("%s: %s: %s", w->path,
			 err == -ECHILD ? "how its writer ended is not known, as SIGCHLD is ignored" : strerror(-err),
			 w->loss);
	else if (!err && w->failed)
		log_info("%s: it is written again", w->path);
	w->late_said = false;
	w->failed = err;
}

/* 0: it is at work; 1: it is over, with this -errno. What the kernel reaped itself (SIGCHLD is ignored) is over, too:
 * no one knows how, and its pid may be another process's. */
static int child_ended(pid_t child, int *ret_err)
{
	int status;
	pid_t pid = waitpid(child, &status, WNOHANG);

	if (pid != child && (pid >= 0 || errno != ECHILD))
		return 0;
	*ret_err = pid < 0 ? -ECHILD : WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
	return 1;
}

/* 0, or -errno of the write that is over now. */
static int child_look(struct side_write *w, uint64_t now_ns)
{
	int err;

	if (!child_ended(w->child, &err)) {
		late_say(w, now_ns);
		return 0;
	}
	w->child = 0;
	end_say(w, err, now_ns);
	return err;
}

int side_write_turn(struct side_write *w, uint64_t now_ns)
{
	int err = w->child ? child_look(w, now_ns) : 0;

	if (!w->child && w->next)
		next_begin(w, now_ns);
	return err;
}

/* A child in a call of a dead disk takes its signal when that returns, and then writes nothing any more. */
static void give_up(struct side_write *w)
{
	int err;

	if (w->child && !child_ended(w->child, &err)) {
		kill(w->child, SIGKILL);
		waitpid(w->child, NULL, WNOHANG);
	}
	w->child = 0;
}

static void close_say(const struct side_write *w, unsigned limit_ms)
{
	if (w->child)
		log_warn("%s: it could not be written within %u s, as its disk does not answer: %s", w->path,
			 limit_ms / 1000, w->loss);
	else if (w->next)
		log_warn("%s: it could not be written, as no process could be started for it: %s: %s", w->path,
			 strerror(-w->unforked), w->loss);
}

void side_write_close(struct side_write *w, unsigned limit_ms)
{
	uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns + limit_ms * 1000000ull;

	w->fork_due_ns = 0;
	side_write_turn(w, now_ns);
	while ((w->child || w->next) && now_ns < until_ns) {
		usleep(CLOSE_STEP_US);
		now_ns = clock_monotonic_ns();
		side_write_turn(w, now_ns);
	}
	close_say(w, limit_ms);
	give_up(w);
	free(w->next);
	w->next = NULL;
}
