/* SPDX-License-Identifier: Apache-2.0
 *
 * flight.c - see flight.h. A segment begins with a snapshot of the model: when a dump is written, the model's state at
 * the segment's begin is gone.
 */
#include "flight/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "flight/flight_private.h"
#include "flight/flight_state.h"
#include "pipeline/pipeline.h"
#include "schemas/collector.h"

#define SEGMENTS 8 /* of a window */
#define SETTLE_NS 5000000000ull
#define FINDINGS_APART_NS 30000000000ull
#define FINISH_MS 60000
#define DUMP_LIMIT_NS 120000000000ull

static void packed_free(struct packed_list *l)
{
	struct packed *p;

	while ((p = l->head)) {
		l->head = p->next;
		free(p);
	}
	*l = (struct packed_list){ 0 };
}

static void oldest_drop(struct flight *f)
{
	struct segment *s = f->oldest;

	f->bytes -= s->state.bytes + s->records.bytes;
	f->oldest = s->next;
	if (!f->oldest)
		f->newest = NULL;
	packed_free(&s->state);
	packed_free(&s->records);
	free(s);
}

static void window_give_up(struct flight *f)
{
	const void *bytes;

	while (f->oldest)
		oldest_drop(f);
	chunk_pack(f->chunk, &bytes); /* drop it */
}

static int chunk_keep(struct flight *f, struct packed_list *to)
{
	const void *bytes;
	long size = chunk_pack(f->chunk, &bytes);
	struct packed *p = size > 0 ? malloc(sizeof(*p) + size) : NULL;

	if (size <= 0)
		return size;
	if (!p)
		return -ENOMEM;
	p->next = NULL;
	p->size = size;
	memcpy(p->bytes, bytes, size);
	*(to->tail ? &to->tail->next : &to->head) = p;
	to->tail = p;
	to->bytes += sizeof(*p) + size;
	f->bytes += sizeof(*p) + size;
	f->peak = f->bytes > f->peak ? f->bytes : f->peak;
	return 0;
}

static int record_keep(struct flight *f, struct packed_list *to, const struct wire_hdr *rec)
{
	int err = chunk_has_room(f->chunk, rec) ? 0 : chunk_keep(f, to);

	if (!err)
		chunk_put(f->chunk, rec);
	return err;
}

static int state_keep(void *to, const struct wire_hdr *rec)
{
	struct flight *f = to;

	return record_keep(f, &f->newest->state, rec);
}

/* The first record of a session needs no snapshot before it. */
static int segment_begin(struct flight *f, const struct wire_hdr *rec, struct pipeline *p)
{
	const struct model *m = pipeline_model(p);
	struct segment *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->begin_ns = m->now_ns ? m->now_ns : rec->ts_ns;
	*(f->newest ? &f->newest->next : &f->oldest) = s;
	f->newest = s;
	if (!m->start_ns)
		return 0;
	err = pipeline_state(p, state_keep, f);
	return err ? err : chunk_keep(f, &s->state);
}

static bool segment_full(const struct flight *f, const struct model *m)
{
	const struct segment *s = f->newest;
	size_t share = f->cfg.bytes_max / SEGMENTS;

	if (m->now_ns >= s->begin_ns + f->cfg.window_ns / SEGMENTS)
		return true;
	return s->records.bytes > (s->state.bytes > share ? s->state.bytes : share);
}

static void segments_drop(struct flight *f, uint64_t now_ns)
{
	while (f->oldest != f->newest &&
	       (f->bytes > f->cfg.bytes_max || f->oldest->next->begin_ns + f->cfg.window_ns <= now_ns))
		oldest_drop(f);
}

static int segment_ready(struct flight *f, const struct wire_hdr *rec, struct pipeline *p)
{
	const struct model *m = pipeline_model(p);
	int err;

	if (!f->newest)
		return segment_begin(f, rec, p);
	if (!segment_full(f, m))
		return 0;
	err = chunk_keep(f, &f->newest->records);
	if (!err)
		err = segment_begin(f, rec, p);
	segments_drop(f, m->now_ns);
	return err;
}

static void flight_put(void *to, const struct wire_hdr *rec, struct pipeline *p)
{
	struct flight *f = to;
	int err = segment_ready(f, rec, p);

	if (!err)
		err = record_keep(f, &f->newest->records, rec);
	if (f->bytes > f->cfg.bytes_max)
		segments_drop(f, pipeline_model(p)->now_ns);
	if (err)
		window_give_up(f);
}

/* --- due dumps --- */

void flight_request(struct flight *f, int token)
{
	f->requested = true;
	if (token && f->n_tokens < TOKENS_MAX)
		f->tokens[f->n_tokens++] = token;
}

void flight_tap(struct flight *f, struct pipeline *p)
{
	pipeline_set_tap(p, flight_put, f);
}

