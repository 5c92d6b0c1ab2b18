/* SPDX-License-Identifier: Apache-2.0
 *
 * recording.c - see recording.h and schemas/recording.md.
 *
 * One write() per chunk, so a kill leaves whole chunks; of a chunk that a full disk cut nothing stays. A torn last
 * chunk (power loss) fails its checksum and ends the reading.
 */
#include "recording/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <libdeflate.h>

#include "base/new_file.h"
#include "base/write_whole.h"
#include "recording/chunk.h"
#include "schemas/recording.h"

struct recording {
	int fd;
	struct chunk *chunk;
	uint64_t n_put, n_written; /* records */
	int failed;                /* first -errno: writes nothing more */
};

static int descriptor_copy(int of)
{
	int fd = fcntl(of, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

int recording_create(const char *path, struct recording **ret)
{
	struct recording_header h = { .magic = RECORDING_MAGIC, .version = RECORDING_VERSION };
	struct recording *r = calloc(1, sizeof(*r));
	int err = -ENOMEM;

	if (!r)
		return -ENOMEM;
	r->chunk = chunk_new();
	r->fd = strcmp(path, "-") ? new_file_open(path) : descriptor_copy(STDOUT_FILENO);
	if (r->fd < 0)
		err = r->fd;
	else if (r->chunk)
		err = write_whole(r->fd, &h, sizeof(h));
	if (err) {
		r->failed = err;
		recording_close(r);
		return err;
	}
	*ret = r;
	return 0;
}

int recording_flush(struct recording *r)
{
	const void *bytes;
	long size = r->failed ? 0 : chunk_pack(r->chunk, &bytes);

	if (!r->failed && size)
		r->failed = size < 0 ? size : write_whole(r->fd, bytes, size);
	if (!r->failed)
		r->n_written = r->n_put;
	return r->failed;
}

int recording_put(struct recording *r, const struct wire_hdr *rec)
{
	int err = r->failed;

	if (!err && !chunk_has_room(r->chunk, rec))
		err = recording_flush(r);
	if (!err) {
		chunk_put(r->chunk, rec);
		r->n_put++;
	}
	return err;
}

uint64_t recording_written(const struct recording *r)
{
	return r->n_written;
}

int recording_close(struct recording *r)
{
	int err = recording_flush(r);

	if (r->fd >= 0 && close(r->fd) && !err)
		err = -errno;
	chunk_free(r->chunk);
	free(r);
	return err;
}

struct recording_reader {
	int fd;
	struct libdeflate_decompressor *inflate;
	char *raw, *packed;
	size_t at, size;
	off_t begin; /* of the file; -1: it cannot be read again */
};

static ssize_t read_all(int fd, void *data, size_t size)
{
	size_t got = 0;
	ssize_t n;

	while (got < size) {
		n = read(fd, (char *)data + got, size - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += n;
	}
	return got;
}

static int header_check(int fd)
{
	struct recording_header h;
	ssize_t n = read_all(fd, &h, sizeof(h));

	if (n < 0)
		return n;
	if ((size_t)n < sizeof(h) || h.magic != RECORDING_MAGIC)
		return -EPROTO;
	return h.version > RECORDING_VERSION ? -EPROTONOSUPPORT : 0;
}

int recording_open(const char *path, struct recording_reader **ret)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : recording_open_fd(fd, ret);
}

int recording_open_fd(int fd, struct recording_reader **ret)
{
	struct recording_reader *r = calloc(1, sizeof(*r));
	int err;

	if (!r) {
		close(fd);
		return -ENOMEM;
	}
	r->fd = fd;
	r->begin = lseek(fd, 0, SEEK_CUR);
	err = header_check(fd);
	r->raw = malloc(CHUNK_RAW_MAX);
	r->packed = malloc(CHUNK_PACKED_MAX);
	r->inflate = libdeflate_alloc_decompressor();
	if (!err && (!r->raw || !r->packed || !r->inflate))
		err = -ENOMEM;
	if (err)
		recording_reader_free(r);
	else
		*ret = r;
	return err;
}

/* 1: a chunk is in `raw`, 0: clean end, -EBADMSG. */
static int chunk_read(struct recording_reader *r)
{
	struct recording_chunk c;
	ssize_t n = read_all(r->fd, &c, sizeof(c));
	size_t size;

	if (!n)
		return 0;
	if (n != sizeof(c) || c.magic != RECORDING_CHUNK_MAGIC || c.raw_bytes > CHUNK_RAW_MAX ||
	    c.packed_bytes > CHUNK_PACKED_MAX)
		return -EBADMSG;
	if (read_all(r->fd, r->packed, c.packed_bytes) != (ssize_t)c.packed_bytes ||
	    libdeflate_crc32(0, r->packed, c.packed_bytes) != c.crc32 ||
	    libdeflate_zlib_decompress(r->inflate, r->packed, c.packed_bytes, r->raw, c.raw_bytes, &size) !=
		    LIBDEFLATE_SUCCESS ||
	    size != c.raw_bytes)
		return -EBADMSG;
	r->at = 0;
	r->size = size;
	return 1;
}

int recording_next(struct recording_reader *r, const struct wire_hdr **ret_rec)
{
	const struct wire_hdr *h;
	int more = 1;

	while (r->at >= r->size && more == 1)
		more = chunk_read(r);
	if (more != 1)
		return more;
	h = (const void *)(r->raw + r->at);
	if (r->size - r->at < sizeof(*h) || h->size < sizeof(*h) || h->size % 8 || h->size > r->size - r->at)
		return -EBADMSG;
	r->at += h->size;
	*ret_rec = h;
	return 1;
}

bool recording_ready(const struct recording_reader *r)
{
	return r->at < r->size;
}

int recording_rewind(struct recording_reader *r)
{
	if (r->begin < 0 || lseek(r->fd, r->begin, SEEK_SET) < 0)
		return -ESPIPE;
	r->at = r->size = 0;
	return header_check(r->fd);
}

void recording_reader_free(struct recording_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	libdeflate_free_decompressor(r->inflate);
	free(r->raw);
	free(r->packed);
	free(r);
}
