/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_job.h - whether the recordings of a merge belong together: each of another host, all of one job.
 */
#ifndef RANKTRACE_MERGE_JOB_H
#define RANKTRACE_MERGE_JOB_H

#include "autopsy/merge_file.h"

/* Two files of one host: *ret_a before *ret_b. -EEXIST; 0: there are none; or -ENOMEM. */
int merge_hosts_differ(const struct merge_file *files, size_t n, size_t *ret_a, size_t *ret_b);
/* A job's name or a communicator in common, from file to file: two files that are not of one job, *ret_a the first that
 * is no idle one. -EINVAL; 0: all are of one; or -ENOMEM. Idle files are of any job. */
int merge_one_job(const struct merge_file *files, size_t n, size_t *ret_a, size_t *ret_b);

#endif
