/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_ops.c - the jobs every part needs: a /proc file, target memory, an open file, a link. Each is a pair: the
 * function that runs in the worker (op_*) and the call that packs its argument and unpacks the answer.
 */
#include "inspect/reader/memory.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define STAT_TEXT_MAX 1024

struct proc_arg {
	pid_t pid;
	uint32_t size; /* answer at most */
	char name[PATH_MAX];
};

struct memory_arg {
	pid_t pid;
	uint32_t n;
	struct {
		uint64_t addr, len;
	} ranges[READER_RANGES_MAX];
};

static int proc_open(const struct proc_arg *a, int flags)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "/proc/%d/%s", a->pid, a->name);
	int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int proc_run(struct reader *r, pid_t pid, reader_fn *fn, const char *name, size_t size, unsigned deadline_ms,
		    void *out, size_t *ret_len, int *ret_fd)
{
	struct proc_arg a = { .pid = pid, .size = size };
	size_t len = strlen(name);

	if (len >= sizeof(a.name))
		return -ENAMETOOLONG;
	memcpy(a.name, name, len + 1);
	return reader_run(r, pid, fn, &a, offsetof(struct proc_arg, name) + len + 1, deadline_ms, out, size, ret_len,
			  ret_fd);
}

static int op_file(struct reader_job *job)
{
	const struct proc_arg *a = job->arg;
	int fd = proc_open(a, O_RDONLY);
	char more;

	if (fd < 0)
		return fd;
	ssize_t n = 1;

	while (job->out_len < job->out_max && n > 0) {
		n = read(fd, job->out + job->out_len, job->out_max - job->out_len);
		if (n > 0)
			job->out_len += n;
	}
	int rc = n < 0 ? -errno : 0;

	if (!rc && job->out_len == job->out_max && read(fd, &more, 1) > 0)
		rc = -EFBIG;
	close(fd);
	return rc;
}

int reader_file(struct reader *r, pid_t pid, const char *name, size_t cap, unsigned deadline_ms, char **ret_data,
		size_t *ret_len)
{
	size_t len = 0;

	if (cap > READER_OUT_MAX)
		cap = READER_OUT_MAX;
	/* Untouched pages of a large buffer cost nothing. */
	char *data = malloc(cap + 1);

	if (!data)
		return -ENOMEM;
	int rc = proc_run(r, pid, op_file, name, cap, deadline_ms, data, &len, NULL);

	if (rc) {
		free(data);
		return rc;
	}
	data[len] = '\0';
	char *fit = realloc(data, len + 1);

	*ret_data = fit ? fit : data;
	*ret_len = len;
	return 0; /* lint: what does not shrink is returned as it is */
}

int reader_stat(struct reader *r, uint32_t pid, struct proc_stat *ret)
{
	char text[STAT_TEXT_MAX + 1];
	size_t len = 0;
	int rc = proc_run(r, pid, op_file, "stat", STAT_TEXT_MAX, READER_DEADLINE_MS, text, &len, NULL);

	text[rc ? 0 : len] = '\0';
	return rc ? rc : proc_stat_parse(text, ret);
}

int reader_kernel_stack(struct reader *r, pid_t pid, pid_t tid, char *to, size_t size, unsigned deadline_ms)
{
	struct proc_arg a = { .pid = pid };
	size_t len = 0;
	int n = snprintf(a.name, sizeof(a.name), "task/%d/stack", tid);
	int rc = reader_run(r, 0, op_file, &a, offsetof(struct proc_arg, name) + n + 1, deadline_ms, to, size - 1, &len,
			    NULL);

	to[rc ? 0 : len] = '\0';
	return rc;
}

static int op_link(struct reader_job *job)
{
	const struct proc_arg *a = job->arg;
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "/proc/%d/%s", a->pid, a->name);
	ssize_t n = readlink(path, job->out, job->out_max);

	if (n < 0)
		return -errno;
	job->out_len = n;
	return 0;
}

int reader_link(struct reader *r, pid_t pid, const char *name, char *to, size_t size, unsigned deadline_ms)
{
	size_t len = 0;

	if (!size)
		return -EINVAL;
	int rc = proc_run(r, pid, op_link, name, size - 1, deadline_ms, to, &len, NULL);

	if (!rc)
		to[len] = '\0';
	return rc;
}

int job_open(struct reader_job *job, const char *path)
{
	int fd = job->n_fds_out < READER_FDS_MAX ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return job->n_fds_out < READER_FDS_MAX ? -errno : -EMFILE;
	job->fds_out[job->n_fds_out++] = fd;
	return 0;
}

/* By way of O_PATH: opening a device node for real would run its driver, and a FIFO would block. */
static int op_open(struct reader_job *job)
{
	char self[64];
	struct stat st;
	int path_fd = proc_open(job->arg, O_PATH);

	if (path_fd < 0)
		return path_fd;
	int rc = fstat(path_fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;

	if (!rc) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
		rc = job_open(job, self);
	}
	close(path_fd);
	return rc;
}

