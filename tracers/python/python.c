/* SPDX-License-Identifier: Apache-2.0
 *
 * python.c - where CPython collects garbage: its static marks, which distributions compile in, or the function itself
 * where the file has symbols. A long collection is put into the stream while it runs, too.
 */
#include "tracers/python/python.h"

#include <errno.h>

#include "python.skel.h"
#include "source.h"

#define RUNS_LONG_NS 500000000ull /* then it may be why a rank does not move */

static const char garbage[] = "garbage collection";

/* 3.11 (Debian), 3.10 to 3.13 (built with symbols): seen; the function's second name is 3.14's, by source. */
static const struct probe python_probes[PYTHON_ROWS] = {
	[PYTHON_ROW_START] = { .symbol = "python:gc__start", .program = "python_gc_mark", .shows = garbage },
	[PYTHON_ROW_DONE] = { .symbol = "python:gc__done", .program = "python_gc_mark" },
	[PYTHON_ROW_ENTRY] = { .symbol = "gc_collect_main",
			       .alias = "_PyGC_Collect",
			       .program = "python_gc_mark",
			       .shows = garbage },
	[PYTHON_ROW_RETURN] = { .symbol = "gc_collect_main",
				.alias = "_PyGC_Collect",
				.program = "python_gc_return",
				.at_return = true },
};

/* An interpreter, with marks or without: of one without them it is said that they are missing. */
static const char *const python_markers[] = { "PyGC_Collect|python:gc__start", NULL };

static const void *python_object(size_t *ret_size)
{
	return python_bpf__elf_bytes(ret_size);
}

static bool python_rows_alike(size_t a, size_t b)
{
	return a == b;
}

static enum probe_group python_group(size_t row)
{
	(void)row;
	return PROBES_GC;
}

static int running_emit(struct tracer_handle *h, uint32_t tid, const struct python_thread *t, uint64_t now_ns)
{
	struct python_gc_record r = {
		.hdr = { .size = sizeof(r),
			 .tracer = WIRE_PYTHON,
			 .kind = PYTHON_GC,
			 .tgid = t->tgid,
			 .tid = tid,
			 .ts_ns = now_ns },
		.body = { .begin_ns = t->begin_ns, .busy_ns = now_ns - t->begin_ns },
	};

	return tracer_emit(h, &r.hdr);
}

/* A thread that died within a collection leaves its row behind; the map forgets rows by itself, too. */
static int python_tick(struct tracer_handle *h, uint64_t now_ns)
{
	uint32_t tid = 0, *prev = NULL;
	struct python_thread t;
	uint64_t generation;
	int err = 0, n = 0;

	/* where the kernel drops the row at hand, the next one is the first again */
	while (!err && n++ < PYTHON_THREADS_MAX && !tracer_map_next(h, "python_threads", prev, &tid)) {
		prev = &tid;
		if (tracer_map_get(h, "python_threads", &tid, &t) || !t.begin_ns ||
		    now_ns < t.begin_ns + RUNS_LONG_NS || !tracer_generation(h, t.tgid, &generation))
			continue;
		err = running_emit(h, tid, &t, now_ns);
	}
	return err;
}

static const struct tracer python_tracer = {
	.name = "python",
	.id = WIRE_PYTHON,
	.of_many = true,
	.probes = python_probes,
	.n_probes = PYTHON_ROWS,
	.rows_alike = python_rows_alike,
	.group = python_group,
	.markers = python_markers,
	.files = "python3|libpython3",
	.object = python_object,
	.tick = python_tick,
};

const struct source_live source_python = { .tracer = &python_tracer };
