/* SPDX-License-Identifier: Apache-2.0
 *
 * test_follower.c - what a hub finds where the clock of its server is stepped: who is late is named as ever, of times
 * that people can read, and no host is taken for a silent one; with reports that wait at an agent, or for a hub that
 * begins. This program's clock is the test's.
 */
#include "tests/unit/cluster/two_hosts.h"

#include <time.h>

#include "base/clock.h"
#include "cluster/report_queue.h"
#include "hub/follower.h"

static struct follower f;
static int64_t stepped; /* the server's clock */
static struct waiting { /* at the agent of node-b, while it is cut off */
	char *bytes;
	size_t len;
} waiting[1024];
static int n_waiting;
static bool cut;

uint64_t clock_monotonic_ns(void)
{
	return now + 7 * SEC;
}

uint64_t clock_boottime_ns(void)
{
	return clock_monotonic_ns();
}

uint64_t clock_realtime_offset_ns(void)
{
	return WALL;
}

static void hub_begin(void)
{
	assert_int_equal(follower_init(&f, "a", &memory_bus.base, NULL), 0);
}

static int f_begin(void **state)
{
	stepped = 0;
	n_waiting = 0;
	cut = false;
	begin(state);
	hub_begin();
	return 0;
}

static int f_end(void **state)
{
	follower_free(&f);
	return end(state);
}

static void turns(void)
{
	assert_int_equal(follower_ticks(&f), 0);
	for (struct hub_job *j = f.jobs; j; j = j->next)
		hub_job_turn(j, clock_monotonic_ns());
	follower_forget(&f);
}

static void hand(int host, const char *bytes, size_t len, int64_t stored_ns, uint64_t n_behind)
{
	struct bus_message msg = { .token = host ? "node-b" : "node-a",
				   .data = bytes,
				   .len = len,
				   .n_behind = n_behind,
				   .stored_ns = stored_ns };

	assert_int_equal(follower_take(&f, &msg), 0);
	turns();
}

static void none_in_hand(void)
{
	assert_int_equal(follower_pass(&f), 0);
	turns();
}

static int64_t server_ns(void)
{
	return (int64_t)(WALL + now) + stepped;
}

static void report_hand(int host)
{
	static char bytes[REPORT_BYTES_MAX];
	size_t len = report_write(host, bytes);

	if (!host || !cut) {
		hand(host, bytes, len, server_ns(), 0);
		return;
	}
	waiting[n_waiting].bytes = malloc(len);
	assert_non_null(waiting[n_waiting].bytes);
	memcpy(waiting[n_waiting].bytes, bytes, len);
	waiting[n_waiting++].len = len;
}

static void ranks_go(int moving)
{
	for (int r = 0; r < moving; r++) {
		entered[r] += 10;
		since[r] = now + 50 * MSEC;
	}
}

/* Ten reports a second of each host; a busy hub seldom sees that there is none. */
static void goes(int n, int moving)
{
	while (n--) {
		ranks_go(moving);
		for (int i = 0; i < 10; i++) {
			now += SEC / 10;
			if (!i)
				none_in_hand();
			for (int host = 0; host < HOSTS; host++)
				report_hand(host);
		}
	}
}

static void rank_3_is_named(void)
{
	int64_t began_ns = server_ns() + 2 * (int64_t)SEC; /* a hang opens by then */
	cJSON *o;
	time_t began = (time_t)(began_ns / (int64_t)SEC);
	char when[32];

	rank_3_sleeps();
	goes(12, 0);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "hang");
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint, 3);
	strftime(when, sizeof(when), "-%Y%m%d-%H%M", gmtime(&began));
	if (!strstr(text_of(o, "id"), when))
		fail_msg("%s does not say %s", text_of(o, "id"), when);
	cJSON_Delete(o);
	assert_no_more(1);
}

/* --- cases --- */

static void step_is_nothing(int64_t step_s)
{
	goes(30, RANKS);
	stepped += step_s * (int64_t)SEC;
	goes(30, RANKS);
	assert_no_more(0);
	rank_3_is_named();
}

static void back_by_a_minute(void **state)
{
	(void)state;
	step_is_nothing(-60);
}

static void forward_by_20_s(void **state)
{
	(void)state;
	step_is_nothing(20);
}

static void forward_by_300_s(void **state)
{
	(void)state;
	step_is_nothing(300);
}

/* No report for ten seconds, then another server has them, whose clock is behind by just that, or by more; some wait
 * there as the hub asks. For ten seconds it can be thought that they are late. */
