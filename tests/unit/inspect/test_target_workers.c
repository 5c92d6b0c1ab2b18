/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_workers.c - readers, parsers and zygotes that somebody kills, stops, or that have no memory left, while
 * they work and while they do not: another takes the place, nobody waits for long, and no target is blamed for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "inspect/reader/hurried.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"

#define ROUNDS 5

enum kind { READER, PARSER, KINDS };

static int run(struct reader *r, enum kind kind, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, void *out,
	       size_t size)
{
	size_t len = 0;

	return kind == READER ? reader_run(r, pid, fn, arg, arg_len, 500, out, size, &len, NULL)
			      : parser_run(r, pid, fn, arg, arg_len, NULL, 0, 500, out, size, &len);
}

static int job_pid(struct reader_job *job)
{
	pid_t pid = getpid();

	memcpy(job->out, &pid, sizeof(pid));
	job->out_len = sizeof(pid);
	return 0;
}

static pid_t worker_of(struct reader *r, enum kind kind)
{
	pid_t pid = 0;

	assert_int_equal(run(r, kind, 0, job_pid, NULL, 0, &pid, sizeof(pid)), 0);
	return pid;
}

static unsigned ms_since(uint64_t begin_ns)
{
	return (clock_monotonic_ns() - begin_ns) / 1000000;
}

/* On a busy machine a zombie takes its time. */
static bool is_gone(pid_t pid)
{
	for (int i = 0; i < 2000 && !kill(pid, 0); i++)
		usleep(5000);
	return kill(pid, 0) && errno == ESRCH;
}

static void killed_while_it_has_nothing_to_do(void **state)
{
	for (int i = 0; i < ROUNDS * KINDS; i++) {
		pid_t pid = worker_of(*state, i % KINDS);

		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_true(is_gone(pid));
		assert_int_not_equal(worker_of(*state, i % KINDS), pid); /* no question is lost */
	}
}

struct killer {
	pid_t pid;
	int signal;
	unsigned after_us;
};

static void *killer_run(void *of)
{
	struct killer *k = of;

	usleep(k->after_us);
	kill(k->pid, k->signal);
	return NULL;
}

static int job_work(struct reader_job *job)
{
	uint64_t begin = clock_monotonic_ns();

	(void)job;
	while (clock_monotonic_ns() - begin < 100000000)
		;
	return 0;
}

static int job_work_cpu(struct reader_job *job)
{
	struct timespec t = { 0 };

	(void)job;
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < 30)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 0;
}

static int job_sleep(struct reader_job *job)
{
	struct timespec t = { 10, 0 };

	(void)job;
	return nanosleep(&t, NULL) ? -errno : 0;
}

/* At any point of its work. */
static void killed_at_work(void **state)
{
	for (int i = 0; i < ROUNDS * KINDS; i++) {
		enum kind kind = i % KINDS;
		struct killer k = { worker_of(*state, kind), SIGKILL, i * 3000 };
		pthread_t t;

		assert_int_equal(pthread_create(&t, NULL, killer_run, &k), 0);
		int rc = run(*state, kind, getpid(), job_work, NULL, 0, NULL, 0);

		pthread_join(t, NULL);
		/* What a parser was asked is asked once more: it may not have been the file. */
		assert_true(kind == PARSER ? !rc : !rc || rc == -EIO);
		assert_false(reader_is_blocked(*state, getpid()));
		assert_int_not_equal(worker_of(*state, kind), k.pid);
	}
}

/* Stopped: it sleeps, but not behind a target's lock. */
static void stopped(void **state)
{
	for (int i = 0; i < 2 * KINDS; i++) {
		enum kind kind = i % KINDS;
		pid_t pid = worker_of(*state, kind);
		uint64_t begin = clock_monotonic_ns();
		int rc;

		reader_set_timeout(*state, i < KINDS ? 0 : 20);
		assert_int_equal(kill(pid, SIGSTOP), 0);
		do {
			rc = run(*state, kind, getpid(), job_pid, NULL, 0, &rc, sizeof(rc));
			usleep(1000);
		} while (rc == -EINPROGRESS);
		assert_int_equal(rc, -EAGAIN);
		assert_false(reader_is_blocked(*state, getpid()));
		assert_in_range(ms_since(begin), 400, 30000);
		assert_true(is_gone(pid));
		reader_set_timeout(*state, 0);
		assert_int_not_equal(worker_of(*state, kind), pid);
	}
}

static int job_eat(struct reader_job *job)
{
	size_t n = 0;
	char *p;

	while ((p = malloc(16u << 20)) && n++ < 256)
		memset(p, 1, 4096);
	return p ? -EFBIG : -ENOMEM;
	(void)job;
}

static void out_of_memory(void **state)
{
	for (int kind = 0; kind < KINDS && !CONFINE_SANITIZED; kind++) {
		assert_int_equal(run(*state, kind, 0, job_eat, NULL, 0, NULL, 0), -ENOMEM);
		assert_true(worker_of(*state, kind) > 0);
	}
}

