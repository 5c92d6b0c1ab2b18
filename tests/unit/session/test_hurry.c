// SPDX-License-Identifier: Apache-2.0
/* hurry.c: a loop whose turn is late goes before other work, and not before it is late; so does one that gets little
 * of a CPU, however soon its turns come; afterwards it is as it was. Nor where it has less of a CPU by that.
 * That this is soon enough beside a flood: tests/hostile/test_flood.py. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inspect/reader/hurried.h"
#include "session/parts/hurry.h"

#define PERIOD_NS 20000000ull
#define BEAT_NS 200000000ull /* the last turn is so far ahead: a busy machine delays this test, and no verdict */
#define LATE_NS 100000000ull
#define WAIT_NS 10000000000ull
#define LOOPS 8
#define SHARE_NS 5000000000ull /* a loop with a ninth of a CPU is before the others within */

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void who_is_late_goes_first(void **state)
{
	struct hurry h = { 0 };
	uint64_t begin_ns;
	bool ahead = false;

	(void)state;
	if (hurried_set(0, true)) {
		print_message("without CAP_SYS_NICE\n");
		skip();
	}
	hurried_set(0, false);
	hurry_open(&h, PERIOD_NS);
	begin_ns = clock_monotonic_ns();
	hurry_beat(&h, begin_ns + BEAT_NS);
	while (!ahead && clock_monotonic_ns() - begin_ns < WAIT_NS) {
		hurry_changed(&h, &ahead);
		usleep(1000);
	}
	assert_true(ahead);
	assert_in_range(clock_monotonic_ns() - begin_ns, BEAT_NS + PERIOD_NS + LATE_NS, WAIT_NS);
	assert_int_equal(policy(), SCHED_RR);
	hurry_close(&h);
	assert_int_equal(policy(), SCHED_OTHER);
}

/* Beside LOOPS busy threads on the one CPU that it may use, a loop whose turns all come in time. */
static void *burn(void *quit)
{
	while (!*(_Atomic bool *)quit)
		;
	return NULL;
}

static bool is_ahead_of(int loops)
{
	_Atomic bool quit = false;
	struct hurry h = { 0 };
	pthread_t threads[LOOPS];
	bool ahead = false;

	for (int i = 0; i < loops; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, burn, (void *)&quit), 0);
	hurry_open(&h, PERIOD_NS);
	uint64_t end_ns = clock_monotonic_ns() + SHARE_NS;

	hurry_beat(&h, end_ns + WAIT_NS);
	while (!ahead && clock_monotonic_ns() < end_ns)
		hurry_changed(&h, &ahead);
	hurry_close(&h);
	quit = true;
	for (int i = 0; i < loops; i++)
		pthread_join(threads[i], NULL);
	return ahead;
}

static void who_gets_little_of_a_cpu_goes_first(void **state)
{
	cpu_set_t before, one;

	(void)state;
	if (hurried_set(0, true))
		skip();
	hurried_set(0, false);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_true(is_ahead_of(LOOPS));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* --- a cgroup whose threads have a hundredth of a CPU with that priority (version 1, CONFIG_RT_GROUP_SCHED) --- */

#define TOP "/sys/fs/cgroup/cpu"

static bool file_put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	bool put = f && fputs(text, f) >= 0;

	return (!f || !fclose(f)) && put;
}

static bool move_to(const char *dir)
{
	char path[128], pid[16];

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	snprintf(pid, sizeof(pid), "%d", getpid());
	return file_put(path, pid);
}

static bool small_group_enter(char dir[64])
{
	char path[128];

	snprintf(dir, 64, TOP "/ranktrace-hurry-%d", getpid());
	snprintf(path, sizeof(path), "%s/cpu.rt_runtime_us", dir);
	if (mkdir(dir, 0755))
		return false;
	if (file_put(path, "10000") && move_to(dir))
		return true;
	rmdir(dir);
	return false;
}

/* For how long of SHARE_NS, once it was, beside busy threads of its group. */
static uint64_t ahead_ns(void)
{
	_Atomic bool quit = false;
	struct hurry h = { 0 };
	pthread_t threads[LOOPS];
	uint64_t sum_ns = 0, from_ns = 0, now_ns = clock_monotonic_ns();
	const uint64_t end_ns = now_ns + 2 * SHARE_NS;

	for (int i = 0; i < LOOPS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, burn, (void *)&quit), 0);
	hurry_open(&h, PERIOD_NS);
	hurry_beat(&h, end_ns + WAIT_NS);
	while (now_ns < (from_ns ? from_ns + SHARE_NS : end_ns)) {
		uint64_t before_ns = now_ns;
		bool ahead = h.is_ahead;

		now_ns = clock_monotonic_ns();
		from_ns = !from_ns && ahead ? now_ns : from_ns;
		sum_ns += ahead ? now_ns - before_ns : 0;
	}
	hurry_close(&h);
	quit = true;
	for (int i = 0; i < LOOPS; i++)
		pthread_join(threads[i], NULL);
	assert_true(from_ns); /* else this proves nothing */
	return sum_ns;
}

static void who_has_less_by_that_gives_it_up(void **state)
{
	cpu_set_t before, one;
	char dir[64];

	(void)state;
	if (hurried_set(0, true))
		skip();
	hurried_set(0, false);
	if (!small_group_enter(dir)) {
		print_message("no cgroup with a share of real time can be made here\n");
		skip();
	}
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_in_range(ahead_ns(), 1, SHARE_NS * 3 / 4); /* its share is known once a second */
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_true(move_to(TOP));
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_late_goes_first),
		cmocka_unit_test(who_gets_little_of_a_cpu_goes_first),
		cmocka_unit_test(who_has_less_by_that_gives_it_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
