/* SPDX-License-Identifier: Apache-2.0
 *
 * new_file.c - see new_file.h.
 */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

int new_file_open(const char *path)
{
	struct stat is;
	int flags = O_WRONLY | O_CLOEXEC, fd;

	if (stat(path, &is) || S_ISREG(is.st_mode))
		flags |= O_CREAT | O_TRUNC | O_NOFOLLOW;
	fd = open(path, flags, 0600);
	return fd < 0 ? -errno : fd;
}
