/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_reader.c - the helper process: what it brings back, what it does when a job sleeps, spins or crashes, and
 * that it holds no file of ours. A job that pauses stands in for a held mmap_lock; test_target_blocked.c has a real
 * one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/reader/maps.h"
#include "inspect/reader/reader.h"

#define ANSWER_MS 20000 /* of what answers: however busy the machine is */
#define PAUSE_MS 200    /* of what never does */

static int leak_pipe[2] = { -1, -1 };

static int setup(void **state)
{
	assert_int_equal(pipe(leak_pipe), 0);
	return reader_open((struct reader **)state);
}

static int teardown(void **state)
{
	reader_free(*state);
	return 0;
}

static int job_pause(struct reader_job *job)
{
	(void)job;
	while (poll(NULL, 0, -1) < 0)
		;
	return 0;
}

static int job_spin(struct reader_job *job)
{
	volatile int *p = (volatile int *)job->out;

	for (*p = 1; *p;)
		;
	return 0;
}

static int job_crash(struct reader_job *job)
{
	(void)job;
	signal(SIGSEGV, SIG_DFL);
	raise(SIGKILL);
	return 0;
}

static int job_too_long(struct reader_job *job)
{
	job->out_len = READER_OUT_MAX;
	return 0;
}

static int job_count_fds(struct reader_job *job)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	memcpy(job->out, &n, sizeof(n));
	job->out_len = sizeof(n);
	return 0;
}

static uint64_t ms_since(uint64_t begin)
{
	return (clock_monotonic_ns() - begin) / 1000000;
}

