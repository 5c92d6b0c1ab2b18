/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wait_own.c - what a sleeping process waits for within itself or by a file: locks, threads, time, pipes. Real
 * ones, each blocked in one way, read from outside; then the parsers with what no process here does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "inspect/reader/proc_files.h"
#include "tests/unit/inspect/wait_processes.h"

/* --- threads and locks --- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;

static void *holder(void *arg)
{
	struct timespec hour = { 3600, 0 };

	prctl(PR_SET_NAME, "loader");
	shared->tid = syscall(SYS_gettid);
	if (!arg)
		pthread_mutex_lock(&mutex);
	*(volatile uint32_t *)&shared->pid = 1;
	nanosleep(&hour, NULL);
	return NULL;
}

static void body_mutex(void *arg)
{
	pthread_t t;

	shared->pid = 0;
	pthread_create(&t, NULL, holder, arg);
	while (!*(volatile uint32_t *)&shared->pid)
		usleep(1000);
	if (arg)
		pthread_join(t, NULL);
	else
		pthread_mutex_lock(&mutex);
}

static void body_child(void *arg)
{
	pid_t pid = fork();

	(void)arg;
	if (!pid) {
		prctl(PR_SET_NAME, "sleeper");
		sleep(3600);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void body_semaphore(void *arg)
{
	(void)arg;
	sem_init(&semaphore, 0, 0);
	sem_wait(&semaphore);
}

static void body_condition(void *arg)
{
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;

	(void)arg;
	pthread_mutex_lock(&mutex);
	pthread_cond_wait(&c, &mutex);
}

static void locks_and_threads(void **state)
{
	pid_t pid = fork_into(body_mutex, NULL);
	struct target_wait w;
	char part[128];

	(void)state;
	expect_kind(pid, "waits for a mutex held by thread ", WAITS_LOCK, &w);
	snprintf(part, sizeof(part), "held by thread %u 'loader' (sleeps for 60 min (timer))", shared->tid);
	expect(pid, part, &w);
	end(pid);
	pid = fork_into(body_mutex, "join");
	expect_kind(pid, "waits for the end of thread ", WAITS_THREAD, &w);
	snprintf(part, sizeof(part), "thread %u 'loader' (sleeps", shared->tid);
	expect(pid, part, &w);
	end(pid);
	pid = fork_into(body_semaphore, NULL);
	expect_kind(pid, "a condition or semaphore", WAITS_CONDITION, &w);
	end(pid);
	pid = fork_into(body_condition, NULL);
	expect_kind(pid, "a condition or semaphore", WAITS_CONDITION, &w);
	end(pid);
}

/* A process that is number 1 of a pid namespace: what it calls a thread or a child has another number here. */
static void body_contained(void *arg)
{
	pid_t inner;

	if (unshare(CLONE_NEWPID))
		_exit(1);
	inner = fork();
	if (!inner) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (arg)
			body_child(NULL);
		else
			body_mutex(NULL);
		_exit(0);
	}
	shared->inner = inner;
	waitpid(inner, NULL, 0);
}

static uint32_t ns_number(uint32_t tid)
{
	struct proc_status st = { 0 };

	assert_int_equal(proc_status_read(tid, &st), 0);
	return st.ns_pid;
}

static void in_a_pid_namespace(void **state)
{
	struct target_wait w;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	for (long child = 0; child < 2; child++) {
		shared->inner = 0;
		pid = fork_into(body_contained, (void *)child);
		while (!shared->inner)
			usleep(1000);
		expect_kind(shared->inner, child ? "waits for child " : "held by thread ",
			    child ? WAITS_CHILD : WAITS_LOCK, &w);
		expect(shared->inner, child ? "sleeper, started" : "'loader' (sleeps for 60 min (timer))", &w);
		assert_int_equal(ns_number(child ? w.w.pid : w.w.thread), 2);
		assert_true((child ? w.w.pid : w.w.thread) != 2);
		end(shared->inner);
		end(pid);
	}
}

/* --- time --- */

static void body_nanosleep(void *arg)
{
	struct timespec t = { 30, 0 };

	(void)arg;
	nanosleep(&t, NULL);
}

/* As Python's time.sleep() from 3.11 on. */
static void body_until(void *arg)
{
	struct timespec t;

	clock_gettime(*(clockid_t *)arg, &t);
	t.tv_sec += 100;
	clock_nanosleep(*(clockid_t *)arg, TIMER_ABSTIME, &t, NULL);
}

static void body_select_time(void *arg)
{
	struct timeval t = { 30, 0 };

	(void)arg;
	select(0, NULL, NULL, NULL, &t);
}

static void body_poll_time(void *arg)
{
	(void)arg;
	poll(NULL, 0, 30000);
}

