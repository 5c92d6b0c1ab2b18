/* SPDX-License-Identifier: Apache-2.0
 *
 * window_merge.c - see window_merge.h. Read windows_merge() first. Each file goes through a pipeline of its own for its
 * collectives, and then, record by record, through the one of all.
 */
#include "autopsy/window_merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "record.h"
#include "recording/recording.h"
#include "schemas/collector.h"

#define SAME_TIME_NS 5000000000ll /* clocks of day that agree with the windows' ends to that are believed */

struct judged { /* while all hosts are seen: else one whose window has not begun, or is over, does not move */
	uint64_t begin_ns, end_ns; /* on the first host's clock */
	bool ended;
};

struct reading { /* one file */
	struct window *w;
	struct recording_reader *r;
	const struct wire_hdr *rec; /* the next; NULL: it is through */
	uint64_t ns;                /* on the first host's clock; never less than the one before */
};

static int file_open(const struct window *w, struct recording_reader **ret)
{
	int fd = dup(w->fd);

	if (fd < 0)
		return -errno;
	if (lseek(fd, 0, SEEK_SET))
		return close(fd), -EINVAL;
	return recording_open_fd(fd, ret);
}

static bool is_collectors(const struct wire_hdr *h, uint8_t kind)
{
	return h->tracer == WIRE_COLLECTOR && h->kind == kind;
}

/* --- what a file holds --- */

struct spans_sink {
	struct sink base;
	struct clock_spans *to;
};

static bool is_of_all(enum op_kind kind)
{
	return kind == OP_ALLREDUCE || kind == OP_ALLGATHER || kind == OP_REDUCESCATTER || kind == OP_ALLTOALL;
}

static int spans_op(struct sink *base, const struct op *op, const struct model *m)
{
	const struct member *mb = op->member;
	const struct clock_span span = {
		.comm = mb->comm ? mb->comm->hash : 0,
		.seq = op->seq,
		.kind = op->kind,
		.enter_ns = op->enqueue_ns,
		.leave_ns = op->end_ns,
	};

	(void)m;
	if (!is_of_all(op->kind) || !span.comm || !span.enter_ns || !span.leave_ns || op->seq_from_attach ||
	    op->captured || op->graph_exec || mb->blind)
		return 0;
	return clock_span_add(((struct spans_sink *)base)->to, &span);
}

static int spans_close(struct sink *base, const struct model *m)
{
	(void)m;
	free(base);
	return 0;
}

static const struct sink_class spans_class = {
	.name = "spans",
	.help = "collectives, to align clocks",
	.op = spans_op,
	.close = spans_close,
};

static struct pipeline *spans_pipeline(struct clock_spans *to)
{
	struct spans_sink *s = calloc(1, sizeof(*s));
	struct pipeline *p = s ? pipeline_new() : NULL;

	if (s) {
		s->base.class = &spans_class;
		s->to = to;
	}
	if (p && !pipeline_add_listener(p, &s->base))
		return p;
	free(s);
	pipeline_free(p);
	return NULL;
}

static int file_feed(struct window *w, struct recording_reader *r, struct pipeline *p)
{
	const struct wire_hdr *rec;
	int err = 0, more = 1;

	while (!err && (more = recording_next(r, &rec)) == 1) {
		w->begin_ns = w->begin_ns ? w->begin_ns : rec->ts_ns;
		if (is_collectors(rec, RECORD_START) && rec->size <= sizeof(w->start))
			memcpy(&w->start, rec, rec->size);
		err = pipeline_feed(p, rec);
	}
	if (more == -EBADMSG)
		log_warn("%s: cut off; what is whole of it is used", w->path);
	snprintf(w->host, sizeof(w->host), "%s", pipeline_model(p)->host ? pipeline_model(p)->host : "");
	w->end_ns = pipeline_model(p)->now_ns;
	w->realtime_offset_ns = pipeline_model(p)->realtime_offset_ns;
	return err ? err : more == -EBADMSG ? 0 : more;
}

