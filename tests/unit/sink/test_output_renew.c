/* SPDX-License-Identifier: Apache-2.0
 *
 * test_output_renew.c - outputs of a session of many days: a file is followed by new ones, each of which can be read
 * alone; one that could not be written comes back, and what is missing is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "schemas/collector.h"
#include "schemas/snapshot.h"
#include "tracers/sched/sched.h"

#define SEC 1000000000ull

static char root[] = "/tmp/ranktrace-unit-renew-XXXXXX";
static uint64_t now;

static const char *at(const char *name)
{
	static char paths[8][64];
	static int used;
	char *path = paths[used++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
	return path;
}

static void give(struct pipeline *p, struct wire_hdr *h, size_t size, int kind)
{
	h->size = size;
	h->tracer = WIRE_COLLECTOR;
	h->kind = kind;
	h->ts_ns = now;
	assert_int_equal(pipeline_feed(p, h), 0);
}

static void tick_pass(struct pipeline *p)
{
	struct record_tick tick = {};

	give(p, &tick.hdr, sizeof(tick), RECORD_TICK);
	now += SEC / 4;
	pipeline_flush(p);
}

/* Texts that do not compress: 4 KB a second, beside the ticks. */
static void seconds_pass(struct pipeline *p, int n)
{
	union {
		struct record_task_at f;
		char bytes[1024];
	} place;

	for (int i = 0; i < 4 * n; i++) {
		memset(&place, 0, sizeof(place));
		for (size_t k = sizeof(place.f); k < sizeof(place) - 8; k++)
			place.bytes[k] = 'a' + random() % 26;
		place.f.wchan_len = place.f.syscall_len = 1;
		place.f.file_len = 900;
		place.f.hdr.tgid = place.f.hdr.tid = 77;
		give(p, &place.f.hdr, sizeof(place), RECORD_TASK_AT);
		tick_pass(p);
	}
}

static struct pipeline *session(const char *path, const struct output_rules *rules)
{
	union {
		struct record_start f;
		char bytes[72];
	} start = { .f = { .realtime_offset_ns = 5 * SEC, .hang_floor_ns = 3 * SEC, .version = 1, .host_len = 5 } };
	struct record_lib lib = { .lib_id = 3 };
	struct pipeline *p = pipeline_new();

	assert_non_null(p);
	now = 1000 * SEC;
	pipeline_set_output_rules(p, rules);
	assert_int_equal(pipeline_add_output(p, path), 0);
	memcpy(start.f.host, "host", 5);
	give(p, &start.f.hdr, sizeof(start), RECORD_START);
	lib.hdr.tgid = 77;
	give(p, &lib.hdr, sizeof(lib), RECORD_LIB);
	return p;
}

struct read {
	int starts, snapshots, libs, stops, records;
	uint64_t first_tick_ns, last_tick_ns;
};

/* It ends clean, whatever happened to it. */
static struct read read_all(const char *path)
{
	struct read got = {};
	struct recording_reader *r;
	const struct wire_hdr *rec;
	int more;

	assert_int_equal(recording_open(path, &r), 0);
	while ((more = recording_next(r, &rec)) == 1) {
		if (!got.records++)
			assert_int_equal(rec->kind, RECORD_START);
		got.starts += rec->kind == RECORD_START;
		got.snapshots += rec->kind == RECORD_SNAPSHOT;
		got.libs += rec->kind == RECORD_LIB;
		got.stops += rec->kind == RECORD_STOP;
		if (rec->kind == RECORD_TICK && !got.first_tick_ns)
			got.first_tick_ns = rec->ts_ns;
		if (rec->kind == RECORD_TICK)
			got.last_tick_ns = rec->ts_ns;
	}
	assert_int_equal(more, 0);
	recording_reader_free(r);
	return got;
}

static bool exists(const char *path)
{
	struct stat is;

	return !lstat(path, &is);
}

static void files_bounded(const char *name, int keep)
{
	char path[64];

	for (int n = 1; n <= keep + 3; n++) {
		snprintf(path, sizeof(path), "%s.%d", name, n);
		assert_int_equal(exists(path), n <= keep);
	}
}

