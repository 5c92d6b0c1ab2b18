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

#include "base/clock.h"
#include "base/log.h"
#include "inspect/reader/hurried.h"

#define SPAWN_STEP_MS 50
#define SPAWN_LOST_NS 5000000000ull /* no answer for so long, where a spare one may do better */

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

static void lost_say(struct workers *w)
{
	static bool said;

	w->is_lost = true;
	if (!said)
		log_error(
			"no helper process is left, nor one that could make another: processes are not read any more. "
			"A service ends now, to be restarted; else restart ranktrace, and see who ends its processes");
	said = true;
}

static void fds_close(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* ---- zygotes ---- */

/* A fork that the kernel delays ends late: who must go on does not wait for it. */
static void zygote_kill(struct workers *w, const struct zygote *z, bool waits)
{
	if (z->fd >= 0) {
		syscall(SYS_pidfd_send_signal, z->fd, SIGKILL, NULL, 0);
		return;
	}
	kill(z->pid, SIGKILL);
	while (waitpid(z->pid, NULL, waits ? 0 : WNOHANG) < 0 && errno == EINTR)
		;
	w->dying = waits ? 0 : z->pid;
}

static void zygote_drop(struct workers *w, struct zygote *z, bool waits)
{
	if (z->pid > 0)
		zygote_kill(w, z, waits);
	if (z->fd >= 0)
		close(z->fd);
	if (z->ctl >= 0)
		close(z->ctl);
	*z = no_zygote;
}

/* ---- what is asked of the zygote: one thing at a time ---- */

static int ask(struct workers *w, enum worker_kind kind)
{
	struct reader_spawn question = { .kind = kind, .number = ++w->number };

	if (w->zygote.ctl < 0 || reader_send(w->zygote.ctl, &question, sizeof(question), NULL, 0))
		return -EPIPE;
	w->asked = kind;
	w->asked_ns = clock_monotonic_ns();
	return 0;
}

static int worker_adopt(struct worker *to, const struct reader_hello *hello, const int fds[READER_HELLO_FDS])
{
	void *shm = mmap(NULL, READER_OUT_MAX, PROT_READ, MAP_SHARED, fds[2], 0);

	if (shm == MAP_FAILED)
		return -errno;
	*to = (struct worker){ .pid = hello->pid, .fd = fds[0], .sock = fds[1], .shm = shm };
	close(fds[2]);
	return 0;
}

/* What came is the answer, or one to an earlier question, which is thrown away: -EAGAIN. */
static int answer_take(struct workers *w)
{
	size_t wanted = w->asked == ZYGOTE_SPARE ? READER_HELLO_FDS - 1 : READER_HELLO_FDS, n = 0;
	int fds[READER_HELLO_FDS], rc;
	struct reader_hello hello;

	if (reader_recv(w->zygote.ctl, &hello, sizeof(hello), fds, READER_HELLO_FDS, &n) != sizeof(hello))
		return -EPIPE;
	if (hello.number != w->number) {
		fds_close(fds, n);
		return -EAGAIN;
	}
	rc = hello.rc ? hello.rc : n == wanted ? 0 : -EPROTO;
	if (!rc && w->asked == ZYGOTE_SPARE)
		w->spare = (struct zygote){ hello.pid, fds[0], fds[1] };
	else if (!rc)
		rc = worker_adopt(&w->worker[w->asked], &hello, fds);
	if (rc)
		fds_close(fds, n);
	w->asked = NOTHING_ASKED;
	return rc;
}

static bool zygote_hopeless(const struct workers *w)
{
	return worker_state(w->zygote.pid) == WORKER_STOPPED ||
	       (w->spare.ctl >= 0 && clock_monotonic_ns() - w->asked_ns > SPAWN_LOST_NS);
}

/* 0: nothing is open any more; -EINPROGRESS: no answer within the time; -EPIPE: the zygote is gone, or as good as. */
static int asked_settle(struct workers *w, unsigned wait_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + wait_ms * 1000000ull;
	int rc = w->asked == NOTHING_ASKED ? 0 : -EAGAIN;

	while (rc == -EAGAIN) {
		if (worker_wait(w->zygote.ctl, wait_ms < SPAWN_STEP_MS ? wait_ms : SPAWN_STEP_MS) == 1)
			rc = answer_take(w);
		else if (zygote_hopeless(w))
			rc = -EPIPE;
		else if (clock_monotonic_ns() >= until_ns)
			rc = -EINPROGRESS;
	}
	return rc;
}

void workers_hurry(struct workers *w, bool hurried)
{
	w->is_hurried = hurried;
	if (w->zygote.pid > 0)
		hurried_set(w->zygote.pid, hurried);
}

/* Its workers end with it. The next spare one comes when it comes. */
static void zygote_replace(struct workers *w)
{
	zygote_drop(w, &w->zygote, false);
	w->zygote = w->spare;
	w->spare = no_zygote;
	w->asked = NOTHING_ASKED;
	for (int k = 0; k < WORKER_KINDS; k++)
		worker_drop(&w->worker[k]);
	worker_lost_say("ranktrace-zyg");
	if (w->is_hurried)
		workers_hurry(w, true);
	ask(w, ZYGOTE_SPARE);
}

/* Of its own accord it says nothing: what can be read is the end. */
static bool zygote_lost(const struct zygote *z)
{
	return z->ctl < 0 || worker_wait(z->ctl, 0) == 1 || worker_state(z->pid) == WORKER_STOPPED;
}

static bool is_lost(struct workers *w)
{
	int rc = asked_settle(w, 0);

	return rc == -EPIPE || (rc != -EINPROGRESS && zygote_lost(&w->zygote));
}

void workers_check(struct workers *w)
{
	if (w->dying && waitpid(w->dying, NULL, WNOHANG) != 0)
		w->dying = 0;
	bool lost = w->zygote.ctl < 0 || is_lost(w);

	if (lost && w->spare.ctl >= 0)
		zygote_replace(w);
	else if (lost)
		lost_say(w);
	if (w->zygote.ctl < 0 || w->asked != NOTHING_ASKED || !zygote_lost(&w->spare))
		return;
	zygote_drop(w, &w->spare, false);
	worker_lost_say("ranktrace-zyg");
	ask(w, ZYGOTE_SPARE);
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

static int worker_make(struct workers *w, enum worker_kind kind, unsigned wait_ms)
{
	int rc = asked_settle(w, wait_ms); /* something else, before */

	if (rc || w->worker[kind].pid)
		return rc;
	rc = ask(w, kind);
	return rc ? rc : asked_settle(w, wait_ms);
}

unsigned workers_wait_ms(const struct workers *w)
{
	bool is_delayed = w->asked != NOTHING_ASKED && clock_monotonic_ns() - w->asked_ns > SPAWN_STEP_MS * 1000000ull;

	return is_delayed ? 0 : SPAWN_STEP_MS;
}

int worker_ensure(struct workers *w, enum worker_kind kind, unsigned wait_ms)
{
	if (w->worker[kind].pid)
		return 0;
	int rc = worker_make(w, kind, wait_ms);

	if (rc == -EPIPE && w->spare.ctl >= 0) {
		zygote_replace(w);
		rc = worker_make(w, kind, wait_ms);
	}
	if (rc == -EPIPE)
		lost_say(w);
	return rc;
}

int workers_open(struct workers *w)
{
	w->zygote = w->spare = no_zygote;
	w->asked = NOTHING_ASKED;
	for (int k = 0; k < WORKER_KINDS; k++)
		w->worker[k] = no_worker;
	int rc = zygote_fork(&w->zygote);

	if (!rc)
		rc = ask(w, ZYGOTE_SPARE);
	if (!rc)
		rc = asked_settle(w, WORKER_WAIT_MS);
	return rc ? rc : worker_ensure(w, WORKER_READER, WORKER_WAIT_MS);
}

void workers_close(struct workers *w)
{
	for (int k = 0; k < WORKER_KINDS; k++)
		worker_drop(&w->worker[k]);
	zygote_drop(w, &w->spare, true);
	zygote_drop(w, &w->zygote, true);
}
