/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - see feed.h.
 */
#include "top/feed.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/larger.h"

#define TAKE_MAX 100000 /* records; then keys and the screen have a turn */

struct note_sink { /* notes when findings open */
	struct sink base;
	struct top_feed *feed;
};

static int finding_note_time(struct sink *base, const struct incident *i, const struct model *m)
{
	struct top_feed *f = ((struct note_sink *)base)->feed;
	bool gets_grave = i->f.severity >= SEVERITY_WARNING && i->warned_ns == i->t_ns;
	size_t cap = f->opened_cap ? 2 * f->opened_cap : 64;
	uint64_t *opened_ns;

	(void)m;
	if (!f->indexing || i->phase == PHASE_CLOSE || !gets_grave)
		return 0;
	if (f->n_opened == f->opened_cap) {
		opened_ns = realloc(f->opened_ns, cap * sizeof(*opened_ns));
		if (!opened_ns)
			return 0;
		f->opened_ns = opened_ns;
		f->opened_cap = cap;
	}
	f->opened_ns[f->n_opened++] = i->t_ns;
	return 0;
}

static int note_close(struct sink *base, const struct model *m)
{
	(void)m;
	free(base);
	return 0;
}

static const struct sink_class note_class = { .name = "notes", .incident = finding_note_time, .close = note_close };

static int pipeline_begin(struct top_feed *f)
{
	struct note_sink *s = calloc(1, sizeof(*s));

	pipeline_free(f->p);
	f->p = s ? pipeline_new() : NULL;
	if (!f->p) {
		free(s);
		return -ENOMEM;
	}
	*s = (struct note_sink){ .base = { .class = &note_class }, .feed = f };
	return pipeline_add_listener(f->p, &s->base);
}

int top_feed_open(struct top_feed *f, struct recording_reader *r)
{
	*f = (struct top_feed){ .reader = r };
	return pipeline_begin(f);
}

void top_feed_free(struct top_feed *f)
{
	pipeline_free(f->p);
	recording_reader_free(f->reader);
	free(f->opened_ns);
	*f = (struct top_feed){ 0 };
}

/* 1: the next record is held. 0: no more comes, which is noted; a torn chunk is an end, too. */
static int record_hold(struct top_feed *f)
{
	int more = f->held ? 1 : f->ended ? 0 : recording_next(f->reader, &f->held);

	if (more == 1)
		return 1;
	f->held = NULL;
	f->ended = true;
	f->torn |= more == -EBADMSG;
	return more == -EBADMSG ? 0 : more;
}

static int held_feed(struct top_feed *f)
{
	const struct wire_hdr *rec = f->held;

	if (!rec)
		return 0;
	f->held = NULL;
	f->begin_ns = f->begin_ns ? smaller(f->begin_ns, rec->ts_ns) : rec->ts_ns;
	f->end_ns = larger(f->end_ns, rec->ts_ns);
	return pipeline_feed(f->p, rec);
}

int top_feed_index(struct top_feed *f)
{
	int err = 0, more;

	f->indexing = true;
	while (!err && (more = record_hold(f)))
		err = more < 0 ? more : held_feed(f);
	f->indexing = false;
	if (!err && f->p && pipeline_model(f->p)->start_ns) /* a snapshot has times before */
		f->begin_ns = larger(f->begin_ns, pipeline_model(f->p)->start_ns);
	return err;
}

static int rewind_all(struct top_feed *f)
{
	int err = recording_rewind(f->reader);

	f->held = NULL;
	f->ended = false;
	return err ? err : pipeline_begin(f);
}

int top_feed_seek(struct top_feed *f, uint64_t ns)
{
	uint64_t begin_ns = f->begin_ns;
	int err = ns < pipeline_model(f->p)->now_ns ? rewind_all(f) : 0, more = 0;

	while (!err && (more = record_hold(f)) == 1 && f->held->ts_ns <= ns)
		err = held_feed(f);
	f->begin_ns = begin_ns;
	return err ? err : more < 0 ? more : 0;
}

int top_feed_take(struct top_feed *f)
{
	int err = 0, more = 1;

	for (int i = 0; !err && more == 1 && i < TAKE_MAX; i++) {
		if (i && !f->held && !recording_ready(f->reader))
			break;
		more = record_hold(f);
		err = more < 0 ? more : more ? held_feed(f) : 0;
	}
	return err;
}

static int origin_take(void *of)
{
	return top_feed_take(of);
}

static size_t origin_parts(void *of, const struct top_part **ret)
{
	struct top_feed *f = of;

	f->part = (struct top_part){ pipeline_model(f->p), pipeline_incidents(f->p) };
	*ret = &f->part;
	return 1;
}

static bool origin_is_over(void *of)
{
	return ((const struct top_feed *)of)->ended;
}

struct top_origin top_feed_origin(struct top_feed *f)
{
	return (struct top_origin){ .of = f, .take = origin_take, .parts = origin_parts, .is_over = origin_is_over };
}