static void test_each_file_can_be_read_alone(void **state)
{
	static const struct output_rules by_size = { .lasting = true, .rotate_bytes = 100000, .keep = 3 },
					 by_time = { .lasting = true, .rotate_ns = 30 * SEC };
	const struct output_rules *rules = *state ? &by_time : &by_size;
	const char *path = at(*state ? "time.rtr" : "size.rtr");
	struct pipeline *p = session(path, rules);
	struct output_change change;
	struct read newer, older;
	uint64_t newest_begin;
	char one[64], two[64];
	struct stat is;

	seconds_pass(p, 400);
	assert_false(pipeline_output_change(p, &change));
	assert_int_equal(pipeline_free(p), 0);
	files_bounded(path, *state ? OUTPUT_KEEP : 3);
	snprintf(one, sizeof(one), "%s.1", path);
	snprintf(two, sizeof(two), "%s.2", path);
	newer = read_all(one);
	older = read_all(two);
	newest_begin = read_all(path).first_tick_ns;
	assert_int_equal(older.starts, 1);
	assert_true(older.snapshots > 0);
	assert_int_equal(older.libs, 1); /* emitted once, at the session's begin */
	assert_int_equal(older.stops, 1);
	assert_int_equal(newer.first_tick_ns, older.last_tick_ns); /* nothing is missing, and only that tick twice */
	assert_int_equal(newest_begin, newer.last_tick_ns);
	if (*state) {
		assert_in_range(newer.last_tick_ns - newer.first_tick_ns, 29 * SEC, 30 * SEC);
		return;
	}
	assert_int_equal(stat(two, &is), 0);
	assert_in_range(is.st_size, 100000, 110000);
	assert_int_equal(is.st_mode & 0777, 0600);
}

/* What an earlier session left is not lost. */
static void test_an_older_file_is_one_of_those_kept(void **state)
{
	const struct output_rules rules = { .lasting = true, .rotate_ns = 3600 * SEC };
	struct pipeline *p = session(at("again.rtr"), &rules);

	(void)state;
	seconds_pass(p, 3);
	pipeline_free(p);
	p = session(at("again.rtr"), &rules);
	assert_true(exists(at("again.rtr.1")));
	assert_false(exists(at("again.rtr.part")));
	seconds_pass(p, 7);
	pipeline_free(p);
	assert_int_equal(read_all(at("again.rtr.1")).last_tick_ns, 1000 * SEC + 11 * SEC / 4);
	assert_int_equal(read_all(at("again.rtr")).last_tick_ns, 1000 * SEC + 27 * SEC / 4);
}

static void test_a_file_that_was_moved_is_begun_anew(void **state)
{
	const struct output_rules rules = { .lasting = true };
	struct pipeline *p = session(at("moved.rtr"), &rules);

	(void)state;
	seconds_pass(p, 3);
	pipeline_reopen_outputs(p);
	assert_false(exists(at("moved.rtr.1")));
	assert_int_equal(rename(at("moved.rtr"), at("moved-away.rtr")), 0);
	seconds_pass(p, 3);
	assert_false(exists(at("moved.rtr")));
	pipeline_reopen_outputs(p);
	seconds_pass(p, 3);
	pipeline_free(p);
	assert_false(exists(at("moved.rtr.1")));
	assert_int_equal(read_all(at("moved.rtr")).libs, 1);
	assert_int_equal(read_all(at("moved.rtr")).first_tick_ns, read_all(at("moved-away.rtr")).last_tick_ns);
}

/* Rank 0, process 77. */
static void rank_begins(struct pipeline *p)
{
	union {
		struct record_proc f;
		char bytes[sizeof(struct record_proc) + 16];
	} u = { .f = { .hdr.tid = 77,
		       .hdr.tgid = 77,
		       .start_ns = now - SEC,
		       .parent_tgid = 1,
		       .world_size = 1,
		       .rank_source = RANK_ENV,
		       .job_len = 4,
		       .name_len = 7,
		       .container_len = 1 } };

	memcpy(u.f.text, "job\0python", 11);
	give(p, &u.f.hdr, sizeof(u), RECORD_PROC);
}

static void rank_is_blocked(struct pipeline *p)
{
	union {
		struct sched_blocked f;
		char bytes[sizeof(struct sched_blocked) + 8];
	} u = { .f = { .hdr = { .size = sizeof(u), .tracer = WIRE_SCHED, .kind = SCHED_BLOCKED, .tid = 77, .tgid = 77 },
		       .begin_ns = now - 6 * SEC,
		       .len = { 1, 1, 1, 1, 1 } } };

	u.f.hdr.ts_ns = now;
	assert_int_equal(pipeline_feed(p, &u.f.hdr), 0);
}

static int n_open(const struct pipeline *p)
{
	const struct incident *i = NULL;
	int n = 0;

	while ((i = incidents_next_open(pipeline_incidents(p), i)))
		n++;
	return n;
}

/* As if the session ended now, or its node died. */
static int n_open_in_replay(const char *path)
{
	struct pipeline *p = pipeline_new();
	struct recording_reader *r;
	const struct wire_hdr *rec;
	int n;

	assert_non_null(p);
	assert_int_equal(recording_open(path, &r), 0);
	while (recording_next(r, &rec) == 1)
		assert_int_equal(pipeline_feed(p, rec), 0);
	n = n_open(p);
	recording_reader_free(r);
	pipeline_free(p);
	return n;
}

