/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_job.c - see merge_job.h. Files that share a name or a communicator are of one group; each of these is looked up
 * once for each file that has it, since ten thousand hosts cannot be compared pair by pair.
 */
#include "autopsy/merge_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct seen { /* a host, a job's name or a communicator, and the first file that has it */
	const void *key;
	size_t file;
	UT_hash_handle hh;
};

/* *ret_first: the file that has it already, or `file`. 0 or -ENOMEM. */
static int seen_first(struct seen **table, const void *key, size_t len, size_t file, size_t *ret_first)
{
	struct seen *s;

	HASH_FIND(hh, *table, key, len, s);
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->key = key;
		s->file = file;
		HASH_ADD_KEYPTR(hh, *table, key, len, s);
		if (!s->hh.tbl) {
			free(s);
			return -ENOMEM;
		}
	}
	*ret_first = s->file;
	return 0;
}

static void seen_free(struct seen **table)
{
	struct seen *s, *next;

	HASH_ITER (hh, *table, s, next) {
		HASH_DEL(*table, s);
		free(s);
	}
}

int merge_hosts_differ(const struct merge_file *files, size_t n, size_t *ret_a, size_t *ret_b)
{
	struct seen *hosts = NULL;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		err = seen_first(&hosts, files[i].host, strlen(files[i].host), i, ret_a);
		if (!err && *ret_a != i) {
			*ret_b = i;
			err = -EEXIST;
		}
	}
	seen_free(&hosts);
	return err;
}

/* --- groups: each file points to an earlier one of its group, the first to itself --- */

static size_t group_of(size_t *to, size_t i)
{
	while (to[i] != i)
		i = to[i] = to[to[i]];
	return i;
}

static void group_join(size_t *to, size_t a, size_t b)
{
	a = group_of(to, a);
	b = group_of(to, b);
	to[a > b ? a : b] = a < b ? a : b;
}

static int file_join(const struct merge_file *f, size_t i, struct seen **jobs, struct seen **comms, size_t *to)
{
	size_t first;
	int err = 0;

	for (size_t k = 0; k < f->n_jobs && !err; k++) {
		err = seen_first(jobs, f->jobs[k], strlen(f->jobs[k]), i, &first);
		if (!err)
			group_join(to, first, i);
	}
	for (size_t k = 0; k < f->n_hashes && !err; k++) {
		err = seen_first(comms, &f->hashes[k], sizeof(f->hashes[k]), i, &first);
		if (!err)
			group_join(to, first, i);
	}
	return err;
}

static int groups_compare(const struct merge_file *files, size_t n, size_t *to, size_t *ret_a, size_t *ret_b)
{
	bool one = false;

	for (size_t i = 0; i < n; i++) {
		if (merge_file_idle(&files[i]))
			continue;
		if (!one)
			*ret_a = i;
		one = true;
		*ret_b = i;
		if (group_of(to, i) != group_of(to, *ret_a))
			return -EINVAL;
	}
	return 0;
}

int merge_one_job(const struct merge_file *files, size_t n, size_t *ret_a, size_t *ret_b)
{
	size_t *to = calloc(n + 1, sizeof(*to));
	struct seen *jobs = NULL, *comms = NULL;
	int err = to ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++) {
		to[i] = i;
		err = file_join(&files[i], i, &jobs, &comms, to);
	}
	if (!err)
		err = groups_compare(files, n, to, ret_a, ret_b);
	seen_free(&jobs);
	seen_free(&comms);
	free(to);
	return err;
}
