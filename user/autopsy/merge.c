/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - see merge.h. Read autopsy_merge() first. Files are gone through twice: what they hold, then
 * round by round; none is held in memory.
 */
#include "autopsy/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "autopsy/autopsy.h"
#include "base/log.h"
#include "command.h"
#include "autopsy/merge_file.h"
#include "autopsy/merge_job.h"
#include "record.h"
#include "recording/recording.h"
#include "schemas/collector.h"

#define APART_NS 60000000000ull

struct merge {
	struct merge_file *files;
	size_t n;
	struct pipeline *pipeline;
	uint64_t now_ns; /* newest time read */
};

static bool is_collectors(const struct wire_hdr *h, uint8_t kind)
{
	return h->tracer == WIRE_COLLECTOR && h->kind == kind;
}

/* --- one record --- */

/* From the host's clock to that of the first file; what lies before the first sample stays before it. */
static uint64_t time_of(const struct merge *g, size_t host, uint64_t ns)
{
	uint64_t base = g->files[0].anchor_ns, anchor = g->files[host].anchor_ns;

	if (!ns)
		return 0;
	if (ns >= anchor)
		return base + (ns - anchor);
	return anchor - ns < base ? base - (anchor - ns) : 1;
}

/* Every host's first sample counts as the same moment: how far they really were apart is not known. */
static int node_emit(const struct merge *g, size_t host)
{
	union {
		struct record_node f;
		char bytes[sizeof(struct record_node) + 272];
	} u = {};
	size_t len = strlen(g->files[host].host) + 1;

	u.f.node = host;
	u.f.clock_offset_ns = g->files[0].anchor_ns - g->files[host].anchor_ns;
	u.f.clock_error_ns = ~0ull;
	u.f.host_len = len;
	memcpy(u.f.host, g->files[host].host, len);
	u.f.hdr = (struct wire_hdr){ .size = (sizeof(u.f) + len + 7) & ~7ul,
				     .tracer = WIRE_COLLECTOR,
				     .kind = RECORD_NODE,
				     .ts_ns = g->now_ns };
	return pipeline_feed(g->pipeline, &u.f.hdr);
}

static int record_feed(struct merge *g, size_t host, const struct wire_hdr *rec)
{
	union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} u;
	uint64_t *ns;

	if (rec->size > sizeof(u))
		return 0;
	memcpy(&u, rec, rec->size);
	u.h.ts_ns = time_of(g, host, rec->ts_ns);
	for (int i = 0; (ns = record_time(&u.h, i)); i++)
		*ns = time_of(g, host, *ns);
	g->now_ns = u.h.ts_ns > g->now_ns ? u.h.ts_ns : g->now_ns;
	return pipeline_feed(g->pipeline, &u.h);
}

/* --- rounds --- */

static int own_feed(struct merge *g, struct wire_hdr *h, size_t size, uint8_t kind)
{
	*h = (struct wire_hdr){ .size = size, .tracer = WIRE_COLLECTOR, .kind = kind, .ts_ns = g->now_ns };
	return pipeline_feed(g->pipeline, h);
}

static int start_feed(struct merge *g)
{
	union {
		struct record_start f;
		char bytes[sizeof(struct record_start) + 256];
	} u = {};
	char *to = u.f.host;
	size_t left = 240;

	u.f.realtime_offset_ns = g->files[0].start.realtime_offset_ns;
	for (size_t i = 0; i < g->n; i++) {
		const struct record_start *s = &g->files[i].start;
		size_t len = strlen(g->files[i].host);

		u.f.hang_floor_ns = s->hang_floor_ns > u.f.hang_floor_ns ? s->hang_floor_ns : u.f.hang_floor_ns;
		u.f.busy_limit_ns = s->busy_limit_ns > u.f.busy_limit_ns ? s->busy_limit_ns : u.f.busy_limit_ns;
		if (len + 2 > left)
			continue;
		to += snprintf(to, left, "%s%s", i ? "," : "", g->files[i].host);
		left = 240 - (to - u.f.host);
	}
	u.f.dstate_limit_ns = u.f.hang_floor_ns;
	u.f.version = WIRE_VERSION;
	u.f.by = START_BY_AUTOPSY;
	u.f.host_len = strlen(u.f.host) + 1;
	g->now_ns = time_of(g, 0, g->files[0].start.hdr.ts_ns);
	return own_feed(g, &u.f.hdr, (sizeof(u.f) + u.f.host_len + 7) & ~7ul, RECORD_START);
}

