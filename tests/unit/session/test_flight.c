/* SPDX-License-Identifier: Apache-2.0
 *
 * test_flight.c - the flight recorder's window: bounded in memory over many windows, at least as long as asked for, and
 * what it writes begins with the state and ends like a session. No session: records are made here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "recording/chunk.h"
#include "flight/flight.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "schemas/collector.h"
#include "schemas/snapshot.h"

#define SEC 1000000000ull

static char root[] = "/tmp/ranktrace-unit-flight-XXXXXX";
static uint64_t now;

static void give(struct pipeline *p, struct wire_hdr *h, size_t size, int kind)
{
	h->size = size;
	h->tracer = WIRE_COLLECTOR;
	h->kind = kind;
	h->ts_ns = now;
	assert_int_equal(pipeline_feed(p, h), 0);
}

static void session_begin(struct pipeline *p)
{
	union {
		struct record_start f;
		char bytes[72];
	} start = { .f = { .realtime_offset_ns = 5 * SEC, .version = 1, .host_len = 5 } };

	memcpy(start.f.host, "host", 5);
	give(p, &start.f.hdr, sizeof(start), RECORD_START);
}

/* Texts that do not compress: 4 KB a second, beside the ticks. */
static void second_pass(struct pipeline *p)
{
	union {
		struct record_task_at f;
		char bytes[1024];
	} at;
	struct record_tick tick;

	for (int i = 0; i < 4; i++) {
		memset(&at, 0, sizeof(at));
		for (size_t k = sizeof(at.f); k < sizeof(at) - 8; k++)
			at.bytes[k] = 'a' + random() % 26;
		at.f.wchan_len = at.f.syscall_len = 1;
		at.f.file_len = 900;
		at.f.hdr.tgid = at.f.hdr.tid = 77;
		give(p, &at.f.hdr, sizeof(at), RECORD_TASK_AT);
		memset(&tick, 0, sizeof(tick));
		give(p, &tick.hdr, sizeof(tick), RECORD_TICK);
		now += SEC / 4;
	}
}

static struct pipeline *flown(const struct flight_cfg *cfg, struct flight **ret, int seconds)
{
	struct pipeline *p = pipeline_new();
	char error[256];

	now = 1000 * SEC;
	assert_non_null(p);
	assert_int_equal(flight_new(cfg, ret, error, sizeof(error)), 0);
	flight_tap(*ret, p);
	session_begin(p);
	for (int i = 0; i < seconds; i++)
		second_pass(p);
	return p;
}

static void ended(struct pipeline *p, struct flight *f)
{
	pipeline_set_tap(p, NULL, NULL);
	flight_free(f);
	pipeline_free(p);
}

static void dump(struct flight *f, struct pipeline *p)
{
	flight_request(f, 0);
	flight_finish(f, pipeline_incidents(p), pipeline_model(p), now);
}

/* The only recording in the directory; "" none. The number of files. */
static int files_of(const char *dir, char *ret_rtr, size_t size)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	*ret_rtr = '\0';
	while (d && (e = readdir(d))) {
		n += e->d_type == DT_REG;
		if (strstr(e->d_name, ".rtr"))
			snprintf(ret_rtr, size, "%s/%s", dir, e->d_name);
	}
	closedir(d);
	return n;
}

static void test_window_is_as_long_as_asked_and_no_longer(void **state)
{
	struct flight_cfg cfg = { .dir = root, .window_ns = 40 * SEC };
	struct recording_reader *r;
	const struct wire_hdr *rec;
	struct flight *f;
	struct pipeline *p = flown(&cfg, &f, 300);
	uint64_t first = 0, last_kind = 0;
	char path[512];
	int n_taken = 0, more;

	(void)state;
	dump(f, p);
	assert_int_equal(files_of(root, path, sizeof(path)), 3);
	assert_int_equal(recording_open(path, &r), 0);
	assert_int_equal(recording_next(r, &rec), 1);
	assert_int_equal(rec->kind, RECORD_START);
	assert_int_equal(rec->ts_ns, 1000 * SEC); /* the session's own: incidents are named by it */
	while ((more = recording_next(r, &rec)) == 1) {
		n_taken += rec->kind == RECORD_SNAPSHOT;
		if (rec->kind == RECORD_TICK && !first)
			first = rec->ts_ns;
		last_kind = rec->kind;
	}
	assert_int_equal(more, 0);
	assert_true(n_taken >= 4 && last_kind == RECORD_STOP);
	assert_true(first <= now - 40 * SEC && first >= now - 46 * SEC);
	recording_reader_free(r);
	ended(p, f);
}