/* One dump serves all root findings that opened since the last one: they lie in one window. */
static void findings_scan(struct flight *f, const struct incidents *all, uint64_t now_ns)
{
	const struct incident *i = NULL;
	uint64_t seen = f->seen_warned_ns, earliest;

	while ((i = incidents_next_open(all, i))) {
		if (i->warned_ns <= f->seen_warned_ns)
			continue;
		seen = i->warned_ns > seen ? i->warned_ns : seen;
		if (*i->caused_by || f->finding_due_ns)
			continue;
		earliest = f->finding_dumped_ns ? f->finding_dumped_ns + FINDINGS_APART_NS : 0;
		f->finding_due_ns = now_ns + f->cfg.settle_ns > earliest ? now_ns + f->cfg.settle_ns : earliest;
		f->finding = i->f;
	}
	f->seen_warned_ns = seen;
}

static void child_begin(struct flight *f, const struct flight_dump_why *why, const struct incidents *i,
			const struct model *m, uint64_t now_ns)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK)) {
		log_error("flight recorder: %s: no dump is written", strerror(errno));
		return;
	}
	f->child = fork();
	if (!f->child)
		_exit(flight_dump(f, why, i, m, now_ns, fds[1]));
	close(fds[1]);
	f->child_fd = fds[0];
	if (f->child < 0) {
		log_error("flight recorder: fork: %s: no dump is written", strerror(errno));
		close(fds[0]);
		f->child = 0;
	}
	f->child_ns = now_ns;
	f->said_len = 0;
	memcpy(f->serving, f->tokens, sizeof(f->tokens));
	f->n_serving = f->n_tokens;
	f->n_tokens = 0;
}

/* --- dumps that do not end --- */

/* The number that is still there. */
static int left_reap(struct flight *f)
{
	int n = 0;

	for (int i = 0; i < LEFT_MAX; i++) {
		if (f->left[i] && waitpid(f->left[i], NULL, WNOHANG))
			f->left[i] = 0;
		n += f->left[i] != 0;
	}
	return n;
}

/* One that is in a call of a dead disk takes its signal when that returns; nothing waits for it. */
static void child_give_up(struct flight *f, uint64_t now_ns)
{
	log_error("flight recorder: the dump is not written after %.0f s: %s does not answer; process %d is ended, the "
		  "next dump does not wait for it",
		  (now_ns - f->child_ns) / 1e9, f->dir, f->child);
	kill(f->child, SIGKILL);
	for (int i = 0; i < LEFT_MAX; i++)
		if (!f->left[i]) {
			f->left[i] = f->child;
			break;
		}
	close(f->child_fd);
	f->child_fd = -1;
	f->child = 0;
	f->n_failed++;
	flight_state_served(f->dir, f->serving, f->n_serving, false, "the disk does not answer");
}

static bool is_overdue(const struct flight *f, uint64_t now_ns)
{
	return f->child && now_ns > f->child_ns + f->cfg.dump_limit_ns;
}

static void dump_begin(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns, bool last)
{
	bool finding = f->finding_due_ns && (last || now_ns >= f->finding_due_ns);
	struct flight_dump_why why = { .reason = f->n_tokens ? "command" : "signal" };

	if (!finding && !f->requested)
		return;
	if (finding) {
		why = (struct flight_dump_why){ finding_kind_name(f->finding.kind), &f->finding };
		f->finding_due_ns = 0;
		f->finding_dumped_ns = now_ns;
	}
	f->requested = false;
	if (left_reap(f) == LEFT_MAX) {
		log_error("flight recorder: no dump is written: %d before it do not end, as %s does not answer",
			  LEFT_MAX, f->dir);
		flight_state_served(f->dir, f->tokens, f->n_tokens, false, "the disk does not answer");
		f->n_tokens = 0;
		f->n_failed++;
		return;
	}
	child_begin(f, &why, i, m, now_ns);
}

/* `status`: -1 unknown. */
static void child_ended(struct flight *f, int status)
{
	bool ok = status >= 0 && WIFEXITED(status) && !WEXITSTATUS(status);
	char *warning;

	f->said[f->said_len] = '\0';
	warning = strchr(f->said, '\n');
	if (warning)
		*warning++ = '\0';
	if (status < 0)
		snprintf(f->said, sizeof(f->said),
			 "how the child that writes it ended is not known, as SIGCHLD is ignored");
	else if (!ok && !*f->said)
		snprintf(f->said, sizeof(f->said), "the child that writes it ended by signal %d", WTERMSIG(status));
	if (ok)
		log_info("flight recorder: wrote %s.pftrace, .rtr and .jsonl", f->said);
	else
		log_error("flight recorder: no dump was written: %s; the session goes on", f->said);
	if (warning && *warning)
		log_warn("flight recorder: %s", warning);
	f->n_written += ok;
	f->n_failed += !ok;
	flight_state_served(f->dir, f->serving, f->n_serving, ok, f->said);
}

/* False: the child is still at work. What the kernel reaped itself (SIGCHLD is ignored) is not: its pid may be another
 * process's. */