static void body_naps(void *arg)
{
	struct timespec t = { 0, 2000000 };

	(void)arg;
	for (;;)
		nanosleep(&t, NULL);
}

static void a_timer(void **state)
{
	void (*const bodies[])(void *) = { body_nanosleep, body_select_time, body_poll_time };
	clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME };
	struct target_wait w, again;
	char text[128];
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		pid = fork_into(bodies[i], NULL);
		expect_kind(pid, "sleeps for 30 s (timer)", WAITS_TIMER, &w);
		end(pid);
	}
	for (size_t i = 0; i < 2; i++) {
		pid = fork_into(body_until, &clocks[i]);
		expect_kind(pid, "sleeps for another 9", WAITS_TIMER, &w);
		assert_true(w.w.until_ns > w.w.ns + 90000000000ull && w.w.until_ns < w.w.ns + 101000000000ull);
		end(pid);
	}
	pid = fork_into(body_naps, NULL);
	expect_kind(pid, "sleeps for 2 ms (timer)", WAITS_TIMER, &w);
	usleep(50000);
	for (int i = 0; i < LOOKS && (i == 0 || again.w.kind != WAITS_TIMER); i++)
		assert_int_equal(target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, &again), 0);
	target_wait_compare(&w, &again);
	wait_text(&again.w, text, sizeof(text));
	assert_string_equal(text, "sleeps again and again, 2 ms at a time (timer)");
	end(pid);
}

/* --- files and pipes --- */

static void body_read(void *arg)
{
	char byte;

	if (read(*(int *)arg, &byte, 1) < 0)
		_exit(1);
}

static void body_hold(void *arg)
{
	int *ends = arg;

	prctl(PR_SET_NAME, "feeder");
	close(ends[0]);
	pause();
}

static void a_pipe(void **state)
{
	struct target_wait w;
	char part[128];
	pid_t pid, other;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	other = fork_into(body_hold, ends);
	close(ends[1]);
	pid = fork_into(body_read, &ends[0]);
	snprintf(part, sizeof(part), "reads a pipe whose other end is pid %d (feeder, waits for a signal)", other);
	expect_kind(pid, part, WAITS_PIPE, &w);
	assert_int_equal(w.w.pid, other);
	end(pid);
	end(other);
	close(ends[0]);
}

static void body_full(void *arg)
{
	static char much[1 << 20];

	if (write(((int *)arg)[1], much, sizeof(much)) < 0)
		_exit(1);
}

static void body_keep(void *arg)
{
	prctl(PR_SET_NAME, "tee");
	close(((int *)arg)[1]);
	pause();
}

/* The program's own output, which nobody takes. */
static void a_full_pipe(void **state)
{
	struct target_wait w;
	char part[128];
	pid_t pid, other;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	other = fork_into(body_keep, ends);
	close(ends[0]);
	pid = fork_into(body_full, ends);
	close(ends[1]);
	snprintf(part, sizeof(part), "writes a pipe whose other end is pid %d (tee", other);
	expect_kind(pid, part, WAITS_PIPE, &w);
	wait_remedy(&w.w, part, sizeof(part));
	assert_non_null(strstr(part, "does not empty the pipe"));
	end(pid);
	end(other);
}

static void body_fifo(void *arg)
{
	int fd = open(arg, shared->port ? O_RDWR : O_RDONLY);

	if (fd < 0)
		_exit(1);
	body_read(&fd);
}

static void a_fifo(void **state)
{
	struct target_wait w;
	char path[128], part[256];
	pid_t pid;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	shared->port = 0;
	pid = fork_into(body_fifo, path);
	snprintf(part, sizeof(part), "opens FIFO %s whose other end no process has open", path);
	expect_kind(pid, part, WAITS_PIPE, &w);
	fd = open(path, O_WRONLY);
	snprintf(part, sizeof(part), "reads FIFO %s whose other end is pid %d (test_wait", path, getpid());
	expect_kind(pid, part, WAITS_PIPE, &w);
	end(pid);
	close(fd);
	shared->port = 1;
	pid = fork_into(body_fifo, path);
	snprintf(part, sizeof(part), "reads FIFO %s whose other end is its own process", path);
	expect_kind(pid, part, WAITS_PIPE, &w);
	end(pid);
	unlink(path);
}

static void body_event(void *arg)
{
	uint64_t n;

	(void)arg;
	if (read(eventfd(0, 0), &n, sizeof(n)) < 0)
		_exit(1);
}

static void body_flock(void *arg)
{
	int fd = open(arg, O_RDWR | O_CREAT, 0600);

	flock(fd, LOCK_EX);
}

static void body_pause(void *arg)
{
	(void)arg;
	pause();
}

static void body_spin(void *arg)
{
	(void)arg;
	for (;;)
		;
}

