/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_spawn.c - see reader_spawn.h. Killing a worker waits for none.
 */
#include "inspect/reader/reader_spawn.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

#define SPAWN_STEP_MS 50
#define SPAWN_STEPS 20      /* asleep, of a zygote that has a spare */
#define SPAWN_STEPS_ALL 100 /* on a machine that has no time */

static const struct zygote no_zygote = { .fd = -1, .ctl = -1 };
static const struct worker no_worker = { .fd = -1, .sock = -1 };

const char *worker_name(enum worker_kind kind)
{
	return kind == WORKER_PARSER ? "ranktrace-parse" : "ranktrace-read";
}

void worker_lost_say(const char *name)
{
	static const char *said[WORKER_KINDS + 1];
	size_t i = 0;

	while (i < WORKER_KINDS && said[i] && strcmp(said[i], name))
		i++;
	if (said[i])
		return;
	said[i] = name;
	log_warn(
		"a helper process, %s, ended or was stopped in the middle of its work, by somebody or by what it read; "
		"another takes its place",
		name);
}

static void none_left_say(void)
{
	static bool said;

	if (!said)
		log_error(
			"no helper process is left, nor one that could make another: processes are not read any more; "
			"restart ranktrace, and see who ends its processes");
	said = true;
}

static void fds_close(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* ---- zygotes ---- */

static void zygote_kill(const struct zygote *z)
{
	if (z->fd >= 0) {
		syscall(SYS_pidfd_send_signal, z->fd, SIGKILL, NULL, 0);
		return;
	}
	kill(z->pid, SIGKILL); /* it never touches a target, so this wait is short */
	while (waitpid(z->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void zygote_drop(struct zygote *z)
{
	if (z->pid > 0)
		zygote_kill(z);
	if (z->fd >= 0)
		close(z->fd);
	if (z->ctl >= 0)
		close(z->ctl);
	*z = no_zygote;
}

/* False: it is stopped, or does not answer. */
static bool zygote_answers(const struct zygote *z, bool has_spare)
{
	int asleep = 0;

	for (int i = 0; i < SPAWN_STEPS_ALL && (!has_spare || asleep < SPAWN_STEPS); i++) {
		if (worker_wait(z->ctl, SPAWN_STEP_MS) == 1)
			return true;
		enum worker_state state = worker_state(z->pid);

		if (state == WORKER_STOPPED)
			return false;
		asleep += state == WORKER_ASLEEP;
	}
	return false;
}

/* -EPIPE: it is gone, or as good as. An answer that came too late for an earlier question is thrown away. */
static int zygote_ask(struct workers *w, enum worker_kind kind, struct reader_hello *ret, int fds[READER_HELLO_FDS])
{
	size_t wanted = kind == ZYGOTE_SPARE ? READER_HELLO_FDS - 1 : READER_HELLO_FDS, n = 0;
	struct reader_spawn ask = { .kind = kind, .number = ++w->number };
	const struct zygote *z = &w->zygote;

	if (z->ctl < 0 || reader_send(z->ctl, &ask, sizeof(ask), NULL, 0))
		return -EPIPE;
	for (;; fds_close(fds, n)) {
		if (!zygote_answers(z, w->spare.ctl >= 0) ||
		    reader_recv(z->ctl, ret, sizeof(*ret), fds, READER_HELLO_FDS, &n) != sizeof(*ret))
			return -EPIPE;
		if (ret->number == ask.number)
			break;
	}
	if (!ret->rc && n == wanted)
		return 0;
	fds_close(fds, n);
	return ret->rc ? ret->rc : -EPROTO;
}

static int spare_take(struct workers *w)
{
	int fds[READER_HELLO_FDS];
	struct reader_hello hello;
	int rc = zygote_ask(w, ZYGOTE_SPARE, &hello, fds);

	if (!rc)
		w->spare = (struct zygote){ hello.pid, fds[0], fds[1] };
	return rc;
}

/* Its workers end with it. */
static void zygote_replace(struct workers *w)
{
	zygote_drop(&w->zygote);
	w->zygote = w->spare;
	w->spare = no_zygote;
	for (int k = 0; k < WORKER_KINDS; k++)
		worker_drop(&w->worker[k]);
	worker_lost_say("ranktrace-zyg");
	spare_take(w);
}

/* Of its own accord it says nothing: what can be read is the end. */
static bool zygote_lost(const struct zygote *z)
{
	return z->ctl < 0 || worker_wait(z->ctl, 0) == 1 || worker_state(z->pid) == WORKER_STOPPED;
}

void workers_check(struct workers *w)
{
	if (w->zygote.ctl >= 0 && w->spare.ctl >= 0 && zygote_lost(&w->zygote))
		zygote_replace(w);
	if (w->zygote.ctl < 0 || !zygote_lost(&w->spare))
		return;
	zygote_drop(&w->spare);
	worker_lost_say("ranktrace-zyg");
	spare_take(w);
}

static int zygote_fork(struct zygote *to)
{
	int pair[2];
	pid_t self = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	to->pid = fork();
	if (to->pid == 0)
		reader_zygote_main(pair[1], self);
	int rc = to->pid < 0 ? -errno : 0;

	close(pair[1]);
	to->ctl = pair[0];
	return rc;
}

/* ---- workers ---- */

static int worker_adopt(struct worker *to, const struct reader_hello *hello, const int fds[READER_HELLO_FDS])
{
	void *shm = mmap(NULL, READER_OUT_MAX, PROT_READ, MAP_SHARED, fds[2], 0);

	if (shm == MAP_FAILED)
		return -errno;
	*to = (struct worker){ .pid = hello->pid, .fd = fds[0], .sock = fds[1], .shm = shm };
	close(fds[2]);
	return 0;
}

int worker_ensure(struct workers *w, enum worker_kind kind)
{
	int fds[READER_HELLO_FDS];
	struct reader_hello hello;

	if (w->worker[kind].pid)
		return 0;
	int rc = zygote_ask(w, kind, &hello, fds);

	if (rc == -EPIPE && w->spare.ctl >= 0) {
		zygote_replace(w);
		rc = zygote_ask(w, kind, &hello, fds);
	}
	if (rc == -EPIPE)
		none_left_say();
	if (rc)
		return rc;
	rc = worker_adopt(&w->worker[kind], &hello, fds);
	if (rc)
		fds_close(fds, READER_HELLO_FDS);
	return rc;
}

int workers_open(struct workers *w)
{
	w->zygote = w->spare = no_zygote;
	for (int k = 0; k < WORKER_KINDS; k++)
		w->worker[k] = no_worker;
	int rc = zygote_fork(&w->zygote);

	if (!rc)
		rc = spare_take(w);
	return rc ? rc : worker_ensure(w, WORKER_READER);
}

void workers_close(struct workers *w)
{
	for (int k = 0; k < WORKER_KINDS; k++)
		worker_drop(&w->worker[k]);
	zygote_drop(&w->spare);
	zygote_drop(&w->zygote);
}