static bool child_done(struct flight *f)
{
	ssize_t n;
	int status;
	pid_t pid;

	while ((n = read(f->child_fd, f->said + f->said_len, sizeof(f->said) - 1 - f->said_len)) > 0)
		f->said_len += n;
	pid = waitpid(f->child, &status, WNOHANG);
	if (pid != f->child && (pid >= 0 || errno != ECHILD))
		return false;
	while ((n = read(f->child_fd, f->said + f->said_len, sizeof(f->said) - 1 - f->said_len)) > 0)
		f->said_len += n;
	close(f->child_fd);
	f->child_fd = -1;
	f->child = 0;
	child_ended(f, pid < 0 ? -1 : status);
	return true;
}

void flight_poll(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns)
{
	findings_scan(f, i, now_ns);
	left_reap(f);
	if (f->child && !child_done(f) && is_overdue(f, now_ns))
		child_give_up(f, now_ns);
	if (!f->child)
		dump_begin(f, i, m, now_ns, false);
}

static void child_wait(struct flight *f)
{
	for (int ms = 0; f->child && !child_done(f); ms += 20) {
		if (ms >= FINISH_MS) {
			log_warn("flight recorder: the dump is not written after %d s; it goes on as process %d",
				 FINISH_MS / 1000, f->child);
			return;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}

void flight_finish(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns)
{
	findings_scan(f, i, now_ns);
	child_wait(f);
	if (!f->child)
		dump_begin(f, i, m, now_ns, true);
	child_wait(f);
	if (f->n_serving) /* 'ranktrace dump' polls for the answers every 20 ms, and they go away with the session */
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	log_detail("flight recorder: %u dumps written, %u failed; at most %.1f MB held", f->n_written, f->n_failed,
		   f->peak / 1e6);
}

int flight_copy(struct flight *f, bool newest_only, const struct model *m, int fd)
{
	struct chunk *tail = f->newest ? chunk_new() : NULL;
	int err = tail ? chunk_keep(f, &f->newest->records) : f->newest ? -ENOMEM : -ENODATA;

	err = err ? err : flight_segments_write(newest_only ? f->newest : f->oldest, fd);
	err = err ? err : flight_tail_write(tail, fd, m->now_ns);
	chunk_free(tail);
	return err;
}

size_t flight_bytes(const struct flight *f)
{
	return f->bytes;
}

size_t flight_bytes_peak(const struct flight *f)
{
	return f->peak;
}

static int dir_make(const char *dir, char *error, size_t error_size)
{
	struct stat st;
	int err = mkdir(dir, 0755) && errno != EEXIST ? -errno : 0;

	if (!err && (stat(dir, &st) || !S_ISDIR(st.st_mode)))
		err = -ENOTDIR;
	if (!err && access(dir, W_OK))
		err = -errno;
	if (err)
		snprintf(error, error_size, "the flight recorder's directory %s: %s; give another with --flight=DIR",
			 dir, strerror(-err));
	return err;
}

static struct flight_cfg defaulted(const struct flight_cfg *cfg)
{
	return (struct flight_cfg){
		.dir = cfg->dir,
		.window_ns = cfg->window_ns ? cfg->window_ns : FLIGHT_SECONDS * 1000000000ull,
		.bytes_max = cfg->bytes_max ? cfg->bytes_max : FLIGHT_MB * 1000000ull,
		.keep = cfg->keep ? cfg->keep : FLIGHT_KEEP,
		.dump_limit_ns = cfg->dump_limit_ns ? cfg->dump_limit_ns : DUMP_LIMIT_NS,
		.settle_ns = cfg->settle_ns ? cfg->settle_ns : SETTLE_NS,
	};
}

int flight_new(const struct flight_cfg *cfg, struct flight **ret, char *error, size_t error_size)
{
	struct flight *f;
	int err = dir_make(cfg->dir, error, error_size);

	if (err)
		return err;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->cfg = defaulted(cfg);
	f->child_fd = -1;
	f->dir = realpath(cfg->dir, NULL);
	f->chunk = chunk_new();
	if (!f->dir || !f->chunk) {
		flight_free(f);
		return -ENOMEM;
	}
	flight_dump_clean(f->dir);
	flight_state_open(f->dir);
	*ret = f;
	return 0;
}

static int dir_change(struct flight *f, const char *dir, char *error, size_t error_size)
{
	int err = dir_make(dir, error, error_size);
	char *name = err ? NULL : realpath(dir, NULL);

	if (!name)
		return err ? err : -errno;
	if (strcmp(name, f->dir)) {
		flight_state_close();
		flight_dump_clean(name);
		flight_state_open(name);
	}
	free(f->dir);
	f->dir = name;
	return 0;
}

int flight_set(struct flight *f, const struct flight_cfg *cfg, char *error, size_t error_size)
{
	int err = dir_change(f, cfg->dir, error, error_size);

	if (!err)
		f->cfg = defaulted(cfg);
	return err;
}

void flight_free(struct flight *f)
{
	if (!f)
		return;
	flight_state_close();
	while (f->oldest)
		oldest_drop(f);
	chunk_free(f->chunk);
	if (f->child_fd >= 0)
		close(f->child_fd);
	free(f->dir);
	free(f);
}
