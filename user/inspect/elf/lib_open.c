/* SPDX-License-Identifier: Apache-2.0
 *
 * lib_open.c - the two jobs, and the packing of mappings into an argument.
 */
#include "inspect/elf/lib_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct row_arg { /* followed by the path and its zero byte */
	uint64_t start, end, ino;
	uint32_t dev_major, dev_minor, path_len, deleted;
};

struct rows_arg {
	uint32_t pid, n;
	char rows[READER_ARG_MAX - 8];
};

/* An O_PATH fd of the mapped file, or -errno. */
static int row_fd(uint32_t pid, const struct row_arg *row, const char *path)
{
	char name[4096 + 64];
	struct stat st;

	snprintf(name, sizeof(name), "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long)row->start,
		 (unsigned long long)row->end);
	int fd = open(name, O_PATH | O_CLOEXEC);

	if (fd >= 0 || (errno != EPERM && errno != EACCES))
		return fd < 0 ? -errno : fd;
	if (row->deleted)
		return -errno;
	snprintf(name, sizeof(name), "/proc/%u/root%s", pid, path);
	fd = open(name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_ino == row->ino && st.st_dev == makedev(row->dev_major, row->dev_minor))
		return fd;
	close(fd);
	return -ESTALE;
}

static void stat_row(uint32_t pid, const struct row_arg *row, const char *path, struct lib_stat *ret)
{
	struct stat st;
	int fd = row_fd(pid, row, path);

	*ret = (struct lib_stat){ .rc = fd < 0 ? fd : 0 };
	if (fd < 0)
		return;
	if (fstat(fd, &st))
		ret->rc = -errno;
	else if (!S_ISREG(st.st_mode))
		ret->rc = -EINVAL;
	else
		*ret = (struct lib_stat){ 0, st.st_dev, st.st_ino, st.st_size,
					  st.st_mtim.tv_sec * 1000000000ull + st.st_mtim.tv_nsec };
	close(fd);
}

static int op_stat(struct reader_job *job)
{
	const struct rows_arg *a = job->arg;
	struct lib_stat *out = (struct lib_stat *)job->out;
	const char *p = a->rows;

	for (uint32_t i = 0; i < a->n; i++) {
		struct row_arg row;

		memcpy(&row, p, sizeof(row));
		stat_row(a->pid, &row, p + sizeof(row), &out[i]);
		p += sizeof(row) + row.path_len + 1;
	}
	job->out_len = a->n * sizeof(*out);
	return 0;
}

static int op_open(struct reader_job *job)
{
	const struct rows_arg *a = job->arg;
	struct lib_stat *out = (struct lib_stat *)job->out;
	struct row_arg row;
	char self[64];

	memcpy(&row, a->rows, sizeof(row));
	int fd = row_fd(a->pid, &row, a->rows + sizeof(row));

	if (fd < 0)
		return fd;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	struct stat st;
	int rc = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;

	if (!rc) {
		*out = (struct lib_stat){ 0, st.st_dev, st.st_ino, st.st_size,
					  st.st_mtim.tv_sec * 1000000000ull + st.st_mtim.tv_nsec };
		job->out_len = sizeof(*out);
		rc = job_open(job, self);
	}
	close(fd);
	return rc;
}

static bool pack_row(struct rows_arg *a, size_t *used, const struct mapping *m)
{
	size_t len = strlen(m->path);
	struct row_arg row = { m->start, m->end, m->inode, m->dev_major, m->dev_minor, len, m->deleted };

	if (len > 4096 || sizeof(row) + len + 1 > sizeof(a->rows) - *used)
		return false;
	memcpy(a->rows + *used, &row, sizeof(row));
	memcpy(a->rows + *used + sizeof(row), m->path, len + 1);
	*used += sizeof(row) + len + 1;
	a->n++;
	return true;
}

int lib_stat(struct reader *r, uint32_t pid, const struct mapping *const rows[], size_t n, struct lib_stat *ret)
{
	struct rows_arg a;

	for (size_t done = 0; done < n;) {
		size_t used = 0, got = 0;

		a = (struct rows_arg){ .pid = pid };
		while (done + a.n < n && pack_row(&a, &used, rows[done + a.n]))
			;
		if (!a.n)
			return -ENAMETOOLONG;
		int rc = reader_run(r, pid, op_stat, &a, offsetof(struct rows_arg, rows) + used, READER_DEADLINE_MS,
				    ret + done, a.n * sizeof(*ret), &got, NULL);

		if (rc)
			return rc;
		if (got != a.n * sizeof(*ret))
			return -EPROTO;
		done += a.n;
	}
	return 0;
}

int lib_open(struct reader *r, uint32_t pid, const struct mapping *row, struct lib_stat *ret_st, int *ret_fd)
{
	struct rows_arg a = { .pid = pid };
	struct lib_stat st;
	size_t used = 0, got = 0;
	int fd = -1;

	if (!pack_row(&a, &used, row))
		return -ENAMETOOLONG;
	int rc = reader_run(r, pid, op_open, &a, offsetof(struct rows_arg, rows) + used, READER_DEADLINE_MS, &st,
			    sizeof(st), &got, &fd);

	if (rc)
		return rc;
	if (got != sizeof(st)) {
		close(fd);
		return -EPROTO;
	}
	*ret_st = st;
	*ret_fd = fd;
	return 0;
}
