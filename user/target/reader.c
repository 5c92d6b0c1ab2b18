/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - the collector's side of the helper: deadlines, replacing a worker that is late, and the memory of which
 * targets blocked it. Knows nothing of what a job does (reader_ops.c). A late worker is abandoned, never waited for.
 */
#include "base/clock.h"
#include "target/reader_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthash.h>

#define BACKOFF_FIRST_NS 500000000ull
#define BACKOFF_LAST_NS 4000000000ull
#define SPAWN_DEADLINE_MS 1000
#define STARVED_DEADLINES 5

struct blocked {
	pid_t pid;
	uint64_t until_ns;
	uint64_t backoff_ns;
	UT_hash_handle hh;
};

struct reader {
	pid_t zygote;
	int ctl;        /* to the zygote */
	pid_t worker;   /* 0 none */
	int worker_fd;  /* pidfd */
	int sock;
	const char *shm;
	uint64_t seq;
	struct blocked *blocked;
};

static struct blocked *blocked_find(const struct reader *r, pid_t pid)
{
	struct blocked *b = NULL;

	HASH_FIND_INT(r->blocked, &pid, b);
	return b;
}

bool reader_is_blocked(const struct reader *r, pid_t pid)
{
	const struct blocked *b = pid ? blocked_find(r, pid) : NULL;

	return b && clock_monotonic_ns() < b->until_ns;
}

pid_t reader_pid(const struct reader *r)
{
	return r->zygote;
}

void reader_unblock(struct reader *r, pid_t pid)
{
	struct blocked *b = blocked_find(r, pid);

	if (!b)
		return;
	HASH_DEL(r->blocked, b);
	free(b);
}

static void blocked_add(struct reader *r, pid_t pid)
{
	struct blocked *b = blocked_find(r, pid);

	if (!pid)
		return;
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return;
		b->pid = pid;
		b->backoff_ns = BACKOFF_FIRST_NS / 2;
		HASH_ADD_INT(r->blocked, pid, b);
	}
	b->backoff_ns = b->backoff_ns * 2 < BACKOFF_LAST_NS ? b->backoff_ns * 2 : BACKOFF_LAST_NS;
	b->until_ns = clock_monotonic_ns() + b->backoff_ns;
}

static void worker_drop(struct reader *r)
{
	if (!r->worker)
		return;
	syscall(SYS_pidfd_send_signal, r->worker_fd, SIGKILL, NULL, 0);
	close(r->worker_fd);
	close(r->sock);
	munmap((void *)r->shm, READER_OUT_MAX);
	r->worker = 0;
	r->worker_fd = r->sock = -1;
	r->shm = NULL;
}

/* 1: readable, 0: time is up, -errno. */
static int wait_for(int fd, int timeout_ms)
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

static int worker_adopt(struct reader *r, const struct reader_hello *hello, const int fds[READER_HELLO_FDS])
{
	void *shm = mmap(NULL, READER_OUT_MAX, PROT_READ, MAP_SHARED, fds[2], 0);

	if (shm == MAP_FAILED)
		return -errno;
	r->worker = hello->pid;
	r->worker_fd = fds[0];
	r->sock = fds[1];
	r->shm = shm;
	close(fds[2]);
	return 0;
}

static int worker_ensure(struct reader *r)
{
	struct reader_hello hello;
	int fds[READER_HELLO_FDS] = { -1, -1, -1 };
	size_t n = 0;

	if (r->worker)
		return 0;
	int rc = reader_send(r->ctl, "w", 1, NULL, 0);

	if (rc || wait_for(r->ctl, SPAWN_DEADLINE_MS) != 1)
		return -EPIPE;
	ssize_t got = reader_recv(r->ctl, &hello, sizeof(hello), fds, READER_HELLO_FDS, &n);

	if (got != sizeof(hello))
		rc = -EPIPE;
	else if (hello.rc)
		rc = hello.rc;
	else
		rc = n == READER_HELLO_FDS ? worker_adopt(r, &hello, fds) : -EPROTO;
	if (rc)
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
	return rc;
}

