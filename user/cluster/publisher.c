/* SPDX-License-Identifier: Apache-2.0
 *
 * publisher.c - see publisher.h. Read publisher_run() first. One message at a time is on its way: what the server has
 * not acknowledged stays first in the spool, so that order holds, and a message may arrive twice: its number says so.
 */
#include "cluster/publisher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/log.h"
#include "cluster/answers.h"
#include "cluster/report.h"
#include "cluster/spool.h"

#define SPOOL_BYTES (8u << 20) /* of 8 ranks: half an hour */
#define RETRY_MS 500
#define LAST_NS 2000000000ull /* at the end, for what is left */
#define SOCKET_BYTES (1 << 20)
#define ANSWER_MS 10000
#define SETTINGS_EVERY_NS 5000000000ull
#define SETTINGS_AGAIN_NS \
	60000000000ull /* not to be read: no hub has run, or the account may not; asking takes time \
			*/

struct publisher {
	struct bus *bus;
	const char *token;
	int fd;
	struct spool *spool;
	uint64_t gone; /* since it was last said */
	uint64_t ended_ns;
	uint64_t ask_ns;  /* for settings, next */
	uint64_t settled; /* the revision of those that the tracer has */
	bool cut;         /* said */
	struct answers answers;
};

/* --- in --- */

