/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_late.c - see reader_late.h. A parked worker costs its caller no time: whether it answered is sampled when its
 * process is asked for again. Its answer is thrown away, being as old as it likes; that it came is what counts.
 */
#include "inspect/reader/reader_late.h"

#include "base/clock.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#define BACKOFF_FIRST_NS 500000000ull
#define BACKOFF_LAST_NS 4000000000ull
#define PARKED_MAX 64 /* then the others wait for their turn: each costs a fork and a short wait */

struct late {
	pid_t pid;
	bool held;
	struct worker worker; /* still out on a call */
	uint64_t due_ns, give_up_ns;
	uint64_t until_ns, backoff_ns;
	UT_hash_handle hh;
};

void worker_drop(struct worker *w)
{
	if (!w->pid)
		return;
	syscall(SYS_pidfd_send_signal, w->fd, SIGKILL, NULL, 0);
	close(w->fd);
	close(w->sock);
	munmap((void *)w->shm, READER_OUT_MAX);
	*w = (struct worker){ .fd = -1, .sock = -1 };
}

uint64_t worker_cpu_ns(const struct worker *w)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(w->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

enum worker_state worker_state(pid_t pid)
{
	char path[64], text[256];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return WORKER_ASLEEP;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *paren = strrchr(text, ')');
	char letter = paren && paren[1] == ' ' ? paren[2] : 0;

	return letter == 'R' ? WORKER_RUNS : letter == 'T' || letter == 't' ? WORKER_STOPPED : WORKER_ASLEEP;
}

int worker_wait(int fd, unsigned timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t end = clock_monotonic_ns() + timeout_ms * 1000000ull;

	for (;;) {
		int n = poll(&p, 1, timeout_ms);

		if (n >= 0)
			return n;
		if (errno != EINTR)
			return -errno;
		uint64_t now = clock_monotonic_ns();

		timeout_ms = now < end ? (end - now) / 1000000 + 1 : 0;
	}
}

static struct late *late_find(const struct late_table *t, pid_t pid)
{
	struct late *l = NULL;

	HASH_FIND_INT(t->rows, &pid, l);
	return l;
}

static struct late *late_get(struct late_table *t, pid_t pid)
{
	struct late *l = late_find(t, pid);

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->pid = pid;
	l->backoff_ns = BACKOFF_FIRST_NS / 2;
	HASH_ADD_INT(t->rows, pid, l);
	return l;
}

static void late_unpark(struct late_table *t, struct late *l)
{
	t->n_parked -= l->worker.pid != 0;
	worker_drop(&l->worker);
}

void late_forget(struct late_table *t, pid_t pid)
{
	struct late *l = late_find(t, pid);

	if (!l)
		return;
	late_unpark(t, l);
	HASH_DEL(t->rows, l);
	free(l);
}

void late_free(struct late_table *t)
{
	while (t->rows)
		late_forget(t, t->rows->pid);
}

bool late_held(const struct late_table *t, pid_t pid)
{
	const struct late *l = pid ? late_find(t, pid) : NULL;

	return l && l->held;
}

bool late_refused(const struct late_table *t, pid_t pid)
{
	const struct late *l = pid ? late_find(t, pid) : NULL;

	return l && l->held && (l->worker.pid || clock_monotonic_ns() < l->until_ns);
}

void late_timed_out(struct late_table *t, pid_t pid)
{
	struct late *l = pid ? late_get(t, pid) : NULL;

	if (!l)
		return;
	l->held = true;
	l->backoff_ns = l->backoff_ns * 2 < BACKOFF_LAST_NS ? l->backoff_ns * 2 : BACKOFF_LAST_NS;
	l->until_ns = clock_monotonic_ns() + l->backoff_ns;
}

void late_park(struct late_table *t, pid_t pid, struct worker *w, uint64_t due_ns, unsigned deadline_ms)
{
	struct late *l = late_get(t, pid);

	if (!l) {
		worker_drop(w);
		return;
	}
	l->worker = *w;
	l->due_ns = due_ns;
	l->give_up_ns = due_ns + (READER_STARVED_DEADLINES - 1) * deadline_ms * 1000000ull;
	t->n_parked++;
	*w = (struct worker){ .fd = -1, .sock = -1 };
}

/* A worker that is late, but only now asked, may have answered long ago: that is asked first. */
static int parked_check(struct late_table *t, struct late *l)
{
	uint64_t now = clock_monotonic_ns();

	if (now < l->due_ns && worker_wait(l->worker.sock, 0) != 1)
		return l->held ? -EBUSY : -EINPROGRESS;
	enum worker_state state = worker_state(l->worker.pid);

	if (worker_wait(l->worker.sock, 0) == 1) {
		late_forget(t, l->pid);
		return 0;
	}
	if (state == WORKER_ASLEEP) {
		late_unpark(t, l);
		late_timed_out(t, l->pid);
		return -ETIMEDOUT;
	}
	if (state == WORKER_RUNS && now < l->give_up_ns)
		return l->held ? -EBUSY : -EINPROGRESS;
	late_forget(t, l->pid);
	return -EAGAIN;
}

static void parked_sweep(struct late_table *t)
{
	struct late *l, *next;

	HASH_ITER (hh, t->rows, l, next)
		if (l->worker.pid)
			parked_check(t, l);
}

int late_check(struct late_table *t, pid_t pid)
{
	struct late *l = pid ? late_find(t, pid) : NULL;

	if (l && l->worker.pid)
		return parked_check(t, l);
	if (pid && t->n_parked >= PARKED_MAX)
		parked_sweep(t);
	if (pid && t->n_parked >= PARKED_MAX)
		return l && l->held ? -EBUSY : -EINPROGRESS;
	return !l ? 0 : clock_monotonic_ns() < l->until_ns ? -EBUSY : 0;
}
