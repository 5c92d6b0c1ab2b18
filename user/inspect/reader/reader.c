/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - the collector's side of the helper: deadlines, replacing a worker that is late, and the memory of which
 * targets blocked it (reader_late.c). Knows nothing of what a job does (reader_ops.c). Killing a worker waits for none.
 */
#include "base/clock.h"
#include "inspect/reader/reader_late.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPAWN_DEADLINE_MS 1000
#define WAIT_LEAST_MS 2 /* an answer takes 0.1 ms */
#define RUNNING_STEP_MS 10
#define RUNNING_STEPS 10 /* a tenth of a second at most, of a worker that is not asleep at any sample */

struct reader {
	pid_t zygote;
	int ctl; /* to the zygote */
	struct worker worker;
	uint64_t seq;
	struct late_table late;
	uint64_t timeout_ns;          /* a second; 0 no limit */
	uint64_t left_ns, left_at_ns; /* of it, and when */
};

bool reader_is_blocked(const struct reader *r, pid_t pid)
{
	return late_refused(&r->late, pid);
}

pid_t reader_pid(const struct reader *r)
{
	return r->zygote;
}

void reader_unblock(struct reader *r, pid_t pid)
{
	late_forget(&r->late, pid);
}

void reader_set_timeout(struct reader *r, unsigned ms)
{
	r->timeout_ns = r->left_ns = ms * 1000000ull;
	r->left_at_ns = clock_monotonic_ns();
}

static int worker_adopt(struct reader *r, const struct reader_hello *hello, const int fds[READER_HELLO_FDS])
{
	void *shm = mmap(NULL, READER_OUT_MAX, PROT_READ, MAP_SHARED, fds[2], 0);

	if (shm == MAP_FAILED)
		return -errno;
	r->worker = (struct worker){ .pid = hello->pid, .fd = fds[0], .sock = fds[1], .shm = shm };
	close(fds[2]);
	return 0;
}

static int worker_ensure(struct reader *r)
{
	struct reader_hello hello;
	int fds[READER_HELLO_FDS] = { -1, -1, -1 };
	size_t n = 0;

	if (r->worker.pid)
		return 0;
	int rc = reader_send(r->ctl, "w", 1, NULL, 0);

	if (rc || worker_wait(r->ctl, SPAWN_DEADLINE_MS) != 1)
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

/* A process that timed out before is asked again without anyone waiting; the others share what is left. */
static unsigned wait_allowed_ms(struct reader *r, pid_t pid, unsigned deadline_ms)
{
	uint64_t now = clock_monotonic_ns(), allowed_ms;

	if (!pid || !r->timeout_ns)
		return deadline_ms;
	if (late_held(&r->late, pid))
		return 0;
	r->left_ns += (now - r->left_at_ns) * (r->timeout_ns / 1e9);
	if (r->left_ns > r->timeout_ns)
		r->left_ns = r->timeout_ns;
	r->left_at_ns = now;
	allowed_ms = r->left_ns / 1000000;
	if (allowed_ms < WAIT_LEAST_MS)
		allowed_ms = WAIT_LEAST_MS;
	return allowed_ms < deadline_ms ? allowed_ms : deadline_ms;
}

/* The whole deadline, while no other is served; longer while the worker runs. */
static int wait_whole(struct reader *r, pid_t pid, unsigned deadline_ms)
{
	for (int i = 0; i < READER_STARVED_DEADLINES; i++) {
		int n = worker_wait(r->worker.sock, deadline_ms);

		if (n)
			return n < 0 ? n : 0;
		if (!worker_sleeps(&r->worker))
			continue;
		/* It may have answered between the two samples. */
		if (worker_wait(r->worker.sock, 0) == 1)
			return 0;
		worker_drop(&r->worker);
		late_timed_out(&r->late, pid);
		return -ETIMEDOUT;
	}
	worker_drop(&r->worker);
	return -EAGAIN;
}

/* A worker that runs, or would if it had a CPU, is delayed by no lock: on a busy machine its answer is worth some
 * waiting, as it would be thrown away and asked for again. Poll's result. */
static int wait_running(struct reader *r, unsigned allowed_ms)
{
	int n = worker_wait(r->worker.sock, allowed_ms);

	for (int i = 0; !n && i < RUNNING_STEPS && !worker_sleeps(&r->worker); i++)
		n = worker_wait(r->worker.sock, RUNNING_STEP_MS);
	return n;
}

static int wait_answer(struct reader *r, pid_t pid, unsigned deadline_ms)
{
	uint64_t begin = clock_monotonic_ns(), spent;
	unsigned allowed_ms = wait_allowed_ms(r, pid, deadline_ms);
	bool held = late_held(&r->late, pid);
	int n;

	if (allowed_ms == deadline_ms)
		return wait_whole(r, pid, deadline_ms);
	n = allowed_ms ? wait_running(r, allowed_ms) : worker_wait(r->worker.sock, 0);
	if (n)
		return n < 0 ? n : 0;
	spent = clock_monotonic_ns() - begin;
	r->left_ns = r->left_ns > spent ? r->left_ns - spent : 0;
	late_park(&r->late, pid, &r->worker, begin + deadline_ms * 1000000ull, deadline_ms);
	return held ? -EBUSY : -EINPROGRESS;
}

static int take_answer(struct reader *r, void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	struct reader_answer ans;
	int fd = -1;
	size_t n = 0;
	ssize_t got = reader_recv(r->worker.sock, &ans, sizeof(ans), &fd, 1, &n);
	int rc = ans.rc;

	if (got != sizeof(ans) || ans.seq != r->seq) {
		worker_drop(&r->worker);
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
		memcpy(out, r->worker.shm, ans.out_len);
	if (ret_len)
		*ret_len = ans.out_len;
	return 0;
}

int reader_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, int fd_in,
	       unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	union {
		char bytes[sizeof(struct reader_request) + READER_ARG_MAX];
		struct reader_request req;
	} buf;

	if (arg_len > READER_ARG_MAX || out_max > READER_OUT_MAX)
		return -E2BIG;
	int rc = late_check(&r->late, pid);

	if (!rc)
		rc = worker_ensure(r);
	if (rc)
		return rc;
	buf.req = (struct reader_request){ .seq = ++r->seq, .fn = fn, .arg_len = arg_len, .out_max = out_max };
	if (arg_len)
		memcpy(buf.req.arg, arg, arg_len);
	rc = reader_send(r->worker.sock, &buf, sizeof(buf.req) + arg_len, &fd_in, fd_in >= 0);
	if (rc) {
		worker_drop(&r->worker);
		return -EIO;
	}
	rc = wait_answer(r, pid, deadline_ms);
	if (rc)
		return rc;
	rc = take_answer(r, out, out_max, ret_len, ret_fd);
	/* Any answer, even an error, shows that the lock was free. */
	if (pid)
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
	r->worker = (struct worker){ .fd = -1, .sock = -1 };
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
	if (!r)
		return;
	worker_drop(&r->worker);
	if (r->zygote > 0) {
		kill(r->zygote, SIGKILL); /* it never touches a target, so this wait is short */
		while (waitpid(r->zygote, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(r->ctl);
	late_free(&r->late);
	free(r);
}
