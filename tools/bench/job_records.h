/* SPDX-License-Identifier: Apache-2.0
 *
 * job_records.h - the record stream of a healthy training job of any size, as the tracers would write it, for
 * benchmarks: tensor parallel groups of 8, one world communicator, pipeline neighbours, CUDA events, waits, polls,
 * scheduler.
 */
#ifndef RANKTRACE_BENCH_JOB_RECORDS_H
#define RANKTRACE_BENCH_JOB_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/wire.h"

struct job_records {
	int n_ranks;
	uint64_t now_ns, tick_ns, scan_ns; /* of the job's clock */
	uint64_t step, rng;
	uint32_t churn; /* a dataloader worker comes and goes every so many steps on each rank; 0 never */
	uint32_t churn_pid;
	char *bytes; /* the records of the last job_records_step(s), in order of time */
	size_t used, cap;
	struct {
		uint64_t ts_ns;
		uint32_t at, order;
	} * index;
	size_t n, cap_index;
	char *sorted;
	size_t cap_sorted;
};

/* First the records of the start: processes, threads, communicators. */
void job_records_begin(struct job_records *j, int n_ranks);
/* Forget the records there are and make those of the next `steps` steps. */
void job_records_make(struct job_records *j, int steps);
void job_records_free(struct job_records *j);
/* Each record of what was made, in order; NULL at the end. */
const struct wire_hdr *job_records_next(const struct job_records *j, const struct wire_hdr *rec);

#endif
