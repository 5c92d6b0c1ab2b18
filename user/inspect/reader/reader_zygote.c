/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_zygote.c - the helper's root, which does nothing but fork workers. It keeps no file of the collector open (a
 * stalled worker must not hold a pipe or a BPF object alive), and reads no byte that a target had a hand in.
 */
#include "base/confine.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

__attribute__((noreturn)) static void zygote_serve(int sock);

__attribute__((noreturn)) static void forked_serve(int sock, uint32_t kind, int shm, pid_t parent)
{
	if (kind == ZYGOTE_SPARE)
		zygote_serve(
			sock); /* which ends with the collector, by the end of the socket, and not with its parent */
	reader_worker_main(kind, sock, shm, parent);
}

/* Forks one worker; fds becomes {pidfd, our end, shared memory}. The pid or -errno. */
static pid_t worker_fork(int ctl, uint32_t kind, int fds[READER_HELLO_FDS])
{
	int pair[2] = { -1, -1 };
	pid_t self = getpid();

	fds[2] = kind == ZYGOTE_SPARE ? -1 : new_shm();
	if (fds[2] < 0 && kind != ZYGOTE_SPARE)
		return fds[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fds[1] = pair[0];
	pid_t pid = fork();

	if (pid == 0) {
		close(ctl);
		close(pair[0]);
		forked_serve(pair[1], kind, fds[2], self);
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

static void serve_spawn(int ctl, const struct reader_spawn *ask)
{
	int fds[READER_HELLO_FDS] = { -1, -1, -1 };
	struct reader_hello hello = { .number = ask->number };
	pid_t pid = worker_fork(ctl, ask->kind, fds);

	hello.rc = pid < 0 ? pid : 0;
	hello.pid = pid < 0 ? 0 : pid;
	size_t n = pid < 0 ? 0 : ask->kind == ZYGOTE_SPARE ? READER_HELLO_FDS - 1 : READER_HELLO_FDS;

	if (reader_send(ctl, &hello, sizeof(hello), fds, n))
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

static void zygote_serve(int sock)
{
	for (;;) {
		struct reader_spawn ask;
		size_t n = 0;

		if (reader_recv(sock, &ask, sizeof(ask), NULL, 0, &n) != sizeof(ask) || ask.kind > ZYGOTE_SPARE)
			_exit(0);
		serve_spawn(sock, &ask);
	}
}

void reader_zygote_main(int sock, pid_t parent)
{
	sigset_t none;

	if (confine_zygote())
		_exit(1);
	reader_die_with(parent, "ranktrace-zyg");
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
	zygote_serve(sock);
}
