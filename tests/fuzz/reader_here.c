/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_here.c - stands in for the reader: what would run in the helper process runs here, where the sanitizers look,
 * and the target is this process. Only what the targets need.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inspect/reader/memory.h"
#include "inspect/reader/reader.h"

static uint64_t answer[READER_OUT_MAX / 8];

static int run_here(struct reader_job *job, reader_fn *fn, void *out, size_t out_max, size_t *ret_len)
{
	job->out = (char *)answer;
	job->out_max = out_max;
	int err = fn(job);

	for (size_t i = 0; i < job->n_fds_out; i++)
		close(job->fds_out[i]);
	if (err)
		return err;
	if (job->out_len > out_max)
		return -EMSGSIZE;
	memcpy(out, answer, job->out_len);
	*ret_len = job->out_len;
	return 0;
}

int reader_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
	       void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	struct reader_job job = { .arg = arg, .arg_len = arg_len };

	(void)r;
	(void)pid;
	(void)deadline_ms;
	if (ret_fd)
		*ret_fd = -1;
	return run_here(&job, fn, out, out_max, ret_len);
}

int parser_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
	       size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len)
{
	struct reader_job job = { .arg = arg, .arg_len = arg_len, .n_fds = n_fds };

	(void)r;
	(void)pid;
	(void)deadline_ms;
	memcpy(job.fds, fds, n_fds * sizeof(*fds));
	return run_here(&job, fn, out, out_max, ret_len);
}

/* Files that this process maps. */
int job_mapped_file(uint64_t start, uint64_t end)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", (unsigned long long)start,
		 (unsigned long long)end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int parser_run_memory(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
		      size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len)
{
	int all[READER_FDS_MAX], err = memory_files_open(pid, all);

	if (err)
		return err;
	if (n_fds)
		memcpy(all + MEMORY_FILES, fds, n_fds * sizeof(*fds));
	err = parser_run(r, pid, fn, arg, arg_len, all, MEMORY_FILES + n_fds, deadline_ms, out, out_max, ret_len);
	for (int i = 0; i < MEMORY_FILES; i++)
		close(all[i]);
	return err;
}

int reader_memory(struct reader *r, pid_t pid, struct reader_range *ranges, size_t n, unsigned deadline_ms)
{
	(void)r;
	(void)deadline_ms;
	for (size_t i = 0; i < n; i++) {
		struct iovec here = { ranges[i].to, ranges[i].len }, there = { (void *)ranges[i].addr, ranges[i].len };
		ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);

		ranges[i].got = got > 0 ? got : 0;
	}
	return 0;
}
