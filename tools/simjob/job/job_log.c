// SPDX-License-Identifier: Apache-2.0
/* See job_log.h. */
#include "tools/simjob/job/job_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *datatype_name(ncclDataType_t datatype)
{
	static const char *const names[ncclNumTypes] = {
		[ncclInt8] = "int8",     [ncclUint8] = "uint8",        [ncclInt32] = "int32",
		[ncclUint32] = "uint32", [ncclInt64] = "int64",        [ncclUint64] = "uint64",
		[ncclFloat16] = "fp16",  [ncclFloat32] = "fp32",       [ncclFloat64] = "fp64",
		[ncclBfloat16] = "bf16", [ncclFloat8e4m3] = "fp8e4m3", [ncclFloat8e5m2] = "fp8e5m2",
	};

	return names[datatype];
}

static int log_open(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);

	return fd < 0 ? -errno : fd;
}

int job_log_create(const char *path)
{
	int fd = log_open(path, O_TRUNC);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int job_log_open(const char *path)
{
	return log_open(path, 0);
}

void job_log_line_write(int fd, int rank, const char *text, int length)
{
	if (write(fd, text, length) == length)
		return;
	/* A log with holes would accuse the tracer of what it did not miss. */
	fprintf(stderr, "simjob: rank %d cannot write its log: %s; free space or leave --log and --step-log out\n",
		rank, strerror(errno));
	exit(1);
}

void job_log_write(int fd, int rank, int pid, const struct job_log_line *line)
{
	char text[256], peer[16] = "null";
	int length;

	if (line->peer >= 0)
		snprintf(peer, sizeof(peer), "%d", line->peer);
	length = snprintf(text, sizeof(text),
			  "{\"rank\":%d,\"pid\":%d,\"comm_rank\":%d,\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64
			  ",\"op\":\"%s\",\"count\":%zu,\"dtype\":\"%s\",\"peer\":%s,\"t_ns\":%" PRIu64 "%s}\n",
			  rank, pid, line->comm_rank, line->comm_hash, line->seq, line->op, line->count,
			  datatype_name(line->datatype), peer, line->t_ns, line->in_graph ? ",\"graph\":true" : "");
	job_log_line_write(fd, rank, text, length);
}

void job_result_write(const char *path, int rank, int nr_steps, uint64_t result)
{
	char text[128];
	int length = snprintf(text, sizeof(text), "{\"rank\":%4d,\"steps\":%10d,\"result\":\"0x%016" PRIx64 "\"}\n",
			      rank, nr_steps, result);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || pwrite(fd, text, length, (off_t)rank * length) != length) {
		fprintf(stderr, "simjob: rank %d cannot write %s: %s; choose another --result\n", rank, path,
			strerror(errno));
		exit(1);
	}
	close(fd);
}
