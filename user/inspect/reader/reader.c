/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - the collector's side of the helper: deadlines, replacing a worker that is late, and the memory of which
 * targets blocked it (reader_late.c). Knows nothing of what a job does (reader_ops.c). Killing a worker waits for none.
 */
#include "base/clock.h"
#include "inspect/reader/reader_late.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPAWN_DEADLINE_MS 1000
#define WAIT_LEAST_MS 2     /* an answer takes 0.1 ms */
#define FILES_ASKED_MAX 512 /* in one call: more than a process of ours maps */
#define RUNNING_STEP_MS 10
#define RUNNING_STEPS 10 /* a tenth of a second at most, of a worker that is not asleep at any sample */

struct reader {
	pid_t zygote;
	int ctl; /* to the zygote */
	struct worker worker[WORKER_KINDS];
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

static int worker_adopt(struct worker *to, const struct reader_hello *hello, const int fds[READER_HELLO_FDS])
{
	void *shm = mmap(NULL, READER_OUT_MAX, PROT_READ, MAP_SHARED, fds[2], 0);

	if (shm == MAP_FAILED)
		return -errno;
	*to = (struct worker){ .pid = hello->pid, .fd = fds[0], .sock = fds[1], .shm = shm };
	close(fds[2]);
	return 0;
}

static int worker_ensure(struct reader *r, enum worker_kind kind)
{
	char wanted = (char)kind;
	struct reader_hello hello;
	int fds[READER_HELLO_FDS] = { -1, -1, -1 };
	size_t n = 0;

	if (r->worker[kind].pid)
		return 0;
	int rc = reader_send(r->ctl, &wanted, 1, NULL, 0);

	if (rc || worker_wait(r->ctl, SPAWN_DEADLINE_MS) != 1)
		return -EPIPE;
	ssize_t got = reader_recv(r->ctl, &hello, sizeof(hello), fds, READER_HELLO_FDS, &n);

	if (got != sizeof(hello))
		rc = -EPIPE;
	else if (hello.rc)
		rc = hello.rc;
	else
		rc = n == READER_HELLO_FDS ? worker_adopt(&r->worker[kind], &hello, fds) : -EPROTO;
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
static int wait_whole(struct reader *r, struct worker *w, pid_t pid, unsigned deadline_ms)
{
	for (int i = 0; i < READER_STARVED_DEADLINES; i++) {
		int n = worker_wait(w->sock, deadline_ms);

		if (n)
			return n < 0 ? n : 0;
		if (!worker_sleeps(w))
			continue;
		/* It may have answered between the two samples. */
		if (worker_wait(w->sock, 0) == 1)
			return 0;
		worker_drop(w);
		late_timed_out(&r->late, pid);
		return -ETIMEDOUT;
	}
	worker_drop(w);
	return -EAGAIN;
}

/* A worker that runs, or would if it had a CPU, is delayed by no lock: on a busy machine its answer is worth some
 * waiting, as it would be thrown away and asked for again. Poll's result. */
static int wait_running(const struct worker *w, unsigned allowed_ms)
{
	int n = worker_wait(w->sock, allowed_ms);

	for (int i = 0; !n && i < RUNNING_STEPS && !worker_sleeps(w); i++)
		n = worker_wait(w->sock, RUNNING_STEP_MS);
	return n;
}

static int wait_answer(struct reader *r, struct worker *w, pid_t pid, unsigned deadline_ms)
{
	uint64_t begin = clock_monotonic_ns(), spent;
	unsigned allowed_ms = wait_allowed_ms(r, pid, deadline_ms);
	bool held = late_held(&r->late, pid);
	int n;

	if (allowed_ms == deadline_ms)
		return wait_whole(r, w, pid, deadline_ms);
	n = allowed_ms ? wait_running(w, allowed_ms) : worker_wait(w->sock, 0);
	if (n)
		return n < 0 ? n : 0;
	spent = clock_monotonic_ns() - begin;
	r->left_ns = r->left_ns > spent ? r->left_ns - spent : 0;
	late_park(&r->late, pid, w, begin + deadline_ms * 1000000ull, deadline_ms);
	return held ? -EBUSY : -EINPROGRESS;
}

/* Where an answer goes, and how much of it is wanted. */
struct answer_room {
	void *out;
	size_t out_max, *ret_len;
	int *fds;
	size_t fds_max, *ret_n_fds;
};

static void fds_close(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void answer_copy(const struct worker *w, const struct reader_answer *ans, size_t n_fds,
			const struct answer_room *to)
{
	if (ans->out_len)
		memcpy(to->out, w->shm, ans->out_len);
	if (to->ret_len)
		*to->ret_len = ans->out_len;
	if (to->ret_n_fds)
		*to->ret_n_fds = n_fds;
}

/* *ret_asks: it asks for a file first. */
static int take_answer(struct worker *w, uint64_t seq, const struct answer_room *to, struct reader_answer *ret_asks)
{
	struct reader_answer ans;
	size_t n = 0;
	ssize_t got = reader_recv(w->sock, &ans, sizeof(ans), to->fds, to->fds_max, &n);
	bool whole = got == sizeof(ans) && ans.seq == seq;
	int rc = !whole ? -EIO : ans.rc > 0 ? -EPROTO : ans.rc;

	ret_asks->end = 0;
	if (!rc && ans.end)
		*ret_asks = ans;
	else if (!rc && ans.out_len > to->out_max)
		rc = -EMSGSIZE;
	else if (!rc)
		answer_copy(w, &ans, n, to);
	if (rc || ans.end)
		fds_close(to->fds, n);
	if (!whole || ans.is_last)
		worker_drop(w);
	return rc;
}

static int question_send(struct reader *r, struct worker *w, const struct question *q, size_t out_max)
{
	union {
		char bytes[sizeof(struct reader_request) + READER_ARG_MAX];
		struct reader_request req;
	} buf;

	buf.req = (struct reader_request){ .seq = ++r->seq, .fn = q->fn, .arg_len = q->arg_len, .out_max = out_max };
	if (q->arg_len)
		memcpy(buf.req.arg, q->arg, q->arg_len);
	if (!reader_send(w->sock, &buf, sizeof(buf.req) + q->arg_len, q->fds, q->n_fds))
		return 0;
	worker_drop(w);
	return -EIO;
}

/* A mapping of this process and no other. That it cannot be had is the job's to deal with. */
static int mapped_give(struct reader *r, struct worker *w, pid_t pid, const struct reader_answer *asks,
		       unsigned deadline_ms)
{
	struct reader_mapped give = { 0 };
	char name[64];
	int fd = -1;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, asks->start, asks->end);
	give.rc = reader_open_file(r, pid, name, deadline_ms, &fd);
	int rc = reader_send(w->sock, &give, sizeof(give), &fd, !give.rc) ? -EIO : 0;

	if (!give.rc)
		close(fd);
	if (rc)
		worker_drop(w);
	return rc;
}

static unsigned left_ms(uint64_t until_ns)
{
	uint64_t now = clock_monotonic_ns();

	return now + WAIT_LEAST_MS * 1000000ull < until_ns ? (until_ns - now) / 1000000 : WAIT_LEAST_MS;
}

/* One deadline for all that the job asks for, and for its answer. */
static int answer_await(struct reader *r, struct worker *w, pid_t pid, const struct question *q, unsigned deadline_ms,
			const struct answer_room *to)
{
	uint64_t seq = r->seq, until_ns = clock_monotonic_ns() + deadline_ms * 1000000ull;
	struct reader_answer asks = { 0 };
	int n = 0, rc = wait_answer(r, w, pid, deadline_ms);

	while (!rc) {
		rc = take_answer(w, seq, to, &asks);
		if (rc || !asks.end) {
			/* Any answer, even an error, shows that the lock was free. */
			if (pid)
				reader_unblock(r, pid);
			return rc;
		}
		if (!q->gives_files || n++ == FILES_ASKED_MAX) {
			worker_drop(w);
			return -EIO;
		}
		rc = mapped_give(r, w, pid, &asks, left_ms(until_ns));
		rc = rc ? rc : wait_answer(r, w, pid, left_ms(until_ns));
	}
	return rc;
}

static int worker_run(struct reader *r, enum worker_kind kind, pid_t pid, const struct question *q,
		      unsigned deadline_ms, const struct answer_room *to)
{
	struct worker *w = &r->worker[kind];

	if (q->arg_len > READER_ARG_MAX || to->out_max > READER_OUT_MAX || q->n_fds > READER_FDS_MAX)
		return -E2BIG;
	int rc = late_check(&r->late, pid);

	if (!rc)
		rc = worker_ensure(r, kind);
	if (!rc)
		rc = question_send(r, w, q, to->out_max);
	return rc ? rc : answer_await(r, w, pid, q, deadline_ms, to);
}

int reader_run_fds(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
		   void *out, size_t out_max, size_t *ret_len, int *ret_fds, size_t *ret_n)
{
	struct question q = { .fn = fn, .arg = arg, .arg_len = arg_len };
	struct answer_room to = { out, out_max, ret_len, ret_fds, READER_FDS_MAX, ret_n };

	return worker_run(r, WORKER_READER, pid, &q, deadline_ms, &to);
}

int reader_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
	       void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	struct question q = { .fn = fn, .arg = arg, .arg_len = arg_len };
	int fd = -1;
	size_t n = 0;
	struct answer_room to = { out, out_max, ret_len, &fd, ret_fd ? 1 : 0, &n };
	int rc = worker_run(r, WORKER_READER, pid, &q, deadline_ms, &to);

	if (rc || !ret_fd)
		return rc;
	*ret_fd = fd;
	return n ? 0 : -EPROTO;
}

int parser_ask(struct reader *r, pid_t pid, const struct question *q, unsigned deadline_ms, void *out, size_t out_max,
	       size_t *ret_len)
{
	struct answer_room to = { .out = out, .out_max = out_max, .ret_len = ret_len };

	return worker_run(r, WORKER_PARSER, pid, q, deadline_ms, &to);
}

int parser_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
	       size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len)
{
	struct question q = { fn, arg, arg_len, fds, n_fds, false };

	return parser_ask(r, pid, &q, deadline_ms, out, out_max, ret_len);
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
	for (int k = 0; k < WORKER_KINDS; k++)
		r->worker[k] = (struct worker){ .fd = -1, .sock = -1 };
	r->ctl = pair[0];
	r->zygote = fork();
	if (r->zygote == 0)
		reader_zygote_main(pair[1], self);
	close(pair[1]);
	int rc = r->zygote < 0 ? -errno : worker_ensure(r, WORKER_READER);

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
	for (int k = 0; k < WORKER_KINDS; k++)
		worker_drop(&r->worker[k]);
	if (r->zygote > 0) {
		kill(r->zygote, SIGKILL); /* it never touches a target, so this wait is short */
		while (waitpid(r->zygote, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(r->ctl);
	late_free(&r->late);
	free(r);
}
