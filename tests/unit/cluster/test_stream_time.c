/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stream_time.c - the hub's axis where the clock of the server is stepped, drifts, or is another server's; and
 * where messages are late, which is none of these.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hub/time/stream_time.h"

#define MSEC 1000000ull
#define SEC 1000000000ull
#define WALL (1790000000ull * SEC)

static struct stream_time t;
static uint64_t mono;   /* this process's clock */
static int64_t wall;    /* the server's, less that */
static uint64_t late;   /* messages are in hand so long after they were stored */
static int64_t stepped; /* that was said */
static int n_steps;

static int begin(void **state)
{
	(void)state;
	t = (struct stream_time){};
	mono = 500 * SEC;
	wall = (int64_t)WALL;
	late = 0;
	stepped = 0;
	n_steps = 0;
	return 0;
}

/* `waited`: none was in hand before it came. */
static void message(uint64_t stored_ns, bool waited)
{
	int64_t step;

	if (waited)
		stream_time_pass(&t, mono);
	step = stream_time_take(&t, stored_ns, true, mono);
	t.empty = false; /* as follower_take() does */
	stepped += step;
	n_steps += step != 0;
}

static uint64_t server_ns(void)
{
	return mono + (uint64_t)wall - late;
}

static void goes(uint64_t ns, uint64_t every_ns)
{
	for (uint64_t end = mono + ns; mono < end;) {
		mono += every_ns;
		message(server_ns(), true);
	}
}

/* From here on the axis has to go as `mono` does. */
static void assert_goes_on(uint64_t ns, uint64_t every_ns)
{
	uint64_t axis = t.now_ns, from = mono;

	while (mono < from + ns) {
		uint64_t before = t.now_ns;

		goes(every_ns, every_ns);
		assert_true(t.now_ns > before);
		assert_in_range(t.now_ns + 20 * MSEC - axis, mono - from, mono - from + 40 * MSEC);
	}
}

static void assert_stepped(int64_t by_ns)
{
	assert_int_equal(n_steps, 1);
	assert_true(llabs(stepped - by_ns) < (int64_t)(100 * MSEC));
	assert_int_equal(t.moved_ns, -stepped);
}

static void it_begins_as_the_servers_clock(void **state)
{
	(void)state;
	goes(5 * SEC, 10 * MSEC);
	assert_in_range(t.now_ns, server_ns(), server_ns() + MSEC);
	assert_goes_on(10 * SEC, 10 * MSEC);
	assert_int_equal(n_steps, 0);
}

static void a_step_is_none_of_the_axis(void **state)
{
	static const int64_t steps_s[] = { -60, -3, 3, 20, 300 };

	for (size_t i = 0; i < sizeof(steps_s) / sizeof(steps_s[0]); i++) {
		begin(state);
		goes(3 * SEC, 10 * MSEC);
		wall += steps_s[i] * (int64_t)SEC;
		assert_goes_on(100 * SEC, 10 * MSEC);
		assert_stepped(steps_s[i] * (int64_t)SEC);
	}
}

/* One report a second, one host: the same. */
static void in_a_sparse_stream_neither(void **state)
{
	static const int64_t steps_s[] = { -60, 20, 300 };

	for (size_t i = 0; i < sizeof(steps_s) / sizeof(steps_s[0]); i++) {
		begin(state);
		goes(10 * SEC, SEC);
		wall += steps_s[i] * (int64_t)SEC;
		assert_goes_on(100 * SEC, SEC);
		assert_stepped(steps_s[i] * (int64_t)SEC);
	}
}

/* The hub is busy, and never finds that there is no message. */
static void a_step_back_is_seen_where_messages_wait(void **state)
{
	uint64_t axis;

	(void)state;
	goes(3 * SEC, 10 * MSEC);
	wall -= 60 * SEC;
	axis = t.now_ns;
	for (int i = 0; i < 300; i++) {
		mono += 10 * MSEC;
		message(server_ns(), false);
	}
	assert_in_range(t.now_ns - axis, 2900 * MSEC, 3100 * MSEC);
	assert_stepped(-60 * (int64_t)SEC);
}

/* Another server has the stream after ten seconds without one, and its clock is behind by just that: what it stores is
 * in order, and old. */
static void a_step_that_no_message_shows_is_seen(void **state)
{
	(void)state;
	goes(3 * SEC, 10 * MSEC);
	for (int i = 0; i < 100; i++) {
		mono += 100 * MSEC;
		stream_time_pass(&t, mono);
	}
	wall -= 10 * SEC;
	assert_goes_on(60 * SEC, 10 * MSEC);
	assert_stepped(-10 * (int64_t)SEC);
}

