/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_io.c - output descriptors and UTF-8. Process names, paths and stack frames of a target are bytes that
 * need not be text.
 */
#include "sink/sink_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int open_output(const char *path)
{
	int fd;

	if (!strcmp(path, "-"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr")) /* opening it again would empty a file that it was redirected to */
		return STDERR_FILENO;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : fd;
}

int close_output(int fd)
{
	if (fd <= STDERR_FILENO)
		return 0;
	return close(fd) ? -errno : 0;
}

int write_whole(int fd, const void *data, size_t len, size_t *ret_written)
{
	size_t done = 0;
	int err = 0;

	while (done < len && !err) {
		ssize_t n = write(fd, (const char *)data + done, len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			err = -EIO;
		else if (errno != EINTR)
			err = -errno;
	}
	if (ret_written)
		*ret_written = done;
	return err;
}

size_t utf8_len(const char *s)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)))
		return 0;
	if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)))
		return 0;
	return n;
}

bool utf8_valid(const char *s)
{
	while (*s) {
		size_t n = (unsigned char)*s < 0x80 ? 1 : utf8_len(s);

		if (!n)
			return false;
		s += n;
	}
	return true;
}

size_t utf8_copy(char *out, size_t size, const char *s)
{
	size_t used = 0;

	while (*s) {
		size_t n = utf8_len(s), put = n ? n : 3;

		if (used + put >= size)
			break;
		memcpy(out + used, n ? s : "\xef\xbf\xbd", put);
		used += put;
		s += n ? n : 1;
	}
	if (size)
		out[used] = '\0';
	return used;
}

char *utf8_dup(const char *s)
{
	size_t size = 3 * strlen(s) + 1;
	char *out = malloc(size);

	if (out)
		utf8_copy(out, size, s);
	return out;
}
