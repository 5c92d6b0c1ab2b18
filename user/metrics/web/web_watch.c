/* SPDX-License-Identifier: Apache-2.0
 *
 * web_watch.c - see web_watch.h.
 */
#include "metrics/web/web_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of what a link names: Kubernetes changes a secret by a link. */
static void stamp_take(const char *path, struct web_stamp *ret)
{
	struct stat s;

	memset(ret, 0, sizeof(*ret)); /* its padding, too: stamps are compared whole */
	if (!path || stat(path, &s))
		return;
	ret->dev = s.st_dev;
	ret->ino = s.st_ino;
	ret->size = s.st_size;
	ret->written = s.st_mtim;
	ret->changed = s.st_ctim;
}

static void stamps_take(const struct web_watch *w, struct web_stamp *to)
{
	stamp_take(w->config, &to[0]);
	for (int i = 0; i < WEB_PEMS; i++)
		stamp_take(w->pems[i], &to[1 + i]);
}

/* NULL where there is none. */
static int name_keep(char **to, const char *name)
{
	char *copy = name ? strdup(name) : NULL;

	if (name && !copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

/* What is written while it is read differs from these stamps: they are taken first. */
int web_watch_read(struct web_watch *w, const char *path, struct web_config *ret, char *error, size_t size)
{
	struct web_stamp config;
	int err = w->config ? 0 : name_keep(&w->config, path);

	memset(ret, 0, sizeof(*ret));
	snprintf(error, size, "%s: out of memory", path);
	if (err)
		return err;
	stamps_take(w, w->read);
	config = w->read[0];
	err = web_config_read(path, ret, error, size);
	for (int i = 0; !err && i < WEB_PEMS; i++)
		err = name_keep(&w->pems[i], ret->pems[i].path);
	if (err)
		return err;
	stamps_take(w, w->read);
	w->read[0] = config;
	return web_config_load(ret, error, size);
}

bool web_watch_changed(struct web_watch *w, uint64_t now_ns)
{
	struct web_stamp now[1 + WEB_PEMS];
	bool same;

	if (!w->config || now_ns - w->looked_ns < WEB_LOOK_NS)
		return false;
	w->looked_ns = now_ns;
	stamps_take(w, now);
	same = !memcmp(now, w->seen, sizeof(now));
	memcpy(w->seen, now, sizeof(now));
	return same && memcmp(now, w->read, sizeof(now));
}

void web_watch_free(struct web_watch *w)
{
	free(w->config);
	for (int i = 0; i < WEB_PEMS; i++)
		free(w->pems[i]);
	memset(w, 0, sizeof(*w));
}
