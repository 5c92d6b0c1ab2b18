// SPDX-License-Identifier: Apache-2.0
/* test_clock.c - the wall clock is set by an hour in the middle of a session: order and findings do not notice, people
 * are shown the new time. And times of records that make no sense, as of a damaged recording: whatever is found, no
 * crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "schemas/collector.h"
#include "session/session.h"
#include "inspect/reader/reader.h"

#define HOUR_NS 3600000000000ull

static uint64_t asked, set_after = UINT64_MAX; /* looks at the wall clock until somebody sets it */
static char dir[] = "/tmp/ranktrace-clock-XXXXXX", rtr[64], trace[64];

/* In place of user/base/clock.c. */
static uint64_t clock_read(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t clock_boottime_ns(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

uint64_t clock_realtime_offset_ns(void)
{
	return 1700000000000000000ull - (asked++ >= set_after ? HOUR_NS : 0);
}

static void session_of_a_second(void)
{
	uint32_t self = getpid();
	struct session_cfg cfg = { .pids = &self,
				   .n_pids = 1,
				   .duration_ns = 1500000000,
				   .dstate_limit_ns = 5000000000,
				   .hang_floor_ns = 1500000000,
				   .busy_limit_ns = 90000000000,
				   .child_go_fd = -1 };
	struct pipeline *p = pipeline_new();
	struct session_result result;
	struct session *s = NULL;
	struct reader *reader;
	char error[1024];

	assert_int_equal(reader_open(&reader), 0);
	assert_int_equal(pipeline_add_output(p, rtr), 0);
	if (session_open(&cfg, reader, p, &s, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(session_run(s, &result), 0);
	session_free(s);
	assert_int_equal(incidents_opened(pipeline_incidents(p)), 0);
	assert_true(pipeline_model(p)->realtime_offset_ns == 1700000000000000000ull - HOUR_NS);
	assert_true(pipeline_model(p)->start_realtime_ns == pipeline_model(p)->start_ns + 1700000000000000000ull);
	assert_int_equal(pipeline_free(p), 0);
	reader_free(reader);
}

static void test_setting_the_clock_is_reported_and_nothing_else(void **state)
{
	struct recording_reader *r = NULL;
	const struct wire_hdr *rec;
	uint64_t last_ns = 0;
	int emitted = 0, ticks_after = 0;

	(void)state;
	if (geteuid())
		skip();
	log_quiet = true;
	set_after = 3;
	session_of_a_second();
	assert_int_equal(recording_open(rtr, &r), 0);
	while (recording_next(r, &rec) == 1) {
		assert_true(rec->ts_ns >= last_ns);
		last_ns = rec->ts_ns;
		emitted += rec->tracer == WIRE_COLLECTOR && rec->kind == RECORD_CLOCK;
		ticks_after += emitted && rec->tracer == WIRE_COLLECTOR && rec->kind == RECORD_TICK;
	}
	recording_reader_free(r);
	assert_int_equal(emitted, 1);
	assert_true(ticks_after >= 2);
}

enum damage { STEP_FORWARD, STEP_BACK, SCATTERED, ZERO, EXTREME, N_DAMAGES };

static uint64_t damaged(enum damage how, uint64_t ts_ns, uint64_t nth, uint64_t half)
{
	switch (how) {
	case STEP_FORWARD: return nth > half ? ts_ns + HOUR_NS : ts_ns;
	case STEP_BACK: return nth > half ? ts_ns - HOUR_NS : ts_ns;
	case SCATTERED: return rand() % 16 ? ts_ns : ts_ns + (rand() % 2 ? HOUR_NS : -HOUR_NS);
	case ZERO: return rand() % 8 ? ts_ns : 0;
	default: return rand() % 64 ? ts_ns : UINT64_MAX - rand() % 1000;
	}
}

static void play_damaged(const char *path, enum damage how, uint64_t half)
{
	union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} copy;
	struct recording_reader *r = NULL;
	struct pipeline *p = pipeline_new();
	const struct wire_hdr *rec;
	uint64_t n = 0;

	assert_int_equal(recording_open(path, &r), 0);
	assert_int_equal(pipeline_add_output(p, trace), 0);
	while (recording_next(r, &rec) == 1) {
		memcpy(&copy, rec, rec->size);
		copy.h.ts_ns = damaged(how, rec->ts_ns, n++, half);
		assert_int_equal(pipeline_feed(p, &copy.h), 0);
	}
	recording_reader_free(r);
	assert_true(n > half);
	assert_int_equal(pipeline_records(p), n);
	assert_int_equal(pipeline_free(p), 0);
}

static void test_senseless_times_do_no_harm(void **state)
{
	static const char *const recordings[] = { "tests/replay/nested_run_ahead.rtr", "tests/replay/rank0_logs.rtr" };

	(void)state;
	srand(31);
	for (size_t i = 0; i < sizeof(recordings) / sizeof(recordings[0]); i++) {
		if (access(recordings[i], R_OK))
			skip(); /* not run from the top of the tree */
		for (int how = 0; how < N_DAMAGES; how++)
			play_damaged(recordings[i], how, 2000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_setting_the_clock_is_reported_and_nothing_else),
		cmocka_unit_test(test_senseless_times_do_no_harm),
	};
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(rtr, sizeof(rtr), "%s/c.rtr", dir);
	snprintf(trace, sizeof(trace), "%s/c.pftrace", dir);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(rtr);
	unlink(trace);
	rmdir(dir);
	return failed;
}