static void test_memory_is_bounded(void **state)
{
	struct flight_cfg cfg = { .dir = root, .window_ns = 100000 * SEC, .bytes_max = 200000 };
	struct flight *f;
	struct pipeline *p = flown(&cfg, &f, 3000); /* 12 MB of records, 7 packed */

	(void)state;
	assert_true(flight_bytes(f) <= 200000 + CHUNK_PACKED_MAX);
	assert_true(flight_bytes_peak(f) <= 200000 + CHUNK_PACKED_MAX);
	assert_true(flight_bytes(f) > 50000);
	ended(p, f);
}

static void test_bad_directory_says_so(void **state)
{
	struct flight_cfg cfg = { .dir = "/proc/none/at/all" };
	struct flight *f;
	char error[256] = "";

	(void)state;
	assert_true(flight_new(&cfg, &f, error, sizeof(error)) < 0);
	assert_non_null(strstr(error, "/proc/none/at/all"));
	assert_non_null(strstr(error, "--flight=DIR"));
	cfg.dir = "/dev/null";
	assert_int_equal(flight_new(&cfg, &f, error, sizeof(error)), -20);
}

static void test_leftovers_of_the_dead_go(void **state)
{
	struct flight_cfg cfg = { .dir = root };
	char dead[512], alive[512], error[256];
	struct flight *f;

	(void)state;
	snprintf(dead, sizeof(dead), "%s/.flight-4194305.rtr", root); /* above the largest number of a process */
	snprintf(alive, sizeof(alive), "%s/.flight-%d.rtr", root, getpid());
	fclose(fopen(dead, "w"));
	fclose(fopen(alive, "w"));
	assert_int_equal(flight_new(&cfg, &f, error, sizeof(error)), 0);
	assert_int_not_equal(access(dead, F_OK), 0);
	assert_int_equal(access(alive, F_OK), 0);
	unlink(alive);
	flight_free(f);
}

/* FIFOs that nobody reads, under the names that the next processes would give to their files. */
static void fifos_make(const char *dir, bool there)
{
	char name[512];

	for (int pid = getpid() + 1; pid < getpid() + 3000; pid++) {
		snprintf(name, sizeof(name), "%s/.flight-%d.rtr", dir, pid);
		if (there)
			mkfifo(name, 0600);
		else
			unlink(name);
	}
}

static void test_a_dump_that_does_not_end_delays_no_other(void **state)
{
	struct flight_cfg cfg = { .window_ns = 40 * SEC, .dump_limit_ns = 10 * SEC };
	char dir[128], path[512];
	struct flight *f;
	struct pipeline *p;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/late", root);
	cfg.dir = dir;
	p = flown(&cfg, &f, 20);
	fifos_make(dir, true);
	flight_request(f, 0);
	flight_poll(f, pipeline_incidents(p), pipeline_model(p), now);
	usleep(200000);
	flight_request(f, 0);
	flight_poll(f, pipeline_incidents(p), pipeline_model(p), now + 9 * SEC); /* it may only be slow */
	fifos_make(dir, false);
	files_of(dir, path, sizeof(path));
	assert_string_equal(path, "");
	flight_poll(f, pipeline_incidents(p), pipeline_model(p), now + 11 * SEC);
	for (int i = 0; i < 200 && files_of(dir, path, sizeof(path)) < 3; i++) {
		usleep(50000);
		flight_poll(f, pipeline_incidents(p), pipeline_model(p), now + 12 * SEC);
	}
	assert_int_equal(files_of(dir, path, sizeof(path)), 3);
	assert_non_null(strstr(path, "-signal"));
	ended(p, f);
}

/* SIGCHLD is ignored, as inherited over exec: the kernel reaps the child, and no wait says so. */
static void test_a_child_that_the_kernel_reaps_is_over(void **state)
{
	struct flight_cfg cfg = { .window_ns = 40 * SEC };
	uint64_t begin_ns = clock_monotonic_ns();
	char dir[128], path[512];
	struct flight *f;
	struct pipeline *p;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/reaped", root);
	cfg.dir = dir;
	p = flown(&cfg, &f, 20);
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 2; i++)
		dump(f, p);
	signal(SIGCHLD, SIG_DFL);
	assert_true(files_of(dir, path, sizeof(path)) >= 3);
	assert_true(clock_monotonic_ns() - begin_ns <
		    50 * SEC); /* the end waits for a minute for one that is at work */
	ended(p, f);
}

static int place_make(void **state)
{
	char run[64];

	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(run, sizeof(run), "%s/run", root);
	setenv("RANKTRACE_RUN_DIR", run, 1);
	return 0;
}

static int place_remove(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_is_as_long_as_asked_and_no_longer),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_bad_directory_says_so),
		cmocka_unit_test(test_leftovers_of_the_dead_go),
		cmocka_unit_test(test_a_dump_that_does_not_end_delays_no_other),
		cmocka_unit_test(test_a_child_that_the_kernel_reaps_is_over),
	};

	return cmocka_run_group_tests(tests, place_make, place_remove);
}
