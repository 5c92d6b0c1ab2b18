/* SPDX-License-Identifier: Apache-2.0
 *
 * lines_out.c - see lines_out.h. A descriptor that blocks never holds anything: it is written as any file.
 */
#include "sink/lines_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink/sink_io.h"

#define LAST_WAIT_MS 2000

static int stdout_anew(void)
{
	int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? STDOUT_FILENO : fd; /* a socket, or another's terminal */
}

void lines_out_begin(struct lines_out *o, int fd)
{
	struct stat is;

	*o = (struct lines_out){ .fd = fd };
	o->is_socket = !fstat(fd, &is) && S_ISSOCK(is.st_mode);
	o->never_waits = o->is_socket || (fd > STDERR_FILENO && fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* What is written from a file waits for its reader: it has no hurry, and its filter of system calls knows no more. */
int lines_out_open(struct lines_out *o, const char *path)
{
	if (!strcmp(path, "/dev/stdout")) {
		lines_out_begin(o, stdout_anew());
		return 0;
	}
	*o = (struct lines_out){ .fd = open_output(path) };
	return o->fd < 0 ? o->fd : 0;
}

/* How much of it went; -errno: -EAGAIN nothing. */
static ssize_t write_some(const struct lines_out *o, const char *text, size_t len)
{
	ssize_t n;

	do
		n = o->is_socket ? send(o->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) : write(o->fd, text, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int lines_out_flush(struct lines_out *o)
{
	ssize_t n = 0;

	while (o->n_held && (n = write_some(o, o->held, o->n_held)) > 0) {
		o->n_held -= (size_t)n;
		memmove(o->held, o->held + n, o->n_held);
	}
	return n < 0 && n != -EAGAIN ? (int)n : 0;
}

static int hold(struct lines_out *o, const char *text, size_t len)
{
	char *grown = realloc(o->held, o->n_held + len);

	if (!grown)
		return -ENOMEM;
	memcpy(grown + o->n_held, text, len);
	o->held = grown;
	o->n_held += len;
	return 0;
}

int lines_out_put(struct lines_out *o, const char *text, size_t len)
{
	int err;

	if (!o->never_waits)
		return write_whole(o->fd, text, len);
	err = lines_out_flush(o);
	if (!err && o->n_held && o->n_held + len > LINES_HELD_MOST)
		return -EAGAIN;
	if (!err)
		err = hold(o, text, len);
	return err ? err : lines_out_flush(o);
}

int lines_out_close(struct lines_out *o)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };
	int err = lines_out_flush(o), closed;

	while (!err && o->n_held && poll(&p, 1, LAST_WAIT_MS) > 0)
		err = lines_out_flush(o);
	if (!err && o->n_held)
		err = -EAGAIN;
	closed = close_output(o->fd);
	free(o->held);
	o->held = NULL;
	o->n_held = 0;
	return err ? err : closed;
}
