/* SPDX-License-Identifier: Apache-2.0
 *
 * output_file.c - see output_file.h.
 */
#include "pipeline/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/keeper.h"

#define PARTS_MAX 1000 /* left behind by sessions that were killed */

/* Best effort: only root may give a file away. */
static void owner_keep(int fd, const struct stat *old)
{
	int ignored = fchown(fd, old->st_uid, old->st_gid);

	(void)ignored;
	fchmod(fd, old->st_mode & 0777);
}

/* Creates a file beside `of` under a name that nothing has: the part of a killed session is evidence too, and may be
 * the input of this one. */
static int part_create(const char *of, const struct stat *old, char **ret)
{
	size_t size = strlen(of) + sizeof(".part1000");
	char *name = malloc(size);
	int fd = -1, err = -EEXIST;

	if (!name)
		return -ENOMEM;
	for (int n = 1; err == -EEXIST && n < PARTS_MAX; n++) {
		snprintf(name, size, "%s.part", of);
		if (n > 1)
			snprintf(name + strlen(name), size - strlen(name), "%d", n);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		err = fd < 0 ? -errno : 0;
	}
	if (err) {
		free(name);
		return err;
	}
	owner_keep(fd, old);
	close(fd);
	*ret = name;
	return 0;
}

static int beside_begin(struct output_file *f, const char *path, const struct stat *old)
{
	int err;

	if (access(path, W_OK)) /* renaming would ask the folder alone */
		return -errno;
	f->replaces = realpath(path, NULL);
	if (!f->replaces)
		return -errno;
	err = part_create(f->replaces, old, &f->name);
	if (err)
		output_file_free(f);
	return err;
}

int output_file_begin(struct output_file *f, const char *path)
{
	bool is_descriptor = !strcmp(path, "-") || !strcmp(path, "/dev/stderr");
	struct stat old;

	*f = (struct output_file){};
	if (!is_descriptor && !stat(path, &old) && S_ISREG(old.st_mode))
		return beside_begin(f, path, &old);
	f->created = !is_descriptor && lstat(path, &old) && errno == ENOENT;
	f->name = strdup(path);
	return f->name ? 0 : -ENOMEM;
}

int output_file_commit(const struct output_file *f)
{
	if (!f->replaces)
		return 0;
	if (f->keeper)
		return keeper_rename(f->keeper, f->number);
	return rename(f->name, f->replaces) ? -errno : 0;
}

void output_file_discard(const struct output_file *f)
{
	if (!f->replaces && !f->created)
		return;
	if (f->keeper)
		keeper_unlink(f->keeper, f->number);
	else
		unlink(f->name);
}

void output_file_free(struct output_file *f)
{
	free(f->name);
	free(f->replaces);
	*f = (struct output_file){};
}
