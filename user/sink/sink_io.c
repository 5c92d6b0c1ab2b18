/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_io.c - output descriptors and UTF-8. Process names, paths and stack frames of a target are bytes that
 * need not be text.
 */
#include "sink/sink_io.h"

#include "base/new_file.h"

#include <errno.h>
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