static int file_scan(struct window *w, struct clock_spans *spans)
{
	struct recording_reader *r = NULL;
	struct pipeline *p = spans_pipeline(spans);
	int err = p ? file_open(w, &r) : -ENOMEM;

	err = err ? err : file_feed(w, r, p);
	recording_reader_free(r);
	pipeline_free(p);
	if (err == -EPROTO || err == -EPROTONOSUPPORT || (!err && !w->start.record.hdr.size)) {
		log_error("%s: %s", w->path,
			  err == -EPROTONOSUPPORT ? "it was made by a newer ranktrace; use that version"
						  : "no ranktrace recording (.rtr) of a host");
		err = -EINVAL;
	}
	return err;
}

/* --- clocks --- */

/* Of no collective in common: by the time of day where that can be, else as if all windows ended together. */
static void offset_guess(struct window *w, const struct window *first)
{
	int64_t by_end = (int64_t)(first->end_ns - w->end_ns),
		by_day = (int64_t)(w->realtime_offset_ns - first->realtime_offset_ns);

	w->clock.offset_ns = llabs(by_day - by_end) < SAME_TIME_NS ? by_day : by_end;
}

static int files_scan(struct window *w, size_t n)
{
	struct clock_spans *spans = calloc(n, sizeof(*spans));
	struct clock_offset *clocks = calloc(n, sizeof(*clocks));
	int err = spans && clocks ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++)
		err = file_scan(&w[i], &spans[i]);
	err = err ? err : clocks_align(spans, n, clocks);
	for (size_t i = 0; i < n && !err; i++) {
		w[i].clock = clocks[i];
		if (w[i].clock.error_ns == CLOCK_ERROR_UNKNOWN)
			offset_guess(&w[i], &w[0]);
	}
	for (size_t i = 0; spans && i < n; i++)
		clock_spans_free(&spans[i]);
	free(spans);
	free(clocks);
	return err;
}

void window_clocks_say(const struct window *w, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (w[i].clock.error_ns == CLOCK_ERROR_UNKNOWN)
			log_warn("%s: no collective in common that was seen on both: its clock against %s's is as the "
				 "time of day says, how well is not known",
				 w[i].host, w[0].host);
		else
			log_info("%s: its clock is set by %+.3f ms for %s's, right to within %.3f ms (by %zu "
				 "collectives)",
				 w[i].host, (double)w[i].clock.offset_ns / 1e6, w[0].host,
				 (double)w[i].clock.error_ns / 1e6, w[i].clock.n_spans);
}

/* --- as one --- */

static uint64_t time_of(const struct window *w, uint64_t ns)
{
	int64_t moved = (int64_t)ns + w->clock.offset_ns;

	return !ns ? 0 : moved > 0 ? (uint64_t)moved : 1;
}

/* The next record that is the stream's: ticks are the first host's, begin and end our own. */
static int reading_next(struct reading *f, bool first)
{
	int more;

	do
		more = recording_next(f->r, &f->rec);
	while (more == 1 && (is_collectors(f->rec, RECORD_START) || is_collectors(f->rec, RECORD_STOP) ||
			     (!first && is_collectors(f->rec, RECORD_TICK))));
	if (more != 1) {
		f->rec = NULL;
		return more == -EBADMSG ? 0 : more;
	}
	if (time_of(f->w, f->rec->ts_ns) > f->ns)
		f->ns = time_of(f->w, f->rec->ts_ns);
	return 0;
}

static int node_feed(const struct window *w, uint32_t number, uint64_t now_ns, struct pipeline *p)
{
	union {
		struct record_node f;
		char bytes[sizeof(struct record_node) + sizeof(w->host) + 16];
	} u = {};

	u.f.hdr = (struct wire_hdr){
		.size = sizeof(u.f), .tracer = WIRE_COLLECTOR, .kind = RECORD_NODE, .ts_ns = now_ns
	};
	u.f.node = number;
	u.f.clock_offset_ns = w->clock.offset_ns;
	u.f.clock_error_ns = w->clock.error_ns;
	u.f.host_len = record_text_put(&u.f.hdr, sizeof(u) - 8, w->host);
	record_pad(&u.f.hdr);
	return pipeline_feed(p, &u.f.hdr);
}

