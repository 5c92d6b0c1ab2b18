/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - see output.h.
 *
 * A new file takes the name of the one before it once it holds the state of the stream, so that a disk without room
 * changes no name.
 */
#include "pipeline/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/decode.h"
#include "schemas/collector.h"

#define SEC 1000000000ull
#define PAUSE_NS SEC            /* until the first try; then twice as long each time */
#define PAUSE_MAX_NS (30 * SEC) /* which is also how long one lasts that was a success */

bool output_is_open(const struct output *o)
{
	return o->recording || o->sink;
}

static bool is_lines(const struct output *o)
{
	return o->class && o->class->lines;
}

static int writer_open(struct output *o, const char *name)
{
	return o->class ? o->class->open(name, &o->sink) : recording_create(name, &o->recording);
}

static int writer_close(struct output *o, const struct model *m)
{
	int err = 0;

	if (o->recording)
		err = recording_close(o->recording);
	else if (o->sink)
		err = o->sink->class->close(o->sink, m);
	o->recording = NULL;
	o->sink = NULL;
	return err;
}

static int writer_flush(struct output *o)
{
	if (o->recording)
		return recording_flush(o->recording);
	return o->sink && o->sink->class->flush ? o->sink->class->flush(o->sink) : 0;
}

int output_open(struct output *o, const char *path, const struct sink_class *class)
{
	int err;

	*o = (struct output){ .class = class };
	err = output_file_begin(&o->file, path);
	if (err)
		return err;
	err = writer_open(o, o->file.name);
	if (!err) {
		output_file_opened(&o->file);
		return 0;
	}
	output_file_discard(&o->file);
	output_file_free(&o->file);
	return err;
}

static void change_set(struct output *o, enum output_change_kind kind, int err)
{
	o->change = (struct output_change){ .kind = kind,
					    .path = o->file.name,
					    .err = err,
					    .missed = o->missed,
					    .findings = is_lines(o),
					    .apart = !is_lines(o) };
}

/* --- failures --- */

/* What was handed over and is in no file. */
static uint64_t unwritten(const struct output *o)
{
	return o->recording ? o->n_put - recording_written(o->recording) : is_lines(o) ? 0 : o->n_put;
}

static bool can_pause(const struct output *o, const struct output_stream *s, int err)
{
	return s->rules.lasting && err != -EPIPE && (is_lines(o) || o->file.regular);
}

static void retry_put_off(struct output *o, uint64_t now_ns)
{
	bool lasted = !o->pause_ns || (!o->paused && now_ns > o->begun_ns + PAUSE_MAX_NS);

	o->pause_ns = lasted ? PAUSE_NS : o->pause_ns < PAUSE_MAX_NS / 2 ? 2 * o->pause_ns : PAUSE_MAX_NS;
	o->retry_ns = now_ns + o->pause_ns;
}

/* It is closed, so that what it holds stays readable; the other outputs go on. One of lines stays open: the next line
 * may find room. */
void output_check(struct output *o, const struct output_stream *s, int err)
{
	if (!err || o->err)
		return;
	o->err = err;
	o->failed = true;
	o->missed = unwritten(o);
	if (can_pause(o, s, err)) {
		retry_put_off(o, s->model->now_ns);
		o->paused = true;
	}
	change_set(o, o->paused ? OUTPUT_PAUSED : OUTPUT_ENDED, err);
	if (!o->paused || !is_lines(o))
		writer_close(o, s->model);
}

static void back(struct output *o, const struct output_stream *s)
{
	o->paused = false;
	o->err = 0;
	o->begun_ns = s->model->now_ns;
	change_set(o, OUTPUT_BACK, 0);
	o->missed = 0;
}

/* --- a new file --- */

static int record_give(void *to, const struct wire_hdr *rec)
{
	struct output *o = to;

	o->n_put++;
	return recording_put(o->recording, rec);
}

struct giving {
	struct output *o;
	const struct output_stream *s;
};