static void test_the_newest_file_says_what_is_open(void **state)
{
	const struct output_rules rules = { .lasting = true, .rotate_ns = SEC };
	struct pipeline *p = session(at("open.rtr"), &rules);

	(void)state;
	rank_begins(p);
	seconds_pass(p, 3);
	assert_int_equal(n_open(p), 0);
	rank_is_blocked(p);
	for (int ticks = 0; ticks < 12; ticks++) {
		tick_pass(p);
		assert_int_equal(n_open(p), 1);
		assert_int_equal(n_open_in_replay(at("open.rtr")), 1);
	}
	pipeline_free(p);
	assert_true(exists(at("open.rtr.3")));
}

/* The host did not run: until its ranks have had time to go on nothing is judged, nor in a new file alone. */
static void test_what_is_not_judged_is_in_no_file(void **state)
{
	const struct output_rules rules = { .lasting = true, .rotate_ns = SEC };
	struct pipeline *p = session(at("still.rtr"), &rules);
	int settles = 0;

	(void)state;
	rank_begins(p);
	seconds_pass(p, 3);
	now += 10 * SEC;
	rank_is_blocked(p);
	for (int ticks = 0; ticks < 60; ticks++) {
		tick_pass(p);
		settles += !n_open(p);
		assert_int_equal(n_open_in_replay(at("still.rtr")), n_open(p));
	}
	assert_in_range(settles, 30, 34); /* 8 s */
	pipeline_free(p);
}

static rlim_t file_limit(rlim_t bytes)
{
	struct rlimit old, limit;

	getrlimit(RLIMIT_FSIZE, &old);
	limit = (struct rlimit){ .rlim_cur = bytes, .rlim_max = old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &limit);
	return old.rlim_cur;
}

static void test_a_full_disk_is_said_once_and_it_comes_back(void **state)
{
	const struct output_rules rules = { .lasting = true };
	struct pipeline *p = session(at("full.rtr"), &rules);
	struct read before, after;
	struct output_change change;
	rlim_t was;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	seconds_pass(p, 10);
	was = file_limit(100); /* not even the state has room in a new one */
	seconds_pass(p, 20);
	assert_true(pipeline_output_change(p, &change));
	assert_int_equal(change.kind, OUTPUT_PAUSED);
	assert_int_equal(change.err, -EFBIG);
	seconds_pass(p, 200);
	assert_false(pipeline_output_change(p, &change));
	assert_true(pipeline_has_output(p));
	assert_false(exists(at("full.rtr.part")));
	assert_false(exists(at("full.rtr.1")));
	file_limit(was);
	seconds_pass(p, 60);
	assert_true(pipeline_output_change(p, &change));
	assert_int_equal(change.kind, OUTPUT_BACK);
	assert_true(change.apart && !change.findings);
	assert_true(pipeline_output_failed(p, 0));
	pipeline_close_outputs(p);
	before = read_all(at("full.rtr.1"));
	after = read_all(at("full.rtr"));
	assert_int_equal(after.starts, 1);
	assert_int_equal(after.libs, 1);
	/* two records a tick of a quarter of a second, and the first missing one is of the tick's chunk */
	assert_in_range(change.missed, (after.first_tick_ns - before.last_tick_ns) / (SEC / 4) * 2 - 3,
			(after.first_tick_ns - before.last_tick_ns) / (SEC / 4) * 2);
	pipeline_free(p);
}

/* A command that ends by itself is not to wait for a disk. */
static void test_a_replay_ends_its_output(void **state)
{
	const struct output_rules rules = {};
	struct pipeline *p = session(at("replayed.rtr"), &rules);
	struct output_change change;
	rlim_t was = file_limit(5000);

	(void)state;
	seconds_pass(p, 10);
	file_limit(was);
	assert_true(pipeline_output_change(p, &change));
	assert_int_equal(change.kind, OUTPUT_ENDED);
	assert_false(pipeline_has_output(p));
	seconds_pass(p, 10);
	pipeline_free(p);
	assert_int_equal(read_all(at("replayed.rtr")).starts, 1);
}

static int root_make(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int root_remove(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	static int by_time = 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_file_can_be_read_alone),
		cmocka_unit_test_prestate(test_each_file_can_be_read_alone, &by_time),
		cmocka_unit_test(test_an_older_file_is_one_of_those_kept),
		cmocka_unit_test(test_a_file_that_was_moved_is_begun_anew),
		cmocka_unit_test(test_the_newest_file_says_what_is_open),
		cmocka_unit_test(test_what_is_not_judged_is_in_no_file),
		cmocka_unit_test(test_a_full_disk_is_said_once_and_it_comes_back),
		cmocka_unit_test(test_a_replay_ends_its_output),
	};

	return cmocka_run_group_tests(tests, root_make, root_remove);
}
