/* SPDX-License-Identifier: Apache-2.0
 *
 * keeper.c - see keeper.h. A question is a call and the number of a name, so that who asks cannot say a name of its
 * own.
 */
#include "base/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/confine.h"

enum call { CALL_OPEN, CALL_RENAME, CALL_UNLINK };

struct question {
	uint32_t call, number;
};

struct keeper {
	int sock;
};

struct names {
	const char *const *inputs;
	size_t n_inputs;
	const struct keeper_output *outputs;
	size_t n_outputs;
};

union passed { /* room for one descriptor */
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* ---- in the keeper ---- */

/* *ret_fd: the input, or -1. 0 or -errno. */
static int question_do(const struct names *n, struct question q, int *ret_fd)
{
	const struct keeper_output *o;

	if (q.number >= (q.call == CALL_OPEN ? n->n_inputs : n->n_outputs))
		return -EINVAL;
	o = q.call == CALL_OPEN ? NULL : &n->outputs[q.number];
	switch (q.call) {
	case CALL_OPEN:
		*ret_fd = open(n->inputs[q.number], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		return *ret_fd < 0 ? -errno : 0;
	case CALL_RENAME: return o->replaces && rename(o->name, o->replaces) ? -errno : 0;
	case CALL_UNLINK: return unlink(o->name) ? -errno : 0;
	}
	return -EINVAL;
}

static void answer_send(int sock, int err, int fd)
{
	struct iovec body = { .iov_base = &err, .iov_len = sizeof(err) };
	union passed room = {
		.head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
	};
	struct msghdr m = { .msg_iov = &body, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = &room;
		m.msg_controllen = sizeof(room);
		memcpy(CMSG_DATA(&room.head), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		_exit(1);
}

/* A pipe that it held open would not end for its reader. */
static void others_close(int sock)
{
	if (dup2(sock, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
}

static void keeper_main(const struct names *n, int sock)
{
	struct question q;

	others_close(sock);
	prctl(PR_SET_NAME, "ranktrace-keep");
	if (confine_keeper() || confine_keeper_calls())
		_exit(1);
	while (read(0, &q, sizeof(q)) == sizeof(q)) {
		int fd = -1, err = question_do(n, q, &fd);

		answer_send(0, err, fd);
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

/* ---- who asks ---- */

int keeper_start(const char *const *inputs, size_t n_inputs, const struct keeper_output *outputs, size_t n_outputs,
		 struct keeper **ret)
{
	struct names n = { inputs, n_inputs, outputs, n_outputs };
	struct keeper *k = calloc(1, sizeof(*k));
	int socks[2];
	pid_t pid;

	if (!k)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks)) {
		free(k);
		return -errno;
	}
	pid = fork();
	if (!pid)
		keeper_main(&n, socks[1]);
	close(socks[1]);
	k->sock = socks[0];
	*ret = k;
	if (pid > 0)
		return 0;
	keeper_free(k);
	return -EAGAIN;
}

void keeper_free(struct keeper *k)
{
	if (k)
		close(k->sock);
	free(k);
}

/* What the keeper passed on; -1: nothing. */
static int passed_take(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* 0 or -errno, with a descriptor for CALL_OPEN. */
static int ask(const struct keeper *k, enum call call, size_t number, int *ret_fd)
{
	struct question q = { call, number };
	int err;
	struct iovec out = { .iov_base = &q, .iov_len = sizeof(q) }, in = { .iov_base = &err, .iov_len = sizeof(err) };
	union passed room;
	struct msghdr question = { .msg_iov = &out, .msg_iovlen = 1 };
	struct msghdr answer = {
		.msg_iov = &in, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof(room)
	};

	if (sendmsg(k->sock, &question, MSG_NOSIGNAL) != sizeof(q) ||
	    recvmsg(k->sock, &answer, MSG_CMSG_CLOEXEC) != sizeof(err))
		return -ECHILD;
	*ret_fd = passed_take(&answer);
	return err; /* lint: recvmsg() filled it */
}

int keeper_open(const struct keeper *k, size_t input)
{
	int fd = -1, err = ask(k, CALL_OPEN, input, &fd);

	if (err)
		return err;
	return fd < 0 ? -EMFILE : fd; /* the kernel drops what there is no room for */
}

int keeper_rename(const struct keeper *k, size_t output)
{
	int fd;

	return ask(k, CALL_RENAME, output, &fd);
}

int keeper_unlink(const struct keeper *k, size_t output)
{
	int fd;

	return ask(k, CALL_UNLINK, output, &fd);
}
