/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_file.h - what one host's recording holds, as far as a merge must know before it begins.
 */
#ifndef RANKTRACE_MERGE_FILE_H
#define RANKTRACE_MERGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/collector.h"

struct merge_file {
	const char *path;            /* borrowed, as the next */
	const struct keeper *keeper; /* opens it, as its input `number`; NULL: this process */
	size_t number;
	char host[256];
	struct record_start start; /* without its text */
	uint64_t anchor_ns;        /* its first sample, by its own clock */
	uint32_t n_ticks;          /* rounds that are whole */
	size_t n_procs;
	uint64_t *hashes; /* of its communicators */
	size_t n_hashes;
	char **jobs;
	size_t n_jobs;
};

struct keeper;
struct recording_reader;

/* 0; or -errno, which was reported: no recording, not of an autopsy, nothing whole in it. Free it either way. */
int merge_file_read(const char *path, size_t number, const struct keeper *k, struct merge_file *ret);
/* As recording_open(). */
int merge_file_open(const struct merge_file *f, struct recording_reader **ret);
void merge_file_free(struct merge_file *f);
bool merge_file_idle(const struct merge_file *f); /* no process of any job */

#endif