int reader_open_file(struct reader *r, pid_t pid, const char *name, unsigned deadline_ms, int *ret_fd)
{
	return proc_run(r, pid, op_open, name, 0, deadline_ms, NULL, NULL, ret_fd);
}

/*
 * One process_vm_readv stops at the first hole, so go on behind the range that fell short. The answer: one u64 of
 * bytes got for each range, then the data, each range at its full length.
 */
static int op_memory(struct reader_job *job)
{
	const struct memory_arg *a = job->arg;
	static struct iovec to[READER_RANGES_MAX], from[READER_RANGES_MAX];
	uint64_t *got = (uint64_t *)job->out;
	char *data = job->out + a->n * sizeof(*got);

	for (uint32_t i = 0; i < a->n; i++) {
		to[i] = (struct iovec){ data, a->ranges[i].len };
		from[i] = (struct iovec){ (void *)(uintptr_t)a->ranges[i].addr, a->ranges[i].len };
		got[i] = 0;
		data += a->ranges[i].len;
	}
	for (uint32_t i = 0; i < a->n;) {
		ssize_t n = process_vm_readv(a->pid, to + i, a->n - i, from + i, a->n - i, 0);

		if (n < 0 && errno != EFAULT)
			return -errno;
		size_t left = n < 0 ? 0 : n;

		for (; i < a->n && left >= a->ranges[i].len; i++) {
			got[i] = a->ranges[i].len;
			left -= got[i];
		}
		if (i < a->n)
			got[i++] = left;
	}
	job->out_len = data - job->out;
	return 0;
}

static void memory_unpack(const char *buf, struct reader_range *ranges, size_t n)
{
	const char *data = buf + n * sizeof(uint64_t);

	for (size_t i = 0; i < n; i++) {
		uint64_t got;

		memcpy(&got, buf + i * sizeof(got), sizeof(got));
		ranges[i].got = got < ranges[i].len ? got : ranges[i].len;
		memcpy(ranges[i].to, data, ranges[i].got);
		data += ranges[i].len;
	}
}

int reader_memory(struct reader *r, pid_t pid, struct reader_range *ranges, size_t n, unsigned deadline_ms)
{
	struct memory_arg a = { .pid = pid, .n = n };
	size_t total = n * sizeof(uint64_t), len = 0;

	if (n > READER_RANGES_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].len > READER_OUT_MAX)
			return -E2BIG;
		a.ranges[i].addr = ranges[i].addr;
		a.ranges[i].len = ranges[i].len;
		total += ranges[i].len;
	}
	if (total > READER_OUT_MAX)
		return -E2BIG;
	char *buf = malloc(total + 1);

	if (!buf)
		return -ENOMEM;
	int rc = reader_run(r, pid, op_memory, &a, offsetof(struct memory_arg, ranges) + n * sizeof(a.ranges[0]),
			    deadline_ms, buf, total, &len, NULL);

	if (!rc && len != total)
		rc = -EPROTO;
	if (!rc)
		memory_unpack(buf, ranges, n);
	free(buf);
	return rc;
}

static int op_memory_files(struct reader_job *job)
{
	pid_t pid;
	int rc;

	memcpy(&pid, job->arg, sizeof(pid));
	rc = memory_files_open(pid, job->fds_out);
	job->n_fds_out = rc ? 0 : MEMORY_FILES;
	return rc;
}

/* The parser gets them with its question; they are opened for each, as a process may have called exec since. */
int parser_run_memory(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
		      size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len)
{
	int all[READER_FDS_MAX];
	struct question q = { fn, arg, arg_len, all, MEMORY_FILES + n_fds, true, OWNER_SEVERAL };
	struct stat st;
	size_t n = 0;

	if (n_fds > READER_FDS_MAX - MEMORY_FILES)
		return -E2BIG;
	int rc = reader_run_fds(r, pid, op_memory_files, &pid, sizeof(pid), deadline_ms, NULL, 0, NULL, all, &n);

	if (!rc && n != MEMORY_FILES)
		rc = -EPROTO;
	if (!rc && !fstat(all[MEMORY_MAPS], &st)) /* the process' user, or root where others may not look into it */
		q.owner = st.st_uid;
	if (n_fds)
		memcpy(all + n, fds, n_fds * sizeof(*fds));
	if (!rc)
		rc = parser_ask(r, pid, &q, deadline_ms, out, out_max, ret_len);
	while (n)
		close(all[--n]);
	return rc;
}

int reader_probe(struct reader *r, pid_t pid, unsigned deadline_ms, bool *ret_held)
{
	char c;
	int rc = proc_run(r, pid, op_file, "cmdline", 1, deadline_ms, &c, NULL, NULL);
	bool held = rc == -ETIMEDOUT || rc == -EBUSY;

	/* One byte was enough: longer is as good. */
	if (rc && rc != -EFBIG && !held)
		return rc;
	*ret_held = held;
	return 0;
}