/* As recv(); *ret_fd: what came with it, or -1. */
static ssize_t message_receive(int fd, void *to, size_t size, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { .iov_base = to, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	*ret_fd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	return n;
}

static void message_keep(struct publisher *p, const char *bytes, size_t n, int file)
{
	struct publisher_frame frame;
	struct publisher_file note;

	memcpy(&frame, bytes, sizeof(frame));
	if (frame.agent) {
		p->gone += spool_put(p->spool, bytes, n);
	} else if (n == sizeof(frame) + sizeof(note)) {
		memcpy(&note, bytes + sizeof(frame), sizeof(note));
		answers_take(&p->answers, &note, file);
		return;
	}
	if (file >= 0)
		close(file);
}

static void messages_take(struct publisher *p)
{
	static char buf[sizeof(struct publisher_frame) + REPORT_BYTES_MAX];
	ssize_t n;
	int file;

	while (!p->ended_ns) {
		n = message_receive(p->fd, buf, sizeof(buf), &file);
		if (n > (ssize_t)sizeof(struct publisher_frame))
			message_keep(p, buf, (size_t)n, file);
		else if (n < 0 && errno != EINTR)
			return;
		else if (!n)
			p->ended_ns = clock_monotonic_ns();
	}
}

/* --- out --- */

static const char *why(int err)
{
	return err == -ENOTCONN ? "no connection" : err == -ENOENT ? "no hub has run there yet" : strerror(-err);
}

static void state_say(struct publisher *p, int err)
{
	if (err && !p->cut)
		log_warn("the bus does not take reports (%s): they are kept, and sent in order when it does", why(err));
	else if (!err && p->cut)
		log_info("the bus takes reports again; %zu wait", spool_count(p->spool));
	if (!err && p->gone)
		log_warn("%" PRIu64 " reports were dropped: the bus did not take them, and their room is bounded",
			 p->gone);
	p->gone = err ? p->gone : 0;
	p->cut = err != 0;
}

/* 0: it is over for this message, stored or refused for good. */
static int first_publish(struct publisher *p)
{
	struct publisher_frame frame;
	char id[BUS_TOKEN_MAX + 48];
	size_t len;
	const char *data = spool_first(p->spool, &len);
	int err;

	memcpy(&frame, data, sizeof(frame));
	snprintf(id, sizeof(id), "%s-%" PRIx64 "-%" PRIu64, p->token, frame.agent, frame.sequence);
	err = p->bus->class->publish(p->bus, p->token, data + sizeof(frame), len - sizeof(frame), id);
	if (err != -EMSGSIZE)
		return err;
	p->gone++; /* never */
	return 0;
}

static int spool_publish(struct publisher *p)
{
	size_t len;
	int err = 0;

	while (!err && spool_first(p->spool, &len)) {
		err = first_publish(p);
		if (!err)
			spool_drop(p->spool);
		state_say(p, err);
		messages_take(p);
	}
	return err;
}

/* --- settings --- */

/* What is set for all hosts, then this one's. */
static int settings_read(const struct publisher *p, struct agent_settings *to)
{
	const char *keys[] = { SETTINGS_ALL, p->token };
	int err = 0;

	memset(to, 0, sizeof(*to));
	for (int i = 0; i < 2 && !err; i++) {
		size_t at = strlen(to->text);
		uint64_t revision;

		err = p->bus->class->table_read(p->bus, BUS_SETTINGS, keys[i], to->text + at, SETTINGS_BYTES,
						&revision);
		to->revision += revision;
	}
	return err;
}

/* Revisions only rise, and so does their sum. */
static void settings_turn(struct publisher *p)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct publisher_word w = { .kind = WORD_SETTINGS };
	int err;

	if (now_ns < p->ask_ns || p->ended_ns)
		return;
	err = settings_read(p, &w.settings);
	p->ask_ns = now_ns + (err && err != -ENOTCONN ? SETTINGS_AGAIN_NS : SETTINGS_EVERY_NS);
	if (!err && w.settings.revision != p->settled &&
	    send(p->fd, &w, sizeof(w), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(w))
		p->settled = w.settings.revision;
}

bool publisher_hear(int fd, struct publisher_word *ret)
{
	if (recv(fd, ret, sizeof(*ret), MSG_DONTWAIT) != sizeof(*ret))
		return false;
	if (ret->kind == WORD_SETTINGS)
		ret->settings.text[sizeof(ret->settings.text) - 1] = 0;
	else
		ret->ask.job[sizeof(ret->ask.job) - 1] = 0;
	return true;
}

void publisher_answer(int fd, uint64_t number, const char *host, int file, const char *error)
{
	struct {
		struct publisher_frame frame;
		struct publisher_file note;
	} out = { .note.number = number };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec io = { .iov_base = &out, .iov_len = sizeof(out) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };
	struct cmsghdr *c;

	snprintf(out.note.host, sizeof(out.note.host), "%s", host);
	snprintf(out.note.error, sizeof(out.note.error), "%s", error);
	if (file >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS,
				       .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(c), &file, sizeof(file));
	}
	sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_over(const struct publisher *p)
{
	return p->ended_ns && (!spool_count(p->spool) || clock_monotonic_ns() - p->ended_ns > LAST_NS);
}

void publisher_run(struct bus *b, const char *token, int fd, struct spool *s)
{
	struct publisher p = { .bus = b, .token = token, .fd = fd, .spool = s };
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	bool more = false;

	answers_init(&p.answers);
	while (!is_over(&p)) {
		messages_take(&p);
		if (spool_publish(&p) && !is_over(&p)) {
			usleep(RETRY_MS * 1000);
			continue;
		}
		settings_turn(&p);
		if (!p.ended_ns) {
			answers_hear(&p.answers, b, token, fd);
			more = answers_put(&p.answers, b, token);
			poll(&wait, 1, more ? 0 : -1);
		}
	}
	answers_free(&p.answers, b);
}

/* --- the process --- */

struct answer {
	int err;
	char error[512];
};

/* Its user owns files that another process of no capability must not write to. What it sends is open already. */
int publisher_confine(void)
{
	static const char *const writable[] = { "/dev/null" };
	int err = confine_bus();

	if (!err)
		err = confine_writes(writable, 1);
	return err ? err : confine_bus_calls(); /* the library's threads have the filter of the one that starts them */
}

static _Noreturn void child_main(const struct bus_cfg *cfg, const char *token, int fd)
{
	struct spool *s = spool_new(SPOOL_BYTES);
	struct answer a = { .err = s ? 0 : -ENOMEM, .error = "out of memory" };
	struct bus *b = NULL;

	prctl(PR_SET_NAME, "ranktrace-bus");
	signal(SIGINT, SIG_IGN); /* it ends after the tracer does */
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (!a.err)
		a.err = publisher_confine();
	if (!a.err)
		a.err = bus_nats_open(cfg, &b, a.error, sizeof(a.error));
	if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) == sizeof(a) && !a.err)
		publisher_run(b, token, fd, s);
	_exit(0);
}

static int answer_wait(int fd, char *error, size_t size)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct answer a = { .err = -EIO, .error = "the process that publishes reports did not start" };

	if (poll(&wait, 1, ANSWER_MS) == 1 && recv(fd, &a, sizeof(a), 0) != sizeof(a))
		a.err = -EIO;
	snprintf(error, size, "%.*s", (int)sizeof(a.error), a.error);
	return a.err;
}

int publisher_start(const struct bus_cfg *cfg, const char *token, int *ret_fd, char *error, size_t error_size)
{
	int pair[2], err, bytes = SOCKET_BYTES;
	pid_t child;

	snprintf(error, error_size, "no process that publishes reports can be started");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	child = fork();
	if (!child) {
		close(pair[0]);
		child_main(cfg, token, pair[1]);
	}
	err = child < 0 ? -errno : 0;
	close(pair[1]);
	err = err ? err : answer_wait(pair[0], error, error_size);
	if (err)
		close(pair[0]);
	else
		*ret_fd = pair[0];
	return err;
}
