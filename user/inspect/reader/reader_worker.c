/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_worker.c - a worker: gives up what its kind needs not, then runs one job at a time. That of a parser may ask
 * back for a file; it is the collector who knows of which process, and whether there is one.
 */
#include "base/confine.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DATA_BYTES (1ul << 30)          /* a hostile file must not make the helper eat the machine */
#define PARSER_SPACE_BYTES (64ul << 30) /* of addresses: mapped files; a debug libtorch has 8 GB */
#define READER_SPACE_BYTES (4ul << 30)  /* it maps no file */
#define WORKER_FILES 512
#define WORKER_CPU_S 120

unsigned worker_cpu_used_s = WORKER_CPU_S / 2;

/* ---- jobs ---- */

static bool cpu_used(void)
{
	struct timespec t;

	return !clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) && t.tv_sec >= worker_cpu_used_s;
}

/* The question at work. */
static struct {
	int sock;
	uint64_t seq;
} asked;

int job_mapped_file(uint64_t start, uint64_t end)
{
	struct reader_answer asks = { .seq = asked.seq, .start = start, .end = end };
	struct reader_mapped got;
	size_t n = 0;
	int fd = -1;

	if (reader_send(asked.sock, &asks, sizeof(asks), NULL, 0) ||
	    reader_recv(asked.sock, &got, sizeof(got), &fd, 1, &n) != sizeof(got))
		_exit(0);
	return got.rc ? got.rc : n ? fd : -EPROTO;
}

static void run_job(int sock, const struct reader_request *req, struct reader_job *job)
{
	struct reader_answer ans = { .seq = req->seq };

	asked.sock = sock;
	asked.seq = req->seq;
	ans.rc = req->fn(job);
	ans.out_len = ans.rc ? 0 : job->out_len;
	ans.n_fds = ans.rc ? 0 : job->n_fds_out;
	ans.is_last = cpu_used();
	if (reader_send(sock, &ans, sizeof(ans), job->fds_out, ans.n_fds) || ans.is_last)
		_exit(0);
	for (size_t i = 0; i < job->n_fds_out; i++)
		close(job->fds_out[i]);
	for (size_t i = 0; i < job->n_fds; i++)
		if (job->fds[i] >= 0)
			close(job->fds[i]);
}

__attribute__((noreturn)) static void worker_loop(int sock, char *shm)
{
	static union {
		char bytes[sizeof(struct reader_request) + READER_ARG_MAX];
		struct reader_request req;
	} buf;

	for (;;) {
		struct reader_job job = { .arg = buf.req.arg, .out = shm };
		ssize_t got = reader_recv(sock, &buf, sizeof(buf), job.fds, READER_FDS_MAX, &job.n_fds);

		if (got < (ssize_t)sizeof(buf.req) || got - sizeof(buf.req) != buf.req.arg_len)
			_exit(0);
		job.arg_len = buf.req.arg_len;
		job.out_max = buf.req.out_max;
		run_job(sock, &buf.req, &job);
	}
}

/* ---- before the first one ---- */

static void limit(int what, rlim_t most)
{
	struct rlimit both = { most, most };

	if (setrlimit(what, &both))
		_exit(1);
}

static void limits_set(enum worker_kind kind)
{
	bool is_parser = kind == WORKER_PARSER;

	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NPROC, 0);
	limit(RLIMIT_CPU, WORKER_CPU_S);
	limit(RLIMIT_NOFILE, WORKER_FILES);
	if (is_parser) /* samples of threads are locked memory */
		limit(RLIMIT_MEMLOCK, 0);
	if (CONFINE_SANITIZED) /* whose shadow does not fit in any */
		return;
	limit(RLIMIT_DATA, DATA_BYTES);
	limit(RLIMIT_AS, is_parser ? PARSER_SPACE_BYTES : READER_SPACE_BYTES);
}

void reader_die_with(pid_t parent, const char *name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	if (getppid() != parent)
		_exit(0);
}

void reader_worker_main(enum worker_kind kind, int sock, int shm_fd, pid_t parent)
{
	signal(SIGCHLD, SIG_DFL);
	char *shm = mmap(NULL, READER_OUT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, shm_fd, 0);

	if (shm == MAP_FAILED)
		_exit(1);
	close(shm_fd);
	limits_set(kind);
	if (kind == WORKER_PARSER ? confine_parser() : confine_reader())
		_exit(1);
	/* After the change of user, which takes the signal of the parent's death back. */
	reader_die_with(parent, kind == WORKER_PARSER ? "ranktrace-parse" : "ranktrace-read");
	if (kind == WORKER_PARSER ? confine_parser_calls() : confine_reader_calls())
		_exit(1);
	worker_loop(sock, shm);
}
