/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_dump.c - writes a window's files in a forked child.
 *
 * The child has the window as of the fork and takes its time, so a slow, full or frozen disk does not delay the
 * session. It writes the recording first and replays it into the timeline, so the timeline shows what a replay shows. A
 * file gets its name when it is complete.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/new_file.h"
#include "base/write_whole.h"
#include "flight/flight_private.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "schemas/collector.h"
#include "schemas/recording.h"

#define N_SUFFIXES 3
static const char *const suffixes[N_SUFFIXES] = { ".rtr", ".pftrace", ".jsonl" };
#define TEMPORARY ".flight-" /* then our process id */

struct writing {
	struct flight *f;
	const struct flight_dump_why *why;
	int fd; /* messages to the session */
	char temporary[N_SUFFIXES][600], base[560];
};

static int list_write(int fd, const struct packed_list *l)
{
	int err = 0;

	for (const struct packed *p = l->head; p && !err; p = p->next)
		err = write_whole(fd, p->bytes, p->size);
	return err;
}

/* Ends the replay as a session ends; otherwise open operations and findings would be missing. */
int flight_tail_write(struct chunk *c, int fd, uint64_t now_ns)
{
	struct record_stop stop = {
		.hdr = { .size = sizeof(stop), .tracer = WIRE_COLLECTOR, .kind = RECORD_STOP, .ts_ns = now_ns }
	};
	const void *bytes;
	long size;
	int err = 0;

	if (!chunk_has_room(c, &stop.hdr)) {
		size = chunk_pack(c, &bytes);
		err = size < 0 ? size : write_whole(fd, bytes, size);
	}
	chunk_put(c, &stop.hdr);
	size = err ? 0 : chunk_pack(c, &bytes);
	return err ? err : size < 0 ? size : write_whole(fd, bytes, size);
}

int flight_segments_write(const struct segment *from, int fd)
{
	struct recording_header h = { .magic = RECORDING_MAGIC, .version = RECORDING_VERSION };
	int err = write_whole(fd, &h, sizeof(h));

	if (!err && from)
		err = list_write(fd, &from->state);
	for (const struct segment *s = from; s && !err; s = s->next)
		err = list_write(fd, &s->records);
	return err;
}

static int recording_write(struct writing *w, uint64_t now_ns)
{
	int fd = new_file_open(w->temporary[0]), err;

	if (fd < 0)
		return fd;
	err = flight_segments_write(w->f->oldest, fd);
	if (!err)
		err = flight_tail_write(w->f->chunk, fd, now_ns);
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* Did the replay find the finding that the dump is written for? */
static bool found_again(const struct incidents *all, const struct finding *f)
{
	const struct incident *i = NULL;

	while ((i = incidents_next_open(all, i)))
		if (i->f.kind == f->kind && i->f.class == f->class && i->f.n_ranks == f->n_ranks &&
		    i->f.comm == f->comm && i->f.seq == f->seq &&
		    !memcmp(i->f.ranks, f->ranks, f->n_ranks * sizeof(f->ranks[0])))
			return true;
	return false;
}

static int timeline_write(struct writing *w, bool *ret_found)
{
	struct recording_reader *r = NULL;
	struct pipeline *p = pipeline_new();
	const struct wire_hdr *rec;
	struct output_change change;
	int more, err = p ? pipeline_add_output(p, w->temporary[1]) : -ENOMEM, closed;

	if (!err)
		err = recording_open(w->temporary[0], &r);
	*ret_found = false;
	while (!err && (more = recording_next(r, &rec)) != 0) {
		err = more < 0 ? more : pipeline_feed(p, rec);
		if (w->why->finding && rec->tracer == WIRE_COLLECTOR && rec->kind == RECORD_TICK)
			*ret_found = *ret_found || found_again(pipeline_incidents(p), w->why->finding);
	}
	if (!err && pipeline_output_change(p, &change))
		err = change.err;
	recording_reader_free(r);
	closed = pipeline_free(p);
	return err ? err : closed;
}

/* Writes the live session's findings, not the replay's: they may have begun long before the window. */
static int findings_write(struct writing *w, const struct incidents *all, const struct model *m)
{
	const struct sink_class *class = sink_class_by_name("json");
	const struct incident *i = NULL;
	struct sink *s;
	int err = class->open(w->temporary[2], &s), closed;

	if (err)
		return err;
	while (!err && (i = incidents_next_open(all, i)))
		err = class->incident(s, i, m);
	closed = class->close(s, m);
	return err ? err : closed;
}

static bool name_free(const char *base)
{
	char path[600];

	for (int i = 0; i < N_SUFFIXES; i++) {
		snprintf(path, sizeof(path), "%s%s", base, suffixes[i]);
		if (!access(path, F_OK))
			return false;
	}
	return true;
}

/* DIR/ranktrace-HOST-YYYYmmdd-HHMMSS-REASON, in local time. */
static void names_choose(struct writing *w, const struct model *m)
{
	char host[65], stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	size_t len;

	snprintf(host, sizeof(host), "%s", *m->host ? m->host : "host");
	for (char *c = host; *c; c++)
		if (*c == '/' || *c == '-' || *c < '!' || *c > '~')
			*c = '_';
	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	len = snprintf(w->base, sizeof(w->base) - 8, "%s/ranktrace-%s-%s-%s", w->f->dir, host, stamp, w->why->reason);
	for (int n = 2; len < sizeof(w->base) - 8 && !name_free(w->base) && n < 1000; n++)
		sprintf(w->base + len, "-%d", n);
	for (int i = 0; i < N_SUFFIXES; i++)
		snprintf(w->temporary[i], sizeof(w->temporary[i]), "%s/" TEMPORARY "%d%s", w->f->dir, getpid(),
			 suffixes[i]);
}

/* --- the directory --- */

/* Only files named "ranktrace-HOST-YYYYmmdd-HHMMSS-REASON.rtr" belong to the flight recorder. */
static bool is_dump(const char *name)
{
	const char *host = strncmp(name, "ranktrace-", 10) ? NULL : strchr(name + 10, '-'), *dot = strrchr(name, '.');

	return host && dot && !strcmp(dot, suffixes[0]) && dot >= host + 18 && host[9] == '-' && host[16] == '-' &&
	       strspn(host + 1, "0123456789") == 8 && strspn(host + 10, "0123456789") == 6;
}

struct old {
	char *name;
	struct timespec written;
};

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct old *)a)->written, *y = &((const struct old *)b)->written;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static void set_remove(const char *dir, const char *name)
{
	char path[1200];

	for (int i = 0; i < N_SUFFIXES; i++) {
		snprintf(path, sizeof(path), "%s/%.*s%s", dir, (int)(strlen(name) - strlen(suffixes[0])), name,
			 suffixes[i]);
		unlink(path);
	}
}

