/* SPDX-License-Identifier: Apache-2.0
 *
 * web_pack.c - see web_config.h: a configuration on its way to the server, which can open no file. Both are the same
 * program, so a struct is the format; the PEM texts follow it. The file is in memory alone.
 */
#include "metrics/web/web_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write_whole.h"

struct packed {
	uint32_t clients, n_users;
	uint32_t lens[WEB_PEMS]; /* 0: none */
	struct web_user users[WEB_USERS_MAX];
};

static void packed_fill(struct packed *to, const struct web_config *c)
{
	memset(to, 0, sizeof(*to));
	to->clients = c->clients;
	to->n_users = (uint32_t)c->n_users;
	for (int i = 0; i < WEB_PEMS; i++)
		to->lens[i] = c->pems[i].text ? (uint32_t)strlen(c->pems[i].text) : 0;
	memcpy(to->users, c->users, sizeof(to->users));
}

int web_config_pack(const struct web_config *c, int fd)
{
	int err = ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) ? -errno : 0;
	struct packed head;

	packed_fill(&head, c);
	err = err ? err : write_whole(fd, &head, sizeof(head));
	explicit_bzero(&head, sizeof(head));
	for (int i = 0; !err && i < WEB_PEMS; i++)
		if (c->pems[i].text)
			err = write_whole(fd, c->pems[i].text, strlen(c->pems[i].text));
	return err;
}

static bool is_whole(const struct packed *p, size_t size)
{
	size_t left = size - sizeof(*p);

	for (int i = 0; i < WEB_PEMS; i++) {
		if (p->lens[i] > left)
			return false;
		left -= p->lens[i];
	}
	return p->clients <= WEB_CLIENTS_KNOWN && p->n_users <= WEB_USERS_MAX;
}

static int packed_take(const struct packed *p, struct web_config *ret)
{
	const char *text = (const char *)(p + 1);

	ret->clients = (enum web_clients)p->clients;
	ret->n_users = p->n_users;
	memcpy(ret->users, p->users, sizeof(ret->users));
	for (int i = 0; i < WEB_PEMS; text += p->lens[i++]) {
		ret->pems[i].text = p->lens[i] ? strndup(text, p->lens[i]) : NULL;
		if (p->lens[i] && !ret->pems[i].text)
			return -ENOMEM;
	}
	return 0;
}

int web_config_unpack(int fd, struct web_config *ret)
{
	struct stat s;
	const struct packed *p;
	int err;

	memset(ret, 0, sizeof(*ret));
	if (fstat(fd, &s))
		return -errno;
	if ((size_t)s.st_size < sizeof(*p))
		return -EINVAL;
	p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	err = is_whole(p, (size_t)s.st_size) ? packed_take(p, ret) : -EINVAL;
	munmap((void *)p, (size_t)s.st_size);
	return err;
}
