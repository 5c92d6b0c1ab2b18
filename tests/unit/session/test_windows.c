/* SPDX-License-Identifier: Apache-2.0
 *
 * test_windows.c - a window for who asks from elsewhere: of which ranks stacks are read, and how long it waits for
 * them. Processes, stacks and flight recorder are stand-ins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "flight/flight.h"
#include "inspect/discover/discover.h"
#include "model/model.h"
#include "session/parts/windows.h"

#define MSEC 1000000ull
#define PROCS 20
#define READ_MOST 16
#define BEGIN (1000 * MSEC)

static struct target_proc procs[PROCS];
static const struct target_proc *list[PROCS];
static size_t n_procs;
static bool wanted, reading;
static uint32_t asked[64];
static int n_asked, n_given, n_room;
static struct window_wish wish;

const struct target_proc *const *target_set_list(struct target_set *s, size_t *ret_n)
{
	(void)s;
	*ret_n = n_procs;
	return list;
}

bool target_proc_of_job(const struct target_proc *p, const char *job)
{
	return !strcmp(p->job, job);
}

int flight_copy(struct flight *f, bool newest_only, const struct model *m, int fd)
{
	(void)f, (void)m, (void)fd;
	assert_true(newest_only == wish.look);
	return 0;
}

static bool is_wanted(void *of, struct window_wish *ret)
{
	bool is = wanted;

	(void)of;
	if (is)
		*ret = wish;
	wanted = false;
	return is;
}

static void given(void *of, uint64_t number, const char *host, int fd, const char *error)
{
	(void)of, (void)host;
	assert_int_equal(number, wish.number);
	assert_true(fd >= 0 && !*error);
	n_given++;
}

static bool ask(struct session_stacks *s, uint32_t tgid)
{
	(void)s;
	if (n_asked == n_room)
		return false;
	asked[n_asked++] = tgid;
	return true;
}

static bool is_reading(const struct session_stacks *s)
{
	(void)s;
	return reading;
}

static char something; /* what is never touched has an address */
static struct windows w;

static int start(void **state)
{
	(void)state;
	log_quiet = true;
	memset(procs, 0, sizeof(procs));
	for (int i = 0; i < PROCS; i++) {
		procs[i].tgid = 100 + i;
		procs[i].rank = i;
		strcpy(procs[i].job, "train");
		list[i] = &procs[i];
	}
	n_procs = PROCS;
	n_asked = n_given = 0;
	n_room = 64;
	reading = false;
	wish = (struct window_wish){ .number = 7, .look = true, .user = WINDOW_ANY_USER, .job = "train" };
	wanted = true;
	w = (struct windows){ .asker = { .wanted = is_wanted, .given = given },
			      .stacks = (void *)&something,
			      .stacks_ask = ask,
			      .stacks_asked = is_reading };
	return 0;
}

/* Each 50 ms until then, since the wish. */
static void turns(unsigned from_ms, unsigned until_ms)
{
	static struct model m;

	for (unsigned ms = from_ms; ms < until_ms; ms += 50)
		windows_turn(&w, (void *)&something, (void *)&something, &m, BEGIN + ms * MSEC);
}

static void sixteen_ranks_of_the_job_are_read(void **state)
{
	(void)state;
	strcpy(procs[1].job, "other");
	procs[2].is_child = true;
	procs[3].status = TARGET_GONE;
	turns(0, 50);
	assert_int_equal(n_asked, READ_MOST);
	assert_int_equal(asked[0], 100);
	assert_int_equal(asked[1], 104);
	assert_int_equal(asked[READ_MOST - 1], 100 + READ_MOST + 2);
}

static void one_that_is_refused_is_no_reason_to_leave_others_out(void **state)
{
	(void)state;
	n_room = 3;
	turns(0, 50);
	assert_int_equal(n_asked, 3);
	n_asked = 0;
	turns(50, 2600);
	assert_int_equal(n_given, 1);
}

static void it_is_given_after_two_and_a_half_seconds(void **state)
{
	(void)state;
	reading = true;
	turns(0, 1500);
	reading = false;
	turns(1500, 2500);
	assert_int_equal(n_given, 0);
	turns(2500, 2550);
	assert_int_equal(n_given, 1);
	turns(2550, 9000);
	assert_int_equal(n_given, 1);
}

static void it_waits_for_stacks_that_are_late(void **state)
{
	(void)state;
	reading = true;
	turns(0, 3000);
	reading = false;
	turns(3000, 3050);
	assert_int_equal(n_given, 0); /* what was emitted in this turn is not in it yet */
	turns(3050, 3200);
	assert_int_equal(n_given, 1);
}

static void but_not_for_ever(void **state)
{
	(void)state;
	reading = true;
	turns(0, 4000);
	assert_int_equal(n_given, 0);
	turns(4000, 4050);
	assert_int_equal(n_given, 1);
}

static void the_whole_window_waits_for_none(void **state)
{
	(void)state;
	wish.look = false;
	reading = true;
	turns(0, 50);
	assert_int_equal(n_asked, 0);
	assert_int_equal(n_given, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(sixteen_ranks_of_the_job_are_read, start),
		cmocka_unit_test_setup(one_that_is_refused_is_no_reason_to_leave_others_out, start),
		cmocka_unit_test_setup(it_is_given_after_two_and_a_half_seconds, start),
		cmocka_unit_test_setup(it_waits_for_stacks_that_are_late, start),
		cmocka_unit_test_setup(but_not_for_ever, start),
		cmocka_unit_test_setup(the_whole_window_waits_for_none, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