static void reads_files(void **state)
{
	char *text = NULL;
	size_t len = 0;
	struct maps maps = { 0 };

	assert_int_equal(reader_file(*state, getpid(), "maps", 4 << 20, ANSWER_MS, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	assert_int_equal(maps_parse(text, len, &maps), 0);
	const struct mapping *m = maps_find(&maps, (uintptr_t)reads_files);

	assert_non_null(m);
	assert_true(m->prot & MAPPING_EXEC);
	assert_non_null(strstr(m->path, "test_target_reader"));
	maps_free(&maps);
	free(text);
	text = NULL;
	assert_int_equal(reader_file(*state, getpid(), "maps", 100, ANSWER_MS, &text, &len), -EFBIG);
	assert_null(text);
	assert_int_equal(reader_file(*state, getpid(), "no-such-file", 100, ANSWER_MS, &text, &len), -ENOENT);
}

static void reads_memory_around_holes(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char a[16] = "", b[64] = "", c[16] = "";

	munmap(map + page, page);
	strcpy(map, "first");
	strcpy(map + page - 6, "last!");
	struct reader_range ranges[] = {
		{ (uintptr_t)map, a, 6, 0 },
		{ 4096, b, 8, 9 },
		{ (uintptr_t)map + page - 6, b, 60, 0 },
		{ (uintptr_t)map, c, 6, 0 },
	};

	assert_int_equal(reader_memory(*state, getpid(), ranges, 4, ANSWER_MS), 0);
	assert_int_equal(ranges[0].got, 6);
	assert_int_equal(ranges[1].got, 0);
	assert_int_equal(ranges[2].got, 6);
	assert_int_equal(ranges[3].got, 6);
	assert_string_equal(a, "first");
	assert_string_equal(b, "last!");
	assert_string_equal(c, "first");
	assert_int_equal(reader_memory(*state, 0x7ffffff, ranges, 1, ANSWER_MS), -ESRCH);
	ranges[0].len = READER_OUT_MAX + 1;
	assert_int_equal(reader_memory(*state, getpid(), ranges, 1, ANSWER_MS), -E2BIG);
}

static void opens_only_files(void **state)
{
	struct stat mine, theirs;
	int fd = -1;

	assert_int_equal(reader_open_file(*state, getpid(), "exe", ANSWER_MS, &fd), 0);
	assert_int_equal(fstat(fd, &theirs), 0);
	assert_int_equal(stat("/proc/self/exe", &mine), 0);
	assert_int_equal(mine.st_ino, theirs.st_ino);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	fd = -1;
	assert_int_equal(reader_open_file(*state, getpid(), "root/dev/null", ANSWER_MS, &fd), -EINVAL);
	assert_int_equal(reader_open_file(*state, getpid(), "cwd", ANSWER_MS, &fd), -EINVAL);
	assert_int_equal(fd, -1);
	char link[256];

	assert_int_equal(reader_link(*state, getpid(), "exe", link, sizeof(link), ANSWER_MS), 0);
	assert_non_null(strstr(link, "test_target_reader"));
	assert_int_equal(reader_link(*state, getpid(), "exe", link, 3, ANSWER_MS), 0);
	assert_int_equal(strlen(link), 2);
}

/* Asks until it is known what came of it; a busy machine takes its time. */
static int pause_verdict(struct reader *r, pid_t pid)
{
	uint64_t begin = clock_monotonic_ns();
	int rc;

	do {
		rc = reader_run(r, pid, job_pause, NULL, 0, PAUSE_MS, NULL, 0, NULL, NULL);
		if (rc == -ETIMEDOUT || rc == -EBUSY)
			return rc;
		usleep(5000);
	} while (ms_since(begin) < 20000);
	return rc;
}

static void gives_up_at_the_deadline_and_recovers(void **state)
{
	uint64_t begin = clock_monotonic_ns();
	bool held = false, refused = false;

	assert_int_equal(pause_verdict(*state, getppid()), -ETIMEDOUT);
	assert_true(ms_since(begin) >= PAUSE_MS);
	for (int i = 0; i < 8 && !refused;
	     i++) { /* once more where this took longer than the back-off, which doubles */
		if (i)
			assert_int_equal(pause_verdict(*state, getppid()), -ETIMEDOUT);
		begin = clock_monotonic_ns();
		assert_true(reader_is_blocked(*state, getppid()));
		assert_false(reader_is_blocked(*state, getpid()));
		/* Another pid is served, by a new worker; the blocked one is refused. */
		assert_int_equal(reader_probe(*state, getpid(), ANSWER_MS, &held), 0);
		assert_false(held);
		assert_int_equal(reader_probe(*state, getppid(), ANSWER_MS, &held), 0);
		refused = ms_since(begin) < 450;
		assert_true(held || !refused);
	}
	assert_true(refused);
	/* After the back-off it is tried again, and an answer clears it. */
	begin = clock_monotonic_ns();
	do {
		usleep(50000);
		assert_int_equal(reader_probe(*state, getppid(), ANSWER_MS, &held), 0);
	} while (held && ms_since(begin) < ANSWER_MS);
	assert_false(held);
	assert_false(reader_is_blocked(*state, getppid()));
}

static void backs_off_longer_each_time(void **state)
{
	uint64_t begin = 0;

	for (int i = 0; i < 2; i++) {
		usleep(i * 600000);
		assert_int_equal(pause_verdict(*state, 1), -ETIMEDOUT);
		begin = clock_monotonic_ns();
	}
	usleep(600000); /* the second back-off is 1 s */
	assert_true(reader_is_blocked(*state, 1) || ms_since(begin) >= 1000);
	reader_unblock(*state, 1);
	assert_false(reader_is_blocked(*state, 1));
}

static void busy_is_not_blocked(void **state)
{
	assert_int_equal(reader_run(*state, 1, job_spin, NULL, 0, 20, NULL, 0, NULL, NULL), -EAGAIN);
	assert_false(reader_is_blocked(*state, 1));
}

/* How long so many new workers take here and now. */
static uint64_t workers_ms(struct reader *r, int n)
{
	uint64_t begin = clock_monotonic_ns();

	for (int i = 0; i < n; i++)
		assert_int_equal(reader_run(r, 0, job_crash, NULL, 0, ANSWER_MS, NULL, 0, NULL, NULL), -EIO);
	return ms_since(begin);
}

/* Not so many deadlines, one after the other, in addition to the work itself. */
static void assert_do_not_add_up(uint64_t took_ms, int n, uint64_t work_ms)
{
	print_message("%d that block: %lu ms, so many workers take %lu ms\n", n, took_ms, work_ms);
	assert_true(took_ms < n * PAUSE_MS / 2 + 4 * work_ms);
}

/* Forty processes whose lock is held, asked one after the other by someone who must go on looking. */
static void many_that_block_do_not_add_up(void **state)
{
	uint64_t work_ms = workers_ms(*state, 40), begin = clock_monotonic_ns();
	bool held = true;
	int rc, n_held = 0;

	reader_set_timeout(*state, 50);
	for (int pid = 1000; pid < 1040; pid++)
		assert_int_equal(reader_run(*state, pid, job_pause, NULL, 0, PAUSE_MS, NULL, 0, NULL, NULL),
				 -EINPROGRESS);
	assert_true(ms_since(begin) >= 50);
	assert_do_not_add_up(ms_since(begin), 40, work_ms);
	/* Not yet evidence, and others are served. */
	assert_false(reader_is_blocked(*state, 1039));
	do
		rc = reader_run(*state, 0, job_too_long, NULL, 0, ANSWER_MS, NULL, 0, NULL, NULL);
	while (rc == -EAGAIN && ms_since(begin) < ANSWER_MS);
	assert_int_equal(rc, -EMSGSIZE);
	for (int pid = 1000; pid < 1040; pid++) {
		assert_int_equal(pause_verdict(*state, pid), -ETIMEDOUT);
		assert_true(reader_is_blocked(*state, pid));
		assert_int_equal(reader_probe(*state, pid, 200, &held), 0);
		assert_true(held);
	}
	/* Asked again after the back-off, they block nobody, and are held until one answers. */
	usleep(550000);
	begin = clock_monotonic_ns();
	for (int pid = 1000; pid < 1040; pid++) {
		rc = reader_run(*state, pid, job_pause, NULL, 0, PAUSE_MS, NULL, 0, NULL, NULL);
		assert_true(rc == -EBUSY || rc == -EINPROGRESS); /* of a worker that got no CPU nothing is held */
		n_held += rc == -EBUSY;
	}
	assert_in_range(n_held, 20, 40);
	assert_do_not_add_up(ms_since(begin), 40, work_ms);
	for (int pid = 1000; pid < 1040; pid++)
		reader_unblock(*state, pid);
	reader_set_timeout(*state, 0);
}

static int job_nap(struct reader_job *job)
{
	(void)job;
	usleep(60000);
	return 0;
}

/* Late, but in time: the answer that came meanwhile clears it, and nothing is said of the target. */
static void late_is_not_blocked(void **state)
{
	uint64_t begin = clock_monotonic_ns();
	int rc;

	reader_set_timeout(*state, 20);
	do { /* on a busy machine it may begin so late that it naps at its deadline */
		reader_unblock(*state, 1000);
		rc = reader_run(*state, 1000, job_nap, NULL, 0, PAUSE_MS, NULL, 0, NULL, NULL);
	} while (rc != -EINPROGRESS && ms_since(begin) < ANSWER_MS);
	assert_int_equal(rc, -EINPROGRESS);
	usleep(300000); /* past the deadline when it is sampled */
	do {
		rc = reader_run(*state, 1000, job_too_long, NULL, 0, 200, NULL, 0, NULL, NULL);
		usleep(5000);
	} while (rc == -EINPROGRESS);
	assert_int_equal(rc, -EMSGSIZE);
	assert_false(reader_is_blocked(*state, 1000));
	begin = clock_monotonic_ns();
	/* One that runs all the time is no evidence either: the machine has no time for it. */
	do {
		rc = reader_run(*state, 1001, job_spin, NULL, 0, 100, NULL, 0, NULL, NULL);
		assert_false(reader_is_blocked(*state, 1001));
		usleep(5000);
	} while (rc == -EINPROGRESS && ms_since(begin) < 20000);
	assert_int_equal(rc, -EAGAIN);
	assert_in_range(ms_since(begin), 500, 20000);
	reader_set_timeout(*state, 0);
}

static int job_work(struct reader_job *job)
{
	uint64_t begin = clock_monotonic_ns();

	(void)job;
	while (clock_monotonic_ns() - begin < 20000000)
		;
	return 0;
}

/* With no patience left: who works is waited for a little, and its answer is not thrown away. */
static void work_is_waited_for(void **state)
{
	uint64_t begin = clock_monotonic_ns();
	int rc = -1;

	reader_set_timeout(*state, 1);
	while (rc && ms_since(begin) < ANSWER_MS) { /* on a machine that has no time at all it takes some */
		rc = reader_run(*state, 1002, job_work, NULL, 0, 1000, NULL, 0, NULL, NULL);
		usleep(rc ? 300000 : 0);
	}
	assert_int_equal(rc, 0);
	reader_set_timeout(*state, 0);
}

/* More than may wait at once: the others have their turn, and each gets its verdict. */
static void more_than_may_wait(void **state)
{
	int n_go_on = 0;

	reader_set_timeout(*state, 10);
	for (int pid = 1000; pid < 1100; pid++)
		n_go_on += reader_run(*state, pid, job_pause, NULL, 0, PAUSE_MS, NULL, 0, NULL, NULL) == -EINPROGRESS;
	assert_in_range(n_go_on, 50, 100); /* none is waited for to its deadline */
	for (int pid = 1099; pid >= 1000; pid--)
		assert_int_not_equal(pause_verdict(*state, pid), -EINPROGRESS);
	for (int pid = 1000; pid < 1100; pid++)
		reader_unblock(*state, pid);
	reader_set_timeout(*state, 0);
}

static void survives_a_crash_and_a_liar(void **state)
{
	char out[16];
	size_t len = 0;
	bool held = true;

	assert_int_equal(reader_run(*state, 0, job_crash, NULL, 0, ANSWER_MS, NULL, 0, NULL, NULL), -EIO);
	assert_int_equal(reader_probe(*state, getpid(), ANSWER_MS, &held), 0);
	assert_int_equal(reader_run(*state, 0, job_too_long, NULL, 0, ANSWER_MS, out, sizeof(out), &len, NULL),
			 -EMSGSIZE);
	assert_int_equal(reader_run(*state, 0, job_count_fds, NULL, READER_ARG_MAX + 1, ANSWER_MS, out, 4, NULL, NULL),
			 -E2BIG);
	assert_int_equal(reader_probe(*state, getpid(), ANSWER_MS, &held), 0);
	assert_false(held);
}

static void holds_no_file_of_ours(void **state)
{
	int n = 0;
	char c;

	assert_int_equal(reader_run(*state, 0, job_count_fds, NULL, 0, ANSWER_MS, &n, sizeof(n), NULL, NULL), 0);
	assert_in_range(n, 0, 8); /* . .. 0 1 2, the socket, the directory itself */
	close(leak_pipe[1]);
	leak_pipe[1] = -1;
	assert_int_equal(read(leak_pipe[0], &c, 1), 0); /* end of file: no other holds the other end */
}

static void leaves_no_process_and_no_fd(void **state)
{
	struct reader *r = NULL;
	int before = dup(0), after;

	(void)state;
	close(before);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(reader_open(&r), 0);
		assert_int_equal(pause_verdict(r, 1), -ETIMEDOUT);
		reader_free(r);
	}
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* only the fixture's zygote is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_files),
		cmocka_unit_test(reads_memory_around_holes),
		cmocka_unit_test(opens_only_files),
		cmocka_unit_test(gives_up_at_the_deadline_and_recovers),
		cmocka_unit_test(backs_off_longer_each_time),
		cmocka_unit_test(busy_is_not_blocked),
		cmocka_unit_test(many_that_block_do_not_add_up),
		cmocka_unit_test(late_is_not_blocked),
		cmocka_unit_test(work_is_waited_for),
		cmocka_unit_test(more_than_may_wait),
		cmocka_unit_test(survives_a_crash_and_a_liar),
		cmocka_unit_test(holds_no_file_of_ours),
		cmocka_unit_test(leaves_no_process_and_no_fd),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