/* What the stream holds is read as fast as it goes: time is the stream's. A step back in it is one. */
static void the_past_is_no_step(void **state)
{
	uint64_t past = 600 * SEC;

	(void)state;
	for (uint64_t ago = past; ago; ago -= 10 * MSEC) {
		mono += 10000;
		stream_time_take(&t, mono + (uint64_t)wall - ago, false, mono);
		if (ago % SEC == 0)
			stream_time_pass(&t, mono); /* the network gives it in pieces */
		assert_true(t.now_ns <= mono + (uint64_t)wall);
	}
	assert_goes_on(60 * SEC, 10 * MSEC);
	assert_in_range(t.now_ns + 10 * MSEC, server_ns(), server_ns() + 20 * MSEC);
	assert_int_equal(t.moved_ns, 0);
	begin(state);
	for (uint64_t i = 0; i < 100; i++)
		stepped += stream_time_take(&t, WALL + i * SEC - (i < 50 ? 0 : 60 * SEC), false, mono);
	assert_int_equal(stepped, -59 * (int64_t)SEC);
	assert_int_equal(t.now_ns, WALL + 98 * SEC);
}

/* A host reported last 100 s ago, and that is all that is kept: it comes alone, as one of now would. The next report
 * says what the time is, which is no step, and the host was silent for so long. */
static void a_single_old_report_is_not_the_present(void **state)
{
	static const int kept[] = { 1, 3 };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		uint64_t last = 0;

		begin(state);
		for (int k = kept[i]; k; k--) { /* the network gives them one by one */
			last = server_ns() - 100 * SEC - (uint64_t)k * SEC;
			stream_time_pass(&t, mono);
			stream_time_take(&t, last, k == 1, mono + MSEC);
			t.empty = false;
			mono += 10 * MSEC;
		}
		for (int k = 0; k < 200; k++, mono += 50 * MSEC)
			stream_time_pass(&t, mono);
		goes(10 * MSEC, 10 * MSEC);
		assert_int_equal(n_steps, 0);
		assert_int_equal(t.moved_ns, 0);
		assert_in_range(t.now_ns, server_ns(), server_ns() + MSEC);
		assert_true(t.now_ns - last > 110 * SEC);
		assert_goes_on(20 * SEC, 10 * MSEC);
		wall -= 60 * SEC; /* a step costs nothing afterwards, either */
		assert_goes_on(20 * SEC, 10 * MSEC);
		assert_stepped(-60 * (int64_t)SEC);
	}
}

/* This hub stood for 30 s: what waits is judged by when it was stored, then time goes on. */
static void what_waited_here_is_no_step(void **state)
{
	uint64_t last;

	(void)state;
	goes(3 * SEC, 10 * MSEC);
	last = server_ns();
	mono += 30 * SEC;
	for (uint64_t i = 1; i <= 3000; i++) {
		mono += 1000;
		message(last + i * 10 * MSEC, false);
		assert_in_range(t.now_ns, last, last + i * 10 * MSEC);
	}
	assert_goes_on(20 * SEC, 10 * MSEC);
	assert_int_equal(n_steps, 0);
}

/* Its machine was paused, and its clock with it: the same from the other side. */
static void a_pause_of_this_machine_is_no_step(void **state)
{
	uint64_t last;

	(void)state;
	goes(3 * SEC, 10 * MSEC);
	last = server_ns();
	wall += 30 * SEC;
	for (uint64_t i = 1; i <= 3000; i++) {
		mono += 1000;
		message(last + i * 10 * MSEC, i == 1);
	}
	assert_in_range(t.now_ns, last + 29 * SEC, last + 31 * SEC);
	assert_int_equal(n_steps, 0);
}

/* The network between server and hub stood for 20 s, and gives all at once. */
static void a_burst_is_no_step(void **state)
{
	uint64_t last;

	(void)state;
	goes(3 * SEC, 10 * MSEC);
	last = server_ns();
	for (int i = 0; i < 200; i++) {
		mono += 100 * MSEC;
		stream_time_pass(&t, mono);
	}
	for (uint64_t i = 1; i <= 2000; i++)
		message(last + i * 10 * MSEC, i == 1);
	assert_goes_on(20 * SEC, 10 * MSEC);
	assert_int_equal(n_steps, 0);
}

/* A clock of a thousandth more or less, for a day: followed, and never a step. */
static void drift_is_no_step(void **state)
{
	(void)state;
	for (int sign = -1; sign <= 1; sign += 2) {
		begin(state);
		goes(3 * SEC, 10 * MSEC);
		for (int s = 0; s < 86400; s++) {
			wall += sign * (int64_t)(MSEC / 2);
			goes(SEC, 500 * MSEC);
		}
		assert_int_equal(n_steps, 0);
		assert_true(llabs((int64_t)(t.now_ns - server_ns())) < (int64_t)(100 * MSEC));
	}
}

#define CASE(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(it_begins_as_the_servers_clock),
		CASE(a_step_is_none_of_the_axis),
		CASE(in_a_sparse_stream_neither),
		CASE(a_step_back_is_seen_where_messages_wait),
		CASE(a_step_that_no_message_shows_is_seen),
		CASE(the_past_is_no_step),
		CASE(a_single_old_report_is_not_the_present),
		CASE(what_waited_here_is_no_step),
		CASE(a_pause_of_this_machine_is_no_step),
		CASE(a_burst_is_no_step),
		CASE(drift_is_no_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
