/* SPDX-License-Identifier: Apache-2.0
 *
 * lines.c - see lines.h.
 */
#include "notify/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES 65536
#define TAKE_MAX (4u << 20) /* bytes at a time: then messages have a turn */

int lines_open(struct lines *l, const char *path)
{
	*l = (struct lines){ .path = path, .fd = -1, .held = malloc(LINE_MAX_BYTES) };
	if (!l->held)
		return -ENOMEM;
	if (!strcmp(path, "-")) {
		l->fd = STDIN_FILENO;
		fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
	}
	return 0;
}

void lines_close(struct lines *l)
{
	if (l->fd > STDIN_FILENO)
		close(l->fd);
	free(l->held);
}

static void byte_take(struct lines *l, char c, void (*each)(void *of, const char *line), void *of)
{
	if (c == '\n') {
		l->held[l->len] = 0;
		if (l->len && !l->skips)
			each(of, l->held);
		l->len = 0;
		l->skips = false;
	} else if (l->len + 1 < LINE_MAX_BYTES) {
		l->held[l->len++] = c;
	} else {
		l->skips = true;
	}
}

/* Bytes that came; 0: none now. */
static size_t some_take(struct lines *l, void (*each)(void *of, const char *line), void *of)
{
	char data[READ_BYTES];
	ssize_t n = read(l->fd, data, sizeof(data));

	for (ssize_t i = 0; i < n; i++)
		byte_take(l, data[i], each, of);
	l->ended |= l->fd == STDIN_FILENO && (!n || (n < 0 && errno != EAGAIN && errno != EINTR));
	return n > 0 ? (size_t)n : 0;
}

/* The name leads to another file now, or this one was emptied: what is left of the old one was read before. */
static void file_renew(struct lines *l)
{
	struct stat is, open_is;

	if (l->fd == STDIN_FILENO || stat(l->path, &is))
		return;
	if (l->fd >= 0 && !fstat(l->fd, &open_is) && is.st_ino == open_is.st_ino && is.st_dev == open_is.st_dev) {
		if (lseek(l->fd, 0, SEEK_CUR) > open_is.st_size)
			lseek(l->fd, 0, SEEK_SET);
		return;
	}
	if (l->fd >= 0)
		close(l->fd);
	l->len = 0;
	l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
}

void lines_take(struct lines *l, void (*each)(void *of, const char *line), void *of)
{
	size_t taken = 0, n = 1;

	for (int round = 0; round < 2; round++) { /* the old file's end, then the new one */
		while (l->fd >= 0 && n && taken < TAKE_MAX) {
			n = some_take(l, each, of);
			taken += n;
		}
		n = 1;
		if (!round)
			file_renew(l);
	}
}
