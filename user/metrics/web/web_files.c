/* SPDX-License-Identifier: Apache-2.0
 *
 * web_files.c - see web_config.h: files that it takes, whole, and without a trace left in memory.
 */
#include "metrics/web/web_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX (1u << 20)

static int whole_read(int fd, char *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = read(fd, to + at, len - at);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO; /* it became shorter */
		at += n > 0 ? (size_t)n : 0;
	}
	to[len] = 0;
	return strlen(to) == len ? 0 : -EINVAL;
}

int web_file_read(const char *path, size_t max, char **ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = fd < 0 ? -errno : 0; /* a FIFO has no end */
	struct stat s;
	char *text;

	if (err)
		return err;
	err = fstat(fd, &s) ? -errno : !S_ISREG(s.st_mode) ? -EINVAL : s.st_size > (off_t)max ? -EFBIG : 0;
	text = err ? NULL : calloc(1, (size_t)s.st_size + 1);
	err = err ? err : text ? whole_read(fd, text, (size_t)s.st_size) : -ENOMEM;
	close(fd);
	if (err)
		free(text);
	else
		*ret = text;
	return err;
}

const char *web_file_error(int err)
{
	return err == -EINVAL ? "not a text file" : strerror(-err);
}

static int pem_load(struct web_config *c, enum web_pem which, char *error, size_t size)
{
	const char *key = web_pem_keys[which], *has = which == WEB_KEY ? "PRIVATE KEY" : "BEGIN CERTIFICATE";
	struct web_file *f = &c->pems[which];
	int err = web_file_read(f->path, PEM_MAX, &f->text);

	if (err) {
		snprintf(error, size, "%s:%u: %s: %s: %s; a PEM file is wanted", c->path, f->line, key, f->path,
			 web_file_error(err));
		return err;
	}
	if (strstr(f->text, "ENCRYPTED")) {
		snprintf(error, size, "%s:%u: %s: %s is encrypted; give a key without a passphrase", c->path, f->line,
			 key, f->path);
		return -EINVAL;
	}
	if (strstr(f->text, has))
		return 0;
	snprintf(error, size, "%s:%u: %s: %s has no line with '%s'; a PEM file is wanted", c->path, f->line, key,
		 f->path, has);
	return -EINVAL;
}

int web_config_load(struct web_config *c, char *error, size_t size)
{
	int err = 0;

	for (int i = 0; !err && i < WEB_PEMS; i++)
		if (c->pems[i].path)
			err = pem_load(c, (enum web_pem)i, error, size);
	return err;
}

static void file_free(struct web_file *f)
{
	free(f->path);
	if (f->text)
		explicit_bzero(f->text, strlen(f->text));
	free(f->text);
}

void web_config_free(struct web_config *c)
{
	for (int i = 0; i < WEB_PEMS; i++)
		file_free(&c->pems[i]);
	free(c->path);
	explicit_bzero(c, sizeof(*c));
}
