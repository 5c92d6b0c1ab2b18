/* SPDX-License-Identifier: Apache-2.0
 *
 * output_file.c - see output_file.h.
 */
#include "pipeline/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/keeper.h"

#define PARTS_MAX 1000 /* left behind by sessions that were killed */

static bool is_descriptor(const char *path)
{
	return !strcmp(path, "-") || !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr");
}

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
	if (old)
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
	struct stat old;

	*f = (struct output_file){};
	if (!is_descriptor(path) && !stat(path, &old) && S_ISREG(old.st_mode))
		return beside_begin(f, path, &old);
	f->created = !is_descriptor(path) && lstat(path, &old) && errno == ENOENT;
	f->name = strdup(path);
	return f->name ? 0 : -ENOMEM;
}

/* --- files that follow each other --- */

bool output_file_is_ours(const struct output_file *f)
{
	struct stat is;

	return f->regular && !stat(f->name, &is) && is.st_dev == f->dev && is.st_ino == f->ino;
}

static bool exists(const char *of, unsigned int n)
{
	char name[PATH_MAX];
	struct stat is;

	snprintf(name, sizeof(name), "%s.%u", of, n);
	return !lstat(name, &is);
}

static int numbered_move(const char *of, unsigned int from, unsigned int to)
{
	char was[PATH_MAX], is[PATH_MAX];

	snprintf(was, sizeof(was), "%s.%u", of, from);
	snprintf(is, sizeof(is), "%s.%u", of, to);
	return rename(was, is) ? -errno : 0;
}

/* Removes OF.keep and what follows it without a gap. */
static void surplus_remove(const char *of, unsigned int keep)
{
	char name[PATH_MAX];

	for (unsigned int n = keep; n <= OUTPUT_FILES_MAX && exists(of, n); n++) {
		snprintf(name, sizeof(name), "%s.%u", of, n);
		unlink(name);
	}
}

/* `name` becomes OF.1, OF.1 becomes OF.2, up to the first number that is free. */
static int numbers_shift(const char *of, const char *name, unsigned int keep)
{
	char first[PATH_MAX];
	unsigned int n = 1;
	int err = 0;

	surplus_remove(of, keep);
	while (n < keep && exists(of, n))
		n++;
	for (; n > 1 && !err; n--)
		err = numbered_move(of, n - 1, n);
	if (snprintf(first, sizeof(first), "%s.1", of) >= (int)sizeof(first))
		return -ENAMETOOLONG;
	return err ? err : rename(name, first) ? -errno : 0;
}

static const char *final_name(const struct output_file *f)
{
	return f->replaces ? f->replaces : f->name;
}

void output_file_opened(struct output_file *f)
{
	struct stat is;

	f->regular = !is_descriptor(f->name) && !stat(f->name, &is) && S_ISREG(is.st_mode);
	f->dev = f->regular ? is.st_dev : 0;
	f->ino = f->regular ? is.st_ino : 0;
}

int output_file_part(const struct output_file *f, char **ret)
{
	struct stat old;

	return part_create(final_name(f), stat(f->name, &old) ? NULL : &old, ret);
}

int output_file_follow(struct output_file *f, const char *part, unsigned int keep)
{
	int err = output_file_is_ours(f) ? numbers_shift(final_name(f), f->name, keep) : 0;

	if (!err && rename(part, f->name))
		err = -errno;
	if (!err)
		output_file_opened(f);
	return err;
}

int output_file_promote(struct output_file *f, unsigned int keep)
{
	int err;

	if (!f->replaces)
		return 0;
	err = numbers_shift(f->replaces, f->replaces, keep);
	if (!err && rename(f->name, f->replaces))
		err = -errno;
	if (err)
		return err;
	free(f->name);
	f->name = f->replaces;
	f->replaces = NULL;
	return 0;
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
