/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - see fuzz.h.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void feed_bytes(struct feed *f, void *to, size_t n)
{
	size_t have = n < f->left ? n : f->left;

	memset(to, 0, n);
	memcpy(to, f->at, have);
	f->at += have;
	f->left -= have;
}

uint64_t feed_number(struct feed *f, size_t bytes)
{
	uint64_t v = 0;

	feed_bytes(f, &v, bytes);
	return v;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

int fuzz_file(const uint8_t *data, size_t size, char path[32])
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}
