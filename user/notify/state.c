/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - see state.h.
 */
#include "notify/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/write_whole.h"

#define STATE_MAX (64l << 20)

static int path_of(char to[PATH_MAX], const char *dir, const char *name)
{
	return snprintf(to, PATH_MAX, "%s/%s", dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* NULL: *ret_err. */
static char *file_read(const char *path, int *ret_err)
{
	FILE *f = fopen(path, "re");
	struct stat is;
	char *text = NULL;
	size_t n;

	*ret_err = f ? 0 : -errno;
	if (f && (fstat(fileno(f), &is) || is.st_size > STATE_MAX))
		*ret_err = -EFBIG;
	else if (f && !(text = malloc((size_t)is.st_size + 1)))
		*ret_err = -ENOMEM;
	if (text) {
		n = fread(text, 1, (size_t)is.st_size, f);
		text[n] = 0;
	}
	if (f)
		fclose(f);
	return text;
}

static cJSON *state_read(const char *dir, int *ret_err)
{
	char path[PATH_MAX], *text = NULL;
	cJSON *o = NULL;

	*ret_err = path_of(path, dir, NOTIFY_STATE);
	if (!*ret_err)
		text = file_read(path, ret_err);
	if (text) {
		o = cJSON_Parse(text);
		*ret_err = o ? 0 : -EINVAL;
	}
	free(text);
	return o;
}

int notify_state_load(const char *dir, struct notices *s, const char *const *names, int n_names)
{
	int err;
	cJSON *o = state_read(dir, &err);

	if (o)
		err = notices_load(s, o, names, n_names);
	cJSON_Delete(o);
	return err == -ENOENT ? 0 : err;
}

int64_t notify_state_saved_ms(const char *dir)
{
	int err;
	cJSON *o = state_read(dir, &err);
	const cJSON *saved = cJSON_GetObjectItemCaseSensitive(o, "saved_ms");
	int64_t ms = cJSON_IsNumber(saved) ? (int64_t)saved->valuedouble : 0;

	cJSON_Delete(o);
	return ms;
}

static int file_replace(const char *dir, const char *text)
{
	char path[PATH_MAX], next[PATH_MAX];
	int err = path_of(path, dir, NOTIFY_STATE), fd;

	err = err ? err : path_of(next, dir, NOTIFY_STATE ".new");
	if (err)
		return err;
	fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	err = write_whole(fd, text, strlen(text));
	if (!err && fsync(fd))
		err = -errno;
	close(fd);
	if (!err && rename(next, path))
		err = -errno;
	return err;
}

int notify_state_save(const char *dir, const struct notices *s, const char *const *names, int n_names, int64_t now_ms)
{
	cJSON *o = notices_save(s, names, n_names);
	char *text;
	int err;

	cJSON_AddNumberToObject(o, "saved_ms", (double)now_ms);
	text = o ? cJSON_PrintUnformatted(o) : NULL;
	err = text ? file_replace(dir, text) : -ENOMEM;
	cJSON_free(text);
	cJSON_Delete(o);
	return err;
}

int notify_state_make(const char *dir)
{
	char path[PATH_MAX];
	int err = path_of(path, dir, NOTIFY_ACKS), fd;

	if (err)
		return err;
	if (mkdir(dir, 0750) && errno != EEXIST)
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0660);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

void notify_acks_take(const char *dir, struct notices *s, long *at)
{
	char path[PATH_MAX], line[FINDING_ID_MAX + 160];
	FILE *f = path_of(path, dir, NOTIFY_ACKS) ? NULL : fopen(path, "re");

	if (!f)
		return;
	if (fseek(f, 0, SEEK_END) || ftell(f) < *at)
		*at = 0; /* emptied by somebody */
	fseek(f, *at, SEEK_SET);
	while (fgets(line, sizeof(line), f) && strchr(line, '\n')) {
		*at = ftell(f);
		line[strcspn(line, " \t\n")] = 0;
		notices_acknowledge(s, line);
	}
	fclose(f);
}

int notify_ack(const char *dir, const char *id)
{
	char path[PATH_MAX], line[FINDING_ID_MAX + 2];
	int len = snprintf(line, sizeof(line), "%s\n", id), err = path_of(path, dir, NOTIFY_ACKS);
	int fd = err ? -1 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);

	if (err || fd < 0)
		return err ? err : -errno;
	if (write(fd, line, (size_t)len) != len)
		err = -EIO;
	close(fd);
	return err;
}