/* What a timeline begins with is drawn at its begin: a session may have begun weeks ago. */
static int events_give(void *to, const struct wire_hdr *rec)
{
	const struct giving *g = to;
	struct event events[DECODE_EVENTS_MAX];
	int n = decode_record(rec, g->s->strings, events), err = 0;

	for (int i = 0; i < n && !err; i++) {
		events[i].ts_ns = g->s->model->now_ns;
		if (events[i].kind != EV_ATTACH)
			err = g->o->class->event(g->o->sink, &events[i], g->s->model);
	}
	return err;
}

static int open_findings_give(struct output *o, const struct output_stream *s)
{
	const struct incident *i = NULL;
	int err = 0;

	while (!err && (i = incidents_next_open(s->incidents, i)))
		err = o->class->incident(o->sink, i, s->model);
	return err;
}

/* What is open is found anew by who reads this file alone, also where the session ends before its next tick. */
static int recording_state_give(struct output *o, const struct output_stream *s)
{
	struct record_tick tick = { .hdr = { .size = sizeof(tick),
					     .tracer = WIRE_COLLECTOR,
					     .kind = RECORD_TICK,
					     .ts_ns = s->model->now_ns } };
	int err = stream_state(&s->kept, s->model, record_give, o);

	return err ? err : record_give(o, &tick.hdr);
}

static int state_give(struct output *o, const struct output_stream *s)
{
	struct giving g = { o, s };
	int err;

	if (!o->class)
		return recording_state_give(o, s);
	if (is_lines(o) || !o->class->event)
		return 0;
	err = stream_state(&s->kept, s->model, events_give, &g);
	return err || !o->class->incident ? err : open_findings_give(o, s);
}

/* The file before it ends as a session does: a reader gets what was still open. */
static void writer_end(struct output *o, const struct output_stream *s)
{
	struct record_stop stop = { .hdr = { .size = sizeof(stop),
					     .tracer = WIRE_COLLECTOR,
					     .kind = RECORD_STOP,
					     .ts_ns = s->model->now_ns },
				    .records = o->n_put };

	if (o->recording)
		recording_put(o->recording, &stop.hdr);
	o->failed |= writer_close(o, s->model) != 0;
}

static unsigned int files_kept(const struct output_rules *r)
{
	bool rotates = r->rotate_bytes || r->rotate_ns;

	return !rotates ? OUTPUT_FILES_MAX : r->keep ? r->keep : OUTPUT_KEEP;
}

static off_t file_bytes(const struct output *o)
{
	struct stat is;

	return stat(o->file.name, &is) ? 0 : is.st_size;
}

static int successor_make(struct output *n, const char *part, const struct output_stream *s)
{
	int err = writer_open(n, part);

	if (!err)
		err = state_give(n, s);
	return err ? err : writer_flush(n);
}

static int output_renew(struct output *o, const struct output_stream *s)
{
	struct output n = { .class = o->class };
	char *part;
	int err = output_file_part(&o->file, &part);

	if (err)
		return err;
	err = successor_make(&n, part, s);
	if (!err)
		err = output_file_follow(&o->file, part, files_kept(&s->rules));
	if (err) {
		writer_close(&n, s->model);
		unlink(part);
	} else {
		writer_end(o, s);
		o->recording = n.recording;
		o->sink = n.sink;
		o->n_put = n.n_put;
		o->begun_ns = s->model->now_ns;
		o->state_bytes = file_bytes(o);
	}
	free(part);
	return err;
}

/* --- at a tick --- */

/* Findings that closed meanwhile stay missing; those that are open are said again. */
static void lines_retry(struct output *o, const struct output_stream *s)
{
	const struct incident *i = incidents_next_open(s->incidents, NULL);
	int err = i ? 0 : -EAGAIN;
	struct incident again;

	for (; i && !err; i = incidents_next_open(s->incidents, i)) {
		again = *i;
		again.phase = PHASE_UPDATE;
		err = o->class->incident(o->sink, &again, s->model);
	}
	if (!err)
		back(o, s);
}