/* Round number `round` of one host: what lies behind tick `round` - 1, up to the next. */
static int sample_feed(struct merge *g, size_t host, uint32_t round)
{
	struct recording_reader *r = NULL;
	const struct wire_hdr *rec;
	uint32_t ticks = 0;
	int err = merge_file_open(&g->files[host], &r);

	if (!err)
		err = node_emit(g, host);
	while (!err && ticks <= round && recording_next(r, &rec) == 1) {
		if (is_collectors(rec, RECORD_TICK))
			ticks++;
		else if (ticks == round && !is_collectors(rec, RECORD_START) && !is_collectors(rec, RECORD_STOP))
			err = record_feed(g, host, rec);
	}
	recording_reader_free(r);
	return err;
}

/* As autopsy.c does: a verdict, or proof of life, ends it. */
static int samples_feed(struct merge *g)
{
	struct record_tick tick;
	bool more = true, enough = false;
	int err = 0;

	for (uint32_t round = 0; !err && more && !enough; round++) {
		more = false;
		for (size_t i = 0; !err && i < g->n; i++) {
			if (round < g->files[i].n_ticks)
				err = sample_feed(g, i, round);
			more |= round + 1 < g->files[i].n_ticks;
		}
		g->now_ns++;
		if (!err)
			err = own_feed(g, &tick.hdr, sizeof(tick), RECORD_TICK);
		enough = autopsy_moved(pipeline_model(g->pipeline)) ||
			 incidents_worst(pipeline_incidents(g->pipeline)) >= SEVERITY_WARNING;
	}
	return err;
}

static int stop_feed(struct merge *g)
{
	struct record_stop f = { .records = pipeline_records(g->pipeline) };
	int err = own_feed(g, &f.hdr, sizeof(f), RECORD_STOP);

	pipeline_flush(g->pipeline);
	return err;
}

/* --- do they belong together --- */

static const char *when(const struct merge_file *f, char *to, size_t size)
{
	time_t at = (f->anchor_ns + f->start.realtime_offset_ns) / 1000000000ull;
	struct tm tm;

	strftime(to, size, "%Y-%m-%d %H:%M:%S", localtime_r(&at, &tm));
	return to;
}

static bool hosts_differ(const struct merge *g)
{
	char at_a[32], at_b[32];
	size_t a, b;

	if (merge_hosts_differ(g->files, g->n, &a, &b) != -EEXIST)
		return true;
	log_error("%s and %s are both of host %s (sampled at %s and %s): give one file of each host", g->files[a].path,
		  g->files[b].path, g->files[a].host, when(&g->files[a], at_a, sizeof(at_a)),
		  when(&g->files[b], at_b, sizeof(at_b)));
	return false;
}

static bool one_job(const struct merge *g)
{
	size_t a, b;

	if (merge_one_job(g->files, g->n, &a, &b) != -EINVAL)
		return true;
	log_error("%s and %s have neither a job's name nor a communicator in common: give the files of one job "
		  "(ranktrace autopsy --job NAME --raw FILE)",
		  g->files[a].path, g->files[b].path);
	return false;
}

/* Times of day, as far as the hosts agree on them: only for a word of warning. */
static void apart_warn(const struct merge *g)
{
	uint64_t lo = UINT64_MAX, hi = 0, ns;

	for (size_t i = 0; i < g->n; i++) {
		ns = g->files[i].anchor_ns + g->files[i].start.realtime_offset_ns;
		lo = ns < lo ? ns : lo;
		hi = ns > hi ? ns : hi;
		if (merge_file_idle(&g->files[i]))
			log_warn("%s: no training process was on host %s", g->files[i].path, g->files[i].host);
	}
	if (hi - lo > APART_NS)
		log_warn("the hosts were sampled %.1f minutes apart, by their clocks: what moved in between is not "
			 "known",
			 (hi - lo) / 6e10);
}

static int files_read(struct merge *g, const char *const *paths, size_t n)
{
	int err = 0;

	g->files = calloc(n, sizeof(*g->files));
	if (!g->files)
		return -ENOMEM;
	for (; !err && g->n < n; g->n++)
		err = merge_file_read(paths[g->n], g->n, pipeline_keeper(g->pipeline), &g->files[g->n]);
	return err;
}

int autopsy_merge(const char *const *paths, size_t n, struct pipeline *p)
{
	struct merge g = { .pipeline = p };
	int err = 0, code = EXIT_CLEAN;

	if (n > NODES_MAX) {
		log_error("--merge takes %u files at most", NODES_MAX);
		return EXIT_USAGE;
	}
	if (files_read(&g, paths, n) || !hosts_differ(&g) || !one_job(&g)) {
		code = EXIT_USAGE;
	} else {
		apart_warn(&g);
		err = start_feed(&g);
		err = err ? err : samples_feed(&g);
		err = err ? err : stop_feed(&g);
	}
	for (size_t i = 0; i < g.n; i++)
		merge_file_free(&g.files[i]);
	free(g.files);
	if (err)
		log_error("merging: %s", strerror(-err));
	return err ? EXIT_INTERNAL : code;
}