static void with_another_server(int64_t step_s, uint64_t n_behind)
{
	static char bytes[REPORT_BYTES_MAX];
	size_t len;

	goes(30, RANKS);
	for (int i = 0; i < 100; i++) {
		now += SEC / 10;
		none_in_hand();
	}
	stepped += step_s * (int64_t)SEC;
	for (int host = 0; host < HOSTS; host++) {
		len = report_write(host, bytes);
		hand(host, bytes, len, server_ns(), n_behind);
	}
	goes(10, RANKS);
	for (const struct host *h = f.hosts.all; h; h = h->hh.next)
		assert_true(h->at_ns + 2 * SEC > f.time.now_ns);
	goes(20, RANKS);
	assert_no_more(0);
	rank_3_is_named();
}

static void on_another_server(void **state)
{
	static const int64_t steps_s[] = { -10, -60, 20 };

	for (size_t i = 0; i < 2 * sizeof(steps_s) / sizeof(steps_s[0]); i++) {
		with_another_server(steps_s[i / 2], i % 2);
		f_end(state);
		f_begin(state);
	}
}

/* It is open as the clock is stepped: it stays one. */
static void what_is_open_stays(void **state)
{
	cJSON *o;

	(void)state;
	goes(30, RANKS);
	rank_3_sleeps();
	goes(12, 0);
	stepped -= 60 * (int64_t)SEC;
	goes(30, 0);
	stepped += 360 * (int64_t)SEC;
	goes(30, 0);
	o = incident_nth(0);
	assert_string_not_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	assert_no_more(1);
}

/* A job that the hub sees first after the step: people are shown the server's clock. */
static void a_job_that_begins_behind_it(void **state)
{
	(void)state;
	goes(10, RANKS);
	stepped += 3600 * (int64_t)SEC;
	goes(10, RANKS);
	job_of[0] = job_of[1] = "other";
	goes(30, RANKS);
	rank_3_sleeps();
	goes(12, 0);
	for (struct hub_job *j = f.jobs; j; j = j->next)
		assert_int_equal(pipeline_model(j->pipeline)->realtime_offset_ns, 3600 * SEC);
}

/* Node-b was cut off for a minute, and says all of it at once. */
static void a_spool_is_no_step(void **state)
{
	(void)state;
	goes(30, RANKS);
	cut = true;
	goes(60, RANKS);
	cut = false;
	now += 100 * MSEC;
	none_in_hand();
	for (int i = 0; i < n_waiting; i++) {
		hand(1, waiting[i].bytes, waiting[i].len, server_ns() + i * 1000, 0);
		free(waiting[i].bytes);
	}
	goes(30, RANKS);
	assert_int_equal(f.time.moved_ns, 0);
	rank_3_sleeps();
	goes(12, 0);
	for (const struct host *h = f.hosts.all; h; h = h->hh.next)
		assert_true(h->at_ns + 2 * SEC > f.time.now_ns);
}

/* A hub that begins: ten minutes in a moment. Then it is as any. */
static void a_takeover_is_no_step(void **state)
{
	static char bytes[REPORT_BYTES_MAX];
	uint64_t real = now + 600 * SEC;

	(void)state;
	while (now < real) {
		ranks_go(RANKS);
		now += SEC;
		for (int host = 0; host < HOSTS; host++) {
			size_t len = report_write(host, bytes);
			uint64_t then = now;
			bool last = now >= real && host;

			now = real + then / 100000; /* this process's clock */
			hand(host, bytes, len, (int64_t)(WALL + then), !last);
			now = then;
		}
	}
	now = real + SEC;
	goes(30, RANKS);
	assert_int_equal(f.time.moved_ns, 0);
	assert_no_more(0);
	rank_3_is_named();
}

/* A cursor that begins anew gives what was read before. */
static void what_is_read_again_is_no_step(void **state)
{
	static char bytes[REPORT_BYTES_MAX];
	size_t len;
	uint64_t at;

	(void)state;
	goes(10, RANKS);
	len = report_write(0, bytes);
	hand(0, bytes, len, server_ns(), 0);
	goes(60, RANKS);
	at = f.time.now_ns;
	hand(0, bytes, len, server_ns() - 60 * (int64_t)SEC, 100);
	assert_int_equal(f.time.now_ns, at);
	assert_int_equal(f.time.moved_ns, 0);
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, f_begin, f_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(back_by_a_minute),   CASE(forward_by_20_s),       CASE(forward_by_300_s),
		CASE(on_another_server),  CASE(what_is_open_stays),    CASE(a_job_that_begins_behind_it),
		CASE(a_spool_is_no_step), CASE(a_takeover_is_no_step), CASE(what_is_read_again_is_no_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