static void retry(struct output *o, const struct output_stream *s)
{
	if (is_lines(o))
		lines_retry(o, s);
	else if (!output_renew(o, s))
		back(o, s);
	if (o->paused)
		retry_put_off(o, s->model->now_ns);
}

/* A file holds at least as much as what it begins with. */
static bool is_due(const struct output *o, const struct output_stream *s)
{
	const struct output_rules *r = &s->rules;
	uint64_t now_ns = s->model->now_ns;

	if (!o->file.regular || now_ns < o->retry_ns)
		return false;
	if (r->rotate_ns && now_ns - o->begun_ns >= r->rotate_ns)
		return true;
	return r->rotate_bytes && file_bytes(o) >= (off_t)r->rotate_bytes && file_bytes(o) >= 2 * o->state_bytes;
}

static void rotate(struct output *o, const struct output_stream *s)
{
	int err = output_renew(o, s);

	if (err && !o->stays)
		change_set(o, OUTPUT_NOT_NEW, err);
	o->stays = err != 0;
	if (err)
		o->retry_ns = s->model->now_ns + PAUSE_MAX_NS;
}

void output_reopen(struct output *o, const struct output_stream *s)
{
	if (s->rules.lasting && !o->err && o->file.regular && !output_file_is_ours(&o->file))
		rotate(o, s);
}

void output_tend(struct output *o, const struct output_stream *s)
{
	if (!s->rules.lasting || !o->begun_ns) {
		o->begun_ns = s->model->now_ns;
		return;
	}
	if (o->paused && s->model->now_ns >= o->retry_ns)
		retry(o, s);
	else if (!o->err && is_due(o, s))
		rotate(o, s);
}

/* --- what comes --- */

void output_begin(struct output *o, const struct output_stream *s)
{
	int err = 0;

	if ((s->rules.rotate_bytes || s->rules.rotate_ns) && o->file.regular)
		err = output_file_promote(&o->file, files_kept(&s->rules));
	if (err)
		change_set(o, OUTPUT_NOT_NEW, err);
}

void output_record(struct output *o, const struct output_stream *s, const struct wire_hdr *rec)
{
	if (o->paused && !is_lines(o))
		o->missed++;
	else if (o->recording)
		output_check(o, s, record_give(o, rec));
	else
		o->n_put++;
}

/* A sink may hold one that opens back for a while: only others show that there is room again. */
static void line_retry(struct output *o, const struct output_stream *s, const struct incident *i)
{
	if (i->phase == PHASE_OPEN || o->class->incident(o->sink, i, s->model))
		o->missed++;
	else
		back(o, s);
}

void output_incident(struct output *o, const struct output_stream *s, const struct incident *i)
{
	int err;

	if (!o->sink || !o->class->incident)
		return;
	if (o->paused) {
		line_retry(o, s, i);
		return;
	}
	err = o->class->incident(o->sink, i, s->model);
	output_check(o, s, err);
	o->missed += err && is_lines(o);
}

void output_flush(struct output *o, const struct output_stream *s)
{
	int err = o->err ? 0 : writer_flush(o);

	output_check(o, s, err);
	if (!err && o->sink)
		o->n_put = 0;
}

int output_finish(struct output *o, const struct output_stream *s, bool fed)
{
	bool paused = o->paused;
	int err;

	if (!output_is_open(o) && !paused)
		return 0;
	err = writer_close(o, s->model);
	if (!fed)
		output_file_discard(&o->file);
	else if (!err && !o->err)
		err = output_file_commit(&o->file);
	if (paused) {
		change_set(o, OUTPUT_ENDED, o->err);
	} else if (err && !o->err) {
		o->err = err;
		o->failed = true;
		change_set(o, OUTPUT_ENDED, err);
	}
	o->paused = false;
	return err;
}

void output_free(struct output *o)
{
	output_file_free(&o->file);
}
