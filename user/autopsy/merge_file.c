/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_file.c - see merge_file.h.
 */
#include "autopsy/merge_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keeper.h"
#include "base/log.h"
#include "record.h"
#include "recording/recording.h"
#include "tracers/nccl/wire/comm.h"
#include "tracers/sched/sched.h"

/* Of a later version an autopsy may hold what the collector here does not know. */
static bool is_of_autopsy(const struct wire_hdr *h)
{
	const struct record_kind *k = record_kind_of(h);

	return k ? k->in_autopsy : h->tracer == WIRE_COLLECTOR;
}

static int hash_add(struct merge_file *f, uint64_t hash)
{
	uint64_t *grown;

	for (size_t i = 0; i < f->n_hashes; i++)
		if (f->hashes[i] == hash)
			return 0;
	grown = realloc(f->hashes, (f->n_hashes + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	f->hashes = grown;
	f->hashes[f->n_hashes++] = hash;
	return 0;
}

static int job_add(struct merge_file *f, const char *job)
{
	char **grown;

	for (size_t i = 0; i < f->n_jobs; i++)
		if (!strcmp(f->jobs[i], job))
			return 0;
	grown = *job ? realloc(f->jobs, (f->n_jobs + 1) * sizeof(*grown)) : f->jobs;
	if (!grown)
		return *job ? -ENOMEM : 0;
	f->jobs = grown;
	if (*job)
		f->jobs[f->n_jobs] = strdup(job); /* lint: kept in f->jobs, and counted below */
	f->n_jobs += *job && f->jobs[f->n_jobs];
	return 0;
}

static void start_take(struct merge_file *f, const struct wire_hdr *h)
{
	const struct record_start *s = (const void *)h;

	if (h->size < sizeof(*s) || sizeof(*s) + s->host_len > h->size)
		return;
	f->start = *s;
	memcpy(f->host, s->host, s->host_len < sizeof(f->host) ? s->host_len : sizeof(f->host) - 1);
}

static int record_take(struct merge_file *f, const struct wire_hdr *h)
{
	const struct record_proc *p = (const void *)h;
	bool collectors = h->tracer == WIRE_COLLECTOR;

	if (collectors && h->kind == RECORD_START)
		start_take(f, h);
	if (h->tracer == WIRE_SCHED && !f->anchor_ns)
		f->anchor_ns = h->ts_ns;
	f->n_ticks += collectors && h->kind == RECORD_TICK;
	if (collectors && h->kind == RECORD_COMM_SAMPLE && h->size >= sizeof(struct record_comm_sample))
		return hash_add(f, ((const struct record_comm_sample *)h)->body.hash);
	if (!collectors || h->kind != RECORD_PROC || h->size < sizeof(*p) || sizeof(*p) + p->job_len > h->size ||
	    !p->job_len || p->text[p->job_len - 1])
		return 0;
	f->n_procs++;
	return job_add(f, p->text);
}

static const char *open_remedy(int err)
{
	switch (err) {
	case -EPROTO:
		return "this is no ranktrace recording; --merge takes what 'ranktrace autopsy --raw FILE' wrote on "
		       "each host";
	case -EPROTONOSUPPORT: return "it was made by a newer ranktrace; use that version";
	default: return strerror(-err);
	}
}

/* 0, or -errno that was reported. */
static int end_check(const struct merge_file *f, int err, bool stopped)
{
	if (err == -EPROTO)
		log_error("%s: no recording of an autopsy, but of 'ranktrace record' or the like: 'ranktrace replay' "
			  "shows it",
			  f->path);
	else if (err && err != -EBADMSG)
		log_error("%s: %s", f->path, strerror(-err));
	if (err && err != -EBADMSG)
		return err;
	if (!*f->host || (f->n_procs && !f->n_ticks)) {
		log_error("%s: it ends before its first round of samples is complete (copied before the autopsy "
			  "ended?): make it again",
			  f->path);
		return -ENODATA;
	}
	if (err || !stopped)
		log_warn("%s: cut off (copied before the autopsy ended?); its %u whole rounds are used", f->path,
			 f->n_ticks);
	return 0;
}

int merge_file_open(const struct merge_file *f, struct recording_reader **ret)
{
	int fd = f->keeper ? keeper_open(f->keeper, f->number) : 0;

	if (!f->keeper)
		return recording_open(f->path, ret);
	return fd < 0 ? fd : recording_open_fd(fd, ret);
}

int merge_file_read(const char *path, size_t number, const struct keeper *k, struct merge_file *ret)
{
	struct merge_file *f = ret;
	struct recording_reader *r;
	const struct wire_hdr *rec;
	bool stopped = false;
	int err, more = 1;

	*f = (struct merge_file){ .path = path, .keeper = k, .number = number };
	err = merge_file_open(f, &r);
	if (err) {
		log_error("%s: %s", path, open_remedy(err));
		return err;
	}
	while (!err && (more = recording_next(r, &rec)) == 1) {
		err = is_of_autopsy(rec) ? record_take(f, rec) : -EPROTO;
		stopped |= rec->tracer == WIRE_COLLECTOR && rec->kind == RECORD_STOP;
	}
	recording_reader_free(r);
	if (!f->anchor_ns)
		f->anchor_ns = f->start.hdr.ts_ns;
	return end_check(f, err ? err : more < 0 ? more : 0, stopped);
}

void merge_file_free(struct merge_file *f)
{
	for (size_t i = 0; i < f->n_jobs; i++)
		free(f->jobs[i]);
	free(f->jobs);
	free(f->hashes);
}

bool merge_file_idle(const struct merge_file *f)
{
	return !f->n_procs;
}