static struct old *dumps_list(const char *dir, size_t *ret_n)
{
	DIR *d = opendir(dir);
	struct old *all = NULL, *grown;
	struct dirent *e;
	struct stat st;

	for (*ret_n = 0; d && (e = readdir(d));) {
		if (!is_dump(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		grown = realloc(all, (*ret_n + 1) * sizeof(*all));
		if (!grown)
			break;
		all = grown;
		all[*ret_n] = (struct old){ strdup(e->d_name), st.st_mtim };
		*ret_n += all[*ret_n].name != NULL; /* lint: kept in all, and counted below */
	}
	if (d)
		closedir(d);
	return all;
}

static void old_remove(const struct flight *f)
{
	size_t n;
	struct old *all = dumps_list(f->dir, &n);

	if (n)
		qsort(all, n, sizeof(*all), by_age);
	for (size_t i = 0; i < n; i++) {
		if (i + f->cfg.keep < n)
			set_remove(f->dir, all[i].name);
		free(all[i].name);
	}
	free(all);
}

void flight_dump_clean(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[1200];
	pid_t pid;

	while (d && (e = readdir(d))) {
		pid = strncmp(e->d_name, TEMPORARY, strlen(TEMPORARY)) ? 0 : atoi(e->d_name + strlen(TEMPORARY));
		if (pid <= 0 || !kill(pid, 0) || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
}

static int files_write(struct writing *w, const struct incidents *i, const struct model *m, uint64_t now_ns,
		       bool *ret_found)
{
	char path[600];
	int err;

	err = recording_write(w, now_ns);
	if (err)
		return err;
	err = timeline_write(w, ret_found);
	if (err)
		return err;
	err = findings_write(w, i, m);
	for (int k = N_SUFFIXES - 1; k >= 0 && !err;
	     k--) { /* the recording last: a dump exists once its recording has its name */
		snprintf(path, sizeof(path), "%s%s", w->base, suffixes[k]);
		err = rename(w->temporary[k], path) ? -errno : 0;
	}
	return err;
}

/* Also removes files that already have their names: a set is complete or absent. */
static void files_remove(const struct writing *w)
{
	char path[600];

	for (int k = 0; k < N_SUFFIXES; k++) {
		unlink(w->temporary[k]);
		snprintf(path, sizeof(path), "%s%s", w->base, suffixes[k]);
		unlink(path);
	}
}

int flight_dump(struct flight *f, const struct flight_dump_why *why, const struct incidents *i, const struct model *m,
		uint64_t now_ns, int fd)
{
	struct writing w = { .f = f, .why = why, .fd = fd };
	bool found = false;
	int err;

	dup2(fd, STDERR_FILENO + 1); /* drop all other files of the session: links, rings, pipes */
	w.fd = STDERR_FILENO + 1;
	close_range(w.fd + 1, ~0u, 0);
	signal(SIGPIPE, SIG_IGN);
	setpriority(PRIO_PROCESS, 0, 10);
	names_choose(&w, m);
	err = files_write(&w, i, m, now_ns, &found);
	if (!err) {
		dprintf(w.fd, "%s\n", w.base);
		if (why->finding && !found)
			dprintf(w.fd,
				"the window is too short to find this %s again: %s.jsonl has the findings of the "
				"session",
				finding_kind_name(why->finding->kind), w.base);
		old_remove(f);
		return 0;
	}
	files_remove(&w);
	dprintf(w.fd, "%s: %s; %s", f->dir, strerror(-err),
		err == -ENOSPC || err == -EDQUOT ? "make room, or give another directory with --flight=DIR"
						 : "give another directory with --flight=DIR");
	return 1;
}