static int record_feed(const struct reading *f, struct pipeline *p)
{
	union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} u;
	uint64_t *ns;

	if (f->rec->size > sizeof(u))
		return 0;
	memcpy(&u, f->rec, f->rec->size);
	u.h.ts_ns = f->ns;
	for (int i = 0; (ns = record_time(&u.h, i)); i++)
		*ns = time_of(f->w, *ns);
	return pipeline_feed(p, &u.h);
}

/* The limits of the first one's session are those of all. */
static int start_feed(struct window *w, uint64_t ns, struct pipeline *p)
{
	w->start.record.hdr.ts_ns = ns;
	w->start.record.realtime_offset_ns = w->realtime_offset_ns;
	return pipeline_feed(p, &w->start.record.hdr);
}

static int tick_feed(struct pipeline *p, uint64_t ns)
{
	struct record_tick tick = {
		.hdr = { .size = sizeof(tick), .tracer = WIRE_COLLECTOR, .kind = RECORD_TICK, .ts_ns = ns }
	};

	return pipeline_feed(p, &tick.hdr);
}

static int stop_feed(struct pipeline *p, uint64_t ns)
{
	struct record_stop stop = {
		.hdr = { .size = sizeof(stop), .tracer = WIRE_COLLECTOR, .kind = RECORD_STOP, .ts_ns = ns }
	};

	return pipeline_feed(p, &stop.hdr);
}

static struct judged judged_of(const struct window *w, size_t n)
{
	struct judged j = { .end_ns = UINT64_MAX };

	for (size_t i = 0; i < n; i++) {
		uint64_t begin_ns = time_of(&w[i], w[i].begin_ns), end_ns = time_of(&w[i], w[i].end_ns);

		j.begin_ns = begin_ns > j.begin_ns ? begin_ns : j.begin_ns;
		j.end_ns = end_ns < j.end_ns ? end_ns : j.end_ns;
	}
	return j;
}

/* The last judgement is where the first window ends. */
static int judged_record_feed(struct judged *j, const struct reading *f, struct pipeline *p)
{
	int err = 0;

	if (!j->ended && f->ns >= j->end_ns) {
		j->ended = true;
		err = tick_feed(p, j->end_ns);
	}
	if (is_collectors(f->rec, RECORD_TICK) && (j->ended || f->ns < j->begin_ns))
		return err;
	return err ? err : record_feed(f, p);
}

static struct reading *earliest(struct reading *all, size_t n)
{
	struct reading *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (all[i].rec && (!found || all[i].ns < found->ns))
			found = &all[i];
	return found;
}

static int readings_feed(struct reading *all, size_t n, struct pipeline *p)
{
	struct reading *f = earliest(all, n), *before = NULL;
	struct judged judged = judged_of(all[0].w, n);
	uint64_t last_ns = f ? f->ns : 0;
	int err = f ? start_feed(all[0].w, last_ns, p) : -EINVAL;

	while (!err && f) {
		if (f != before)
			err = node_feed(f->w, (uint32_t)(f - all), f->ns, p);
		before = f;
		last_ns = f->ns;
		err = err ? err : judged_record_feed(&judged, f, p);
		err = err ? err : reading_next(f, f == all);
		f = earliest(all, n);
	}
	if (!err && !judged.ended)
		err = tick_feed(p, last_ns);
	return err ? err : stop_feed(p, last_ns + 1);
}

static int windows_feed(struct window *w, size_t n, struct pipeline *p)
{
	struct reading *all = calloc(n, sizeof(*all));
	int err = all ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++) {
		all[i].w = &w[i];
		err = file_open(&w[i], &all[i].r);
		err = err ? err : reading_next(&all[i], i == 0);
	}
	err = err ? err : readings_feed(all, n, p);
	for (size_t i = 0; all && i < n; i++)
		recording_reader_free(all[i].r);
	free(all);
	return err;
}

static bool hosts_differ(const struct window *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(w[i].host, w[k].host)) {
				log_error("%s and %s are both of host %s: give one recording of each", w[k].path,
					  w[i].path, w[i].host);
				return false;
			}
	return true;
}

int windows_merge(struct window *w, size_t n, struct pipeline *p)
{
	int err = n && n <= WINDOWS_MAX ? files_scan(w, n) : -EINVAL;

	if (!err && !hosts_differ(w, n))
		err = -EINVAL;
	return err ? err : windows_feed(w, n, p);
}