/* Asleep in the kernel (S, D) or anything but running: then lateness says something about the target. */
static bool worker_sleeps(const struct reader *r)
{
	char path[64], text[256];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", r->worker);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *paren = strrchr(text, ')');

	return !paren || paren[1] != ' ' || paren[2] != 'R';
}

static int wait_answer(struct reader *r, pid_t pid, unsigned deadline_ms)
{
	for (int i = 0; i < STARVED_DEADLINES; i++) {
		int n = wait_for(r->sock, deadline_ms);

		if (n)
			return n < 0 ? n : 0;
		if (!worker_sleeps(r))
			continue;
		/* It may have answered between the two looks. */
		if (wait_for(r->sock, 0) == 1)
			return 0;
		worker_drop(r);
		blocked_add(r, pid);
		return -ETIMEDOUT;
	}
	worker_drop(r);
	return -EAGAIN;
}

static int take_answer(struct reader *r, void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	struct reader_answer ans;
	int fd = -1;
	size_t n = 0;
	ssize_t got = reader_recv(r->sock, &ans, sizeof(ans), &fd, 1, &n);
	int rc = ans.rc;

	if (got != sizeof(ans) || ans.seq != r->seq) {
		worker_drop(r);
		rc = -EIO;
	} else if (!rc && ans.out_len > out_max) {
		rc = -EMSGSIZE;
	}
	if (!rc && ret_fd && fd < 0)
		rc = -EPROTO;
	if (rc || !ret_fd) {
		if (fd >= 0)
			close(fd);
	} else {
		*ret_fd = fd;
	}
	if (rc)
		return rc < 0 ? rc : -EPROTO;
	if (ans.out_len)
		memcpy(out, r->shm, ans.out_len);
	if (ret_len)
		*ret_len = ans.out_len;
	return 0;
}

int reader_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, int fd_in,
	       unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	union { char bytes[sizeof(struct reader_request) + READER_ARG_MAX]; struct reader_request req; } buf;

	if (arg_len > READER_ARG_MAX || out_max > READER_OUT_MAX)
		return -E2BIG;
	if (reader_is_blocked(r, pid))
		return -EBUSY;
	int rc = worker_ensure(r);

	if (rc)
		return rc;
	buf.req = (struct reader_request){ .seq = ++r->seq, .fn = fn, .arg_len = arg_len, .out_max = out_max };
	if (arg_len)
		memcpy(buf.req.arg, arg, arg_len);
	rc = reader_send(r->sock, &buf, sizeof(buf.req) + arg_len, &fd_in, fd_in >= 0);
	if (rc) {
		worker_drop(r);
		return -EIO;
	}
	rc = wait_answer(r, pid, deadline_ms);
	if (rc)
		return rc;
	rc = take_answer(r, out, out_max, ret_len, ret_fd);
	/* Any answer, even an error, shows that the lock was free. */
	if (pid && r->blocked)
		reader_unblock(r, pid);
	return rc;
}

int reader_open(struct reader **ret)
{
	int pair[2] = { -1, -1 };
	struct reader *r = calloc(1, sizeof(*r));
	pid_t self = getpid();

	if (!r)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(r);
		return -errno;
	}
	r->worker_fd = r->sock = -1;
	r->ctl = pair[0];
	r->zygote = fork();
	if (r->zygote == 0)
		reader_zygote_main(pair[1], self);
	close(pair[1]);
	int rc = r->zygote < 0 ? -errno : worker_ensure(r);

	if (rc) {
		reader_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void reader_free(struct reader *r)
{
	struct blocked *b, *next;

	if (!r)
		return;
	worker_drop(r);
	if (r->zygote > 0) {
		kill(r->zygote, SIGKILL); /* it never touches a target, so this wait is short */
		while (waitpid(r->zygote, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(r->ctl);
	HASH_ITER(hh, r->blocked, b, next) {
		HASH_DEL(r->blocked, b);
		free(b);
	}
	free(r);
}
