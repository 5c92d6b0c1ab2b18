/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_worker.c - the helper's side: the zygote, which does nothing but fork, and the worker, which runs one job at
 * a time. Neither keeps any file of the collector open (a stalled worker must not hold a pipe or a BPF object alive).
 */
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int reader_send(int sock, const void *data, size_t len, const int *fds, size_t n)
{
	union {
		char buf[CMSG_SPACE(READER_HELLO_FDS * sizeof(int))];
		struct cmsghdr align;
	} ctl = { { 0 } };
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		msg.msg_control = ctl.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	for (;;) {
		ssize_t got = sendmsg(sock, &msg, MSG_NOSIGNAL);

		if (got >= 0)
			return (size_t)got == len ? 0 : -EMSGSIZE;
		if (errno != EINTR)
			return -errno;
	}
}

static size_t take_fds(struct msghdr *msg, int *fds, size_t n)
{
	size_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (taken < n)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

ssize_t reader_recv(int sock, void *data, size_t max, int *fds, size_t n, size_t *ret_n)
{
	union {
		char buf[CMSG_SPACE(READER_HELLO_FDS * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = { data, max };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	ssize_t got;

	do
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	size_t taken = take_fds(&msg, fds, n);

	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		while (taken)
			close(fds[--taken]);
		return -EMSGSIZE;
	}
	*ret_n = taken;
	return got;
}

static void run_job(int sock, const struct reader_request *req, int fd_in, char *shm)
{
	struct reader_job job = {
		.arg = req->arg,
		.arg_len = req->arg_len,
		.fd_in = fd_in,
		.out = shm,
		.out_max = req->out_max,
		.fd_out = -1,
	};
	struct reader_answer ans = { .seq = req->seq };

	ans.rc = req->fn(&job);
	ans.out_len = ans.rc ? 0 : job.out_len;
	ans.has_fd = !ans.rc && job.fd_out >= 0;
	if (reader_send(sock, &ans, sizeof(ans), &job.fd_out, ans.has_fd))
		_exit(0);
	if (job.fd_out >= 0)
		close(job.fd_out);
}

static void worker_main(int sock, char *shm)
{
	static union {
		char bytes[sizeof(struct reader_request) + READER_ARG_MAX];
		struct reader_request req;
	} buf;

	for (;;) {
		int fd_in = -1;
		size_t n_fds = 0;
		ssize_t got = reader_recv(sock, &buf, sizeof(buf), &fd_in, 1, &n_fds);

		if (got < (ssize_t)sizeof(buf.req) || got - sizeof(buf.req) != buf.req.arg_len)
			_exit(0);
		run_job(sock, &buf.req, fd_in, shm);
		if (fd_in >= 0)
			close(fd_in);
	}
}

/* A hostile file must not make the helper eat the machine; address sanitizer's shadow does not fit in any limit. */
static void limit_memory(void)
{
	struct rlimit core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &core);
#ifndef __SANITIZE_ADDRESS__
	struct rlimit data = { 1ul << 30, 1ul << 30 };

	setrlimit(RLIMIT_DATA, &data);
#endif
}

static void die_with(pid_t parent, const char *name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	if (getppid() != parent)
		_exit(0);
}

static int new_shm(void)
{
	int fd = memfd_create("ranktrace-reader", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	/* Sealed, so that no worker can shrink it under the collector's feet. */
	if (ftruncate(fd, READER_OUT_MAX) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

static void worker_start(int sock, int shm_fd, pid_t parent)
{
	die_with(parent, "ranktrace-read");
	signal(SIGCHLD, SIG_DFL);
	char *shm = mmap(NULL, READER_OUT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, shm_fd, 0);

	if (shm == MAP_FAILED)
		_exit(1);
	close(shm_fd);
	worker_main(sock, shm);
}

/* Forks one worker; fds becomes {pidfd, our end, shared memory}. The pid or -errno. */
static pid_t worker_fork(int ctl, int fds[READER_HELLO_FDS])
{
	int pair[2] = { -1, -1 };
	pid_t self = getpid();

	fds[2] = new_shm();
	if (fds[2] < 0)
		return fds[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fds[1] = pair[0];
	pid_t pid = fork();

	if (pid == 0) {
		close(ctl);
		close(pair[0]);
		worker_start(pair[1], fds[2], self);
		_exit(0);
	}
	int err = errno;

	close(pair[1]);
	if (pid < 0)
		return -err;
	fds[0] = syscall(SYS_pidfd_open, pid, 0);
	if (fds[0] >= 0)
		return pid;
	err = errno;
	kill(pid, SIGKILL);
	return -err;
}

static void serve_spawn(int ctl)
{
	int fds[READER_HELLO_FDS] = { -1, -1, -1 };
	struct reader_hello hello = { 0 };
	pid_t pid = worker_fork(ctl, fds);

	hello.rc = pid < 0 ? pid : 0;
	hello.pid = pid < 0 ? 0 : pid;
	if (reader_send(ctl, &hello, sizeof(hello), fds, pid < 0 ? 0 : READER_HELLO_FDS))
		_exit(0);
	for (int i = 0; i < READER_HELLO_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Drops every file of the collector but the socket; 0, 1 and 2 become /dev/null. */
static int keep_only(int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		_exit(1);
	/* Above 2 first: sock itself may be 0, 1 or 2 in a daemon. */
	sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (sock > 3)
		syscall(SYS_close_range, 3, sock - 1, 0);
	syscall(SYS_close_range, sock + 1, ~0u, 0);
	return sock;
}

void reader_zygote_main(int sock, pid_t parent)
{
	sigset_t none;

	die_with(parent, "ranktrace-zyg");
	sock = keep_only(sock);
	/* A Ctrl-C reaches the whole foreground group; the collector decides when the helper ends. */
	for (int sig = 1; sig < 32; sig++)
		if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT || sig == SIGPIPE ||
		    sig == SIGCHLD)
			signal(sig, SIG_IGN);
		else if (sig != SIGKILL && sig != SIGSTOP)
			signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	limit_memory();
	for (;;) {
		char go;
		size_t n = 0;

		if (reader_recv(sock, &go, 1, NULL, 0, &n) != 1)
			_exit(0);
		serve_spawn(sock);
	}
}
