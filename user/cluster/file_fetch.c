/* SPDX-License-Identifier: Apache-2.0
 *
 * file_fetch.c - see file_fetch.h.
 */
#include "cluster/file_fetch.h"

#include <errno.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/write_whole.h"

static int head_fetch(struct bus *b, int64_t user, const char *id, const char *host, struct file_head *head)
{
	char key[BUS_KEY_MAX], bytes[ASK_BYTES_MAX];
	size_t len;
	int err;

	file_key(key, user, id, host, 0);
	err = b->class->piece_get(b, key, bytes, sizeof(bytes), &len);
	if (err)
		return err;
	return file_head_unpack(bytes, len, head) && head->bytes <= FILE_BYTES_MAX &&
			       head->pieces <= FILE_BYTES_MAX / BUS_PIECE_MAX
		       ? 0
		       : -EBADMSG;
}

static int piece_fetch(struct bus *b, const char *key, int fd, uint64_t *bytes_left)
{
	static char bytes[BUS_PIECE_MAX];
	size_t len;
	int err = b->class->piece_get(b, key, bytes, sizeof(bytes), &len);

	if (err == -ENOENT || (!err && len > *bytes_left))
		return -EBADMSG;
	if (err)
		return err;
	*bytes_left -= len;
	return write_whole(fd, bytes, len);
}

int file_fetch(struct bus *b, int64_t user, const char *id, const char *host, struct file_head *head, int *ret_fd)
{
	int err = head_fetch(b, user, id, host, head), fd = -1;
	uint64_t bytes_left = err ? 0 : head->bytes;
	char key[BUS_KEY_MAX];

	*ret_fd = -1;
	if (err || *head->error)
		return err;
	fd = memfd_create("ranktrace-file", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (uint32_t i = 1; i <= head->pieces && !err; i++) {
		file_key(key, user, id, host, i);
		err = piece_fetch(b, key, fd, &bytes_left);
	}
	if (!err && bytes_left)
		err = -EBADMSG;
	if (err)
		close(fd);
	else
		*ret_fd = fd;
	return err;
}
