/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's own account of its operations (docs: Operations): the truth that a trace is compared with. One write a
 * line, made before the call, so that a killed rank has lost nothing that it called.
 */
#ifndef SIMJOB_JOB_LOG_H
#define SIMJOB_JOB_LOG_H

#include "tools/simjob/libnccl/nccl_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct job_log_line {
	uint64_t comm_hash;
	uint64_t seq;
	const char *op;
	size_t count;
	ncclDataType_t datatype;
	int comm_rank;
	int peer;      /* -1: none */
	bool in_graph; /* ran in a launch, @seq counts those */
	uint64_t t_ns;
};

/* Empties the file. 0 or -errno. */
int job_log_create(const char *path);
/* For one rank, appending. A file descriptor, or -errno. */
int job_log_open(const char *path);
void job_log_write(int fd, int rank, int pid, const struct job_log_line *line);
/* A line of a log, whole. Ends the process on error. */
void job_log_line_write(int fd, int rank, const char *text, int length);
/* The line of a rank in the file of results, at its place in whatever order ranks end. Ends the process on error. */
void job_result_write(const char *path, int rank, int nr_steps, uint64_t result);
const char *datatype_name(ncclDataType_t datatype);

#endif