/* Again and again: the one that took over has a spare one, too. */
static void zygote_killed_or_stopped(void **state)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		enum kind kind = i % KINDS;
		pid_t zygote = reader_pid(*state), worker = worker_of(*state, kind);
		uint64_t begin = clock_monotonic_ns();

		assert_int_equal(kill(zygote, i % 3 ? SIGKILL : SIGSTOP), 0);
		kill(worker, SIGKILL);
		assert_true(is_gone(worker));
		assert_int_not_equal(worker_of(*state, kind), worker);
		assert_in_range(ms_since(begin), 0, 30000);
		assert_int_not_equal(reader_pid(*state), zygote);
		assert_true(is_gone(zygote) || waitpid(zygote, NULL, 0) == zygote);
	}
}

/* Killed with a late worker out, too. */
static void zygote_killed_while_a_worker_is_late(void **state)
{
	pid_t zygote = reader_pid(*state);
	int rc;

	reader_set_timeout(*state, 10);
	assert_int_equal(run(*state, READER, 1000, job_sleep, NULL, 0, NULL, 0), -EINPROGRESS);
	assert_int_equal(kill(zygote, SIGKILL), 0);
	assert_true(is_gone(zygote));
	do {
		rc = run(*state, READER, 1000, job_pid, NULL, 0, &rc, sizeof(rc));
		usleep(1000);
	} while (rc == -EINPROGRESS);
	assert_false(reader_is_blocked(*state, 1000));
	reader_set_timeout(*state, 0);
	assert_true(worker_of(*state, PARSER) > 0);
	assert_false(reader_is_lost(*state));
}

/* Nothing is left to take over: that is said at once, for ever. */
static void both_zygotes_killed(void **state)
{
	struct reader *r = NULL;
	char text[256], *at = text;
	pid_t pid, child;

	(void)state;
	assert_int_equal(reader_open(&r), 0);
	pid = reader_pid(r);
	assert_true(proc_read(text, sizeof(text), "/proc/%d/task/%d/children", pid, pid) > 0);
	while ((child = strtol(at, &at, 10)))
		kill(child, SIGKILL);
	kill(pid, SIGKILL);
	assert_true(is_gone(pid));
	for (int i = 0; i < 3; i++)
		assert_int_equal(run(r, READER, 0, job_pid, NULL, 0, &pid, sizeof(pid)), -EPIPE);
	assert_true(reader_is_lost(r));
	reader_free(r);
}

static int policy(pid_t pid)
{
	return sched_getscheduler(pid) & ~SCHED_RESET_ON_FORK;
}

/* The reader is behind all else on one CPU, which somebody keeps busy. */
static pid_t starve(pid_t reader)
{
	struct sched_param param = { 0 };
	pid_t busy = fork();
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (!busy) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			;
	}
	assert_int_equal(sched_setaffinity(busy, sizeof(one), &one), 0);
	assert_int_equal(sched_setaffinity(reader, sizeof(one), &one), 0);
	assert_int_equal(sched_setscheduler(reader, SCHED_IDLE, &param), 0);
	return busy;
}

static void starved_goes_first_for_a_while(void **state)
{
	pid_t pid = worker_of(*state, READER), busy;
	uint64_t begin_ns = clock_monotonic_ns();

	if (hurried_set(0, true)) {
		print_message("without CAP_SYS_NICE\n");
		skip();
	}
	hurried_set(0, false);
	reader_set_timeout(*state, READER_TIMEOUT_MS);
	busy = starve(pid);
	assert_int_equal(run(*state, READER, 0, job_work_cpu, NULL, 0, NULL, 0), 0);
	assert_int_equal(policy(pid), SCHED_RR);
	assert_int_equal(kill(busy, SIGKILL), 0);
	waitpid(busy, NULL, 0);
	while (policy(worker_of(*state, READER)) == SCHED_RR && ms_since(begin_ns) < 20000)
		usleep(20000);
	assert_int_equal(policy(pid), SCHED_OTHER);
}

static void leaves_none_behind(void **state)
{
	struct reader *r = NULL;
	pid_t pids[4];

	(void)state;
	assert_int_equal(reader_open(&r), 0);
	pids[0] = reader_pid(r);
	pids[1] = worker_of(r, READER);
	kill(pids[0], SIGKILL);
	assert_true(is_gone(pids[1]));
	pids[1] = worker_of(r, READER);
	pids[2] = worker_of(r, PARSER);
	pids[3] = reader_pid(r);
	assert_int_not_equal(pids[0], pids[3]);
	reader_free(r);
	for (int i = 0; i < 4; i++)
		assert_true(is_gone(pids[i]));
}

static int begin(void **state)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGCHLD, SIG_IGN); /* zombies of zygotes go at once */
	return reader_open((struct reader **)state);
}

static int end(void **state)
{
	reader_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_while_it_has_nothing_to_do),
		cmocka_unit_test(killed_at_work),
		cmocka_unit_test(stopped),
		cmocka_unit_test(out_of_memory),
		cmocka_unit_test(zygote_killed_or_stopped),
		cmocka_unit_test(zygote_killed_while_a_worker_is_late),
		cmocka_unit_test(both_zygotes_killed),
		cmocka_unit_test(starved_goes_first_for_a_while),
		cmocka_unit_test(leaves_none_behind),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
