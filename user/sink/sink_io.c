/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_io.c - output descriptors and UTF-8. Process names, paths and stack frames of a target are bytes that
 * need not be text.
 */
#include "sink/sink_io.h"

#include "base/new_file.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int open_output(const char *path)
{
	if (!strcmp(path, "-"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr")) /* opening it again would empty a file that it was redirected to */
		return STDERR_FILENO;
	return new_file_open(path);
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