static void other_waits(void **state)
{
	struct target_wait w;
	char path[128];
	pid_t pid = fork_into(body_event, NULL);
	int fd;

	(void)state;
	expect_kind(pid, "waits for an event (eventfd)", WAITS_EVENT, &w);
	end(pid);
	pid = fork_into(body_pause, NULL);
	expect_kind(pid, "waits for a signal", WAITS_SIGNAL, &w);
	end(pid);
	snprintf(path, sizeof(path), "%s/lock", folder);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	pid = fork_into(body_flock, path);
	expect_kind(pid, "waits for a lock of file /tmp/", WAITS_LOCK, &w);
	end(pid);
	close(fd);
	unlink(path);
	pid = fork_into(body_spin, NULL);
	usleep(50000);
	assert_int_equal(target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, &w), 0);
	assert_int_equal(w.w.kind, WAITS_UNKNOWN);
	end(pid);
	assert_int_equal(target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, &w), -ESRCH);
}

/* --- what no process here does --- */

static void futex_words(void **state)
{
	uint32_t word[5] = { 2, 0, 4713, 1, 0 };

	(void)state;
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 2).kind, WAITS_LOCK);
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 2).owner, 4713);
	assert_int_equal(wait_futex_of(word, 8, FUTEX_WAIT_PRIVATE, 2).kind, WAITS_CONDITION); /* the page ends */
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 0).kind, WAITS_CONDITION);
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAKE_PRIVATE, 2).kind, WAITS_CONDITION);
	word[0] = 0; /* let go meanwhile: whoever it was */
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 2).kind, WAITS_CONDITION);
	word[0] = 2;
	word[4] = 0x12345678; /* no kind of mutex */
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 2).kind, WAITS_CONDITION);
	word[4] = 1; /* recursive */
	word[1] = 3;
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 2).kind, WAITS_LOCK);
	word[4] = 0; /* only a recursive one counts */
	assert_int_equal(wait_futex_of(word, sizeof(word), FUTEX_WAIT_PRIVATE, 2).kind, WAITS_CONDITION);
	word[0] = 77 | FUTEX_WAITERS;
	assert_int_equal(wait_futex_of(word, 4, FUTEX_WAIT_PRIVATE, word[0]).owner, 77);
	assert_int_equal(wait_futex_of(word, 4, FUTEX_LOCK_PI_PRIVATE, 0).owner, 77);
	word[0] = 77;
	assert_int_equal(wait_futex_of(word, 4, FUTEX_WAIT, 77).kind, WAITS_THREAD);
	assert_int_equal(wait_futex_of(word, 4, FUTEX_WAIT_PRIVATE, 77).kind, WAITS_CONDITION);
}

static void tables(void **state)
{
	const char epoll[] = "pos:\t0\nflags:\t02\ntfd:        7 events:       19 data: 7  pos:0 ino:8\n"
			     "tfd:       12 events:        4 data: c  pos:0 ino:9\ntfd: junk\n";
	const char tcp[] = "   3: 0100007F:1F90 0700000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 "
			   "4242 1 0 100 0 0 10 0";
	struct wait_netline l;
	struct wait_fd fds[4];

	(void)state;
	assert_int_equal(wait_epoll_take(epoll, fds, 4), 2);
	assert_int_equal(fds[0].fd, 7);
	assert_int_equal(fds[0].act, WAITS_TO_READ);
	assert_int_equal(fds[1].fd, 12);
	assert_int_equal(fds[1].act, WAITS_TO_WRITE);
	assert_int_equal(wait_epoll_take(epoll, fds, 1), 1);
	assert_true(wait_netline_parse(tcp, AF_INET, &l));
	assert_int_equal(l.inode, 4242);
	assert_int_equal(l.remote_port, 443);
	assert_memory_equal(l.remote, "\x0a\0\0\x07", 4);
	assert_false(wait_netline_parse(tcp, AF_INET6, &l));
	assert_false(wait_netline_parse("  sl  local_address rem_address   st", AF_INET, &l));
	assert_int_equal(wait_time_take("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16, 1000), 1000);
	assert_int_equal(wait_time_take("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 12, 1000), 0);
	assert_int_equal(wait_time_take("\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0\0\0\0\0", 16, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_and_threads),
		cmocka_unit_test(in_a_pid_namespace),
		cmocka_unit_test(a_timer),
		cmocka_unit_test(a_pipe),
		cmocka_unit_test(a_full_pipe),
		cmocka_unit_test(a_fifo),
		cmocka_unit_test(other_waits),
		cmocka_unit_test(futex_words),
		cmocka_unit_test(tables),
	};
	int failed = reader_open(&reader) ? 1 : cmocka_run_group_tests(tests, waits_begin, waits_over);

	reader_free(reader);
	return failed;
}
