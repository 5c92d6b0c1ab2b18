/* SPDX-License-Identifier: Apache-2.0
 *
 * write_whole.c - see write_whole.h.
 */
#include "base/write_whole.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Only what we wrote ourselves, if it is still the end. */
static void cut_back(int fd, size_t written)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct stat is;

	if (!written || at < (off_t)written || fstat(fd, &is) || !S_ISREG(is.st_mode) || is.st_size != at)
		return;
	if (!ftruncate(fd, at - (off_t)written))
		lseek(fd, at - (off_t)written, SEEK_SET);
}

int write_whole(int fd, const void *data, size_t len)
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
	if (err)
		cut_back(fd, done);
	return err;
}
