/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_blocked.c - against a process whose mmap_lock is really held: one thread write-faults a page of a frozen
 * file system, another waits in munmap, and whoever reads that process' maps or memory then waits behind both. Also
 * evidence of a thread in a plain D state, and that probes wait for such a process (attach_guard.h). Needs root and a
 * loop device; the file system is mounted in a namespace of our own and thawed in every case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach_guard.h"
#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/stack/evidence.h"
#include "inspect/stack/stack.h"
#include "inspect/stack/symbolize.h"

#define THAW_AFTER_S 120
/* Behind the lock a call would wait for the thaw; below this it did not, however busy the machine. */
#define UNBLOCKED_MS 15000
#define EVENT_S 30 /* for what must come */

static char dir[64], mnt[96];
static int mnt_fd = -1;
static pid_t thawer;
static struct reader *reader;

static int run(const char *format, const char *a, const char *b)
{
	char command[512];

	snprintf(command, sizeof(command), format, a, b);
	return system(command);
}

/* Whatever becomes of the test, no one stays blocked. */
static void start_thawer(void)
{
	thawer = fork();
	if (thawer)
		return;
	prctl(PR_SET_NAME, "thawer");
	for (int i = 0; i < THAW_AFTER_S * 10 && getppid() != 1; i++)
		usleep(100000);
	ioctl(mnt_fd, FITHAW, 0);
	_exit(0);
}

static bool make_file_system(void)
{
	strcpy(dir, "/tmp/ranktrace-frozen-XXXXXX");
	if (!mkdtemp(dir) || unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	snprintf(mnt, sizeof(mnt), "%s/mnt", dir);
	mkdir(mnt, 0700);
	if (run("truncate -s 16M %s/img && mkfs.ext4 -q -F %s/img >/dev/null 2>&1", dir, dir) ||
	    run("mount -o loop %s/img %s >/dev/null 2>&1", dir, mnt))
		return false;
	mnt_fd = open(mnt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mnt_fd >= 0;
}

static void clean_up(void)
{
	if (mnt_fd >= 0) {
		ioctl(mnt_fd, FITHAW, 0);
		close(mnt_fd);
		if (thawer > 0) {
			kill(thawer, SIGKILL);
			waitpid(thawer, NULL, 0);
		}
		umount2(mnt, MNT_DETACH);
	}
	run("rm -rf %s%s", dir, "");
}

struct shared { /* between test and target */
	volatile uint32_t fault, unmap, create;
	volatile int phase;
	char *page;
};

static struct shared *shared;

static void *fault_thread(void *arg)
{
	shared->fault = syscall(SYS_gettid);
	while (shared->phase < 1)
		usleep(1000);
	*(volatile char *)shared->page = 1;
	return arg;
}

static void *unmap_thread(void *arg)
{
	shared->unmap = syscall(SYS_gettid);
	while (shared->phase < 2)
		usleep(1000);
	munmap(arg, 4096);
	return arg;
}

static void *create_thread(void *arg)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/made-in-d-state", mnt);
	shared->create = syscall(SYS_gettid);
	while (shared->phase < 1)
		usleep(1000);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	return arg;
}

static void target_main(void)
{
	char path[128];
	pthread_t t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/page", mnt);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, 8192))
		_exit(1);
	/* Of the faulting mapping itself: with per-VMA locks (6.4 on) a munmap elsewhere does not wait for the fault.
	 */
	shared->page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)*(volatile char *)shared->page;
	fsync(fd);
	pthread_create(&t, NULL, create_thread, NULL);
	pthread_create(&t, NULL, fault_thread, NULL);
	pthread_create(&t, NULL, unmap_thread, shared->page + 4096);
	for (;;)
		pause();
}

static char thread_state(pid_t pid, uint32_t tid)
{
	char path[96], text[512];

	snprintf(path, sizeof(path), "/proc/%d/task/%u/stat", pid, tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	char *paren = strrchr(text, ')');

	return paren ? paren[2] : 0;
}

static bool wait_state(pid_t pid, volatile uint32_t *tid, char state)
{
	for (int i = 0; i < EVENT_S * 100; i++) {
		if (*tid && thread_state(pid, *tid) == state)
			return true;
		usleep(10000);
	}
	return false;
}

static bool wait_threads_end(pid_t pid)
{
	return wait_state(pid, &shared->fault, 0) && wait_state(pid, &shared->unmap, 0) &&
	       wait_state(pid, &shared->create, 0);
}

static pid_t start_target(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (!pid)
		target_main();
	assert_true(wait_state(pid, &shared->create, 'S') && wait_state(pid, &shared->fault, 'S') &&
		    wait_state(pid, &shared->unmap, 'S'));
	return pid;
}

static uint64_t ms_since(uint64_t begin)
{
	return (clock_monotonic_ns() - begin) / 1000000;
}

static const char *const markers[] = { "main" };
static const struct target_filter want = { .tracer = 2, .markers = markers, .n_markers = 1 };

static void check_evidence_of_create(pid_t pid)
{
	struct target_evidence e;
	char path[128];

	snprintf(path, sizeof(path), "%s/made-in-d-state", mnt);
	assert_int_equal(evidence_read(reader, pid, shared->create, UNBLOCKED_MS, &e), 0);
	assert_int_equal(e.state, 'D');
	assert_false(e.mmap_lock_held);
	assert_string_equal(e.syscall, "openat");
	assert_string_equal(e.file, path);
	assert_non_null(strstr(e.kernel_stack, "+0x"));
	assert_null(strstr(e.kernel_stack, "[<"));
	assert_true(e.wchan[0] && e.sp && e.pc);
}

/* What the reader says once its worker had a CPU: -EAGAIN is no answer. */
#define ANSWER(call) \
	({ \
		int rc = -EAGAIN; \
		for (int i = 0; i < 20 && rc == -EAGAIN; i++) \
			rc = (call); \
		rc; \
	})

static void check_all_refused_in_time(struct target_set *set, pid_t pid)
{
	struct target_evidence e;
	uint64_t begin = clock_monotonic_ns(), word = 0;
	struct reader_range range = { (uintptr_t)&word, &word, 8, 0 };
	char *text = NULL;
	size_t len;

	assert_int_equal(ANSWER(reader_file(reader, pid, "maps", 1 << 20, 200, &text, &len)), -ETIMEDOUT);
	assert_in_range(ms_since(begin), 200, UNBLOCKED_MS);
	reader_unblock(reader, pid);
	assert_int_equal(ANSWER(reader_memory(reader, pid, &range, 1, 200)), -ETIMEDOUT);
	begin = clock_monotonic_ns();
	assert_int_equal(evidence_read(reader, pid, shared->fault, 200, &e), 0);
	assert_true(e.mmap_lock_held);
	assert_string_equal(e.syscall, "page_fault");
	assert_int_equal(evidence_read(reader, pid, shared->unmap, 200, &e), 0);
	assert_true(e.mmap_lock_held);
	assert_string_equal(e.syscall, "munmap");
	assert_in_range(ms_since(begin), 0, UNBLOCKED_MS);
	/* A scan meets it, keeps what it knew, and goes on. */
	uint32_t tgid = pid;

	reader_unblock(reader, pid);
	begin = clock_monotonic_ns();
	target_set_refresh(set, tgid);
	assert_in_range(ms_since(begin), 0, UNBLOCKED_MS);
	const struct target_proc *p = target_set_find(set, tgid);

	assert_int_equal(p->status, TARGET_BLOCKED);
	assert_int_equal(p->n_libs, 1);
	begin = clock_monotonic_ns();
	assert_int_equal(target_set_scan(set), 0);
	assert_in_range(ms_since(begin), 0, UNBLOCKED_MS);
}

static void check_stack_while_blocked(struct target_set *set, pid_t pid)
{
	const struct target_proc *p = target_set_find(set, pid);
	struct symbolizer *sym = NULL;
	uint64_t addr = (uintptr_t)target_main; /* forked: same addresses */
	char text[256];

	assert_int_equal(symbolizer_new(reader, &sym), 0);
	assert_int_equal(symbolizer_stack(sym, p, &addr, 1, text, sizeof(text)), 1);
	assert_string_equal(text, "target_main+0x0 (test_target_blocked)");
	symbolizer_free(sym);
}

/* All threads with their kernel waits, in bounded time, and why there is no more. */
static void check_threads_while_blocked(pid_t pid)
{
	struct target_stacks s;
	unsigned blocked = 0;

	reader_unblock(reader, pid);
	uint64_t begin = clock_monotonic_ns();

	assert_int_equal(target_stacks_read(reader, pid, STACK_DEADLINE_MS, &s), 0);
	assert_in_range(ms_since(begin), 0, UNBLOCKED_MS);
	assert_int_equal(s.n, 4);
	for (size_t i = 0; i < s.n; i++) {
		assert_int_equal(s.threads[i].native_end, STACK_BLOCKED);
		assert_int_equal(s.threads[i].python_end, STACK_BLOCKED);
		assert_true(!s.threads[i].n_native && s.threads[i].kernel);
		blocked += s.threads[i].state == 'D';
	}
	assert_int_equal(blocked, 3);
	target_stacks_free(&s);
}

/* Who stands in the way of our own file: an answer is valid for 0.1 s, on a busy machine for longer. */
static bool holder_becomes(struct attach_guard *g, const struct elf_facts *f, uint32_t pid)
{
	for (int i = 0; i < EVENT_S * 20; i++) {
		if (attach_guard_holder(g, f->build_id, f->build_id_len) == pid)
			return true;
		usleep(50000);
	}
	return false;
}

/* A set that comes too late to read what the held process maps: the thawer runs the same program. */
static void check_guard_knows_the_unread(pid_t pid, const struct elf_facts *facts)
{
	struct attach_guard *g;
	struct target_set *set = NULL;
	struct elf_facts other = *facts;

	other.build_id[0] ^= 1;
	assert_int_equal(target_set_new(reader, &want, 1, &set), 0);
	assert_int_equal(target_set_scan(set), 0);
	assert_int_equal(target_set_find(set, pid)->n_libs, 0);
	g = attach_guard_new(reader, set);
	assert_true(holder_becomes(g, facts, pid));
	assert_int_equal(attach_guard_holder(g, other.build_id, other.build_id_len), 0);
	attach_guard_free(g);
	target_set_free(set);
}

/* Killed while no rank waits for its lock, its first thread goes and others cannot: it is in the way until the storage
 * is back. */
static void check_guard_of_the_killed(struct attach_guard *g, struct target_set *set, pid_t pid,
				      const struct elf_facts *facts)
{
	kill(pid, SIGKILL);
	for (int i = 0; i < EVENT_S * 100 && !target_threads_over(pid); i++)
		usleep(10000);
	assert_true(target_threads_over(pid));
	assert_int_equal(target_set_scan(set), 0);
	assert_null(target_set_find(set, pid));
	assert_true(target_threads_blocked(pid));
	assert_true(holder_becomes(g, facts, pid));
}

static void answers_while_the_mmap_lock_is_held(void **state)
{
	struct target_set *set = NULL;
	pid_t pid = start_target();

	(void)state;
	assert_int_equal(target_set_new(reader, &want, 1, &set), 0);
	assert_int_equal(target_set_scan(set), 0);
	assert_int_equal(target_set_find(set, pid)->n_libs, 1);
	struct elf_facts facts = target_set_find(set, pid)->libs[0].file->facts;
	struct attach_guard *guard = attach_guard_new(reader, set);

	assert_true(holder_becomes(guard, &facts, 0));
	assert_int_equal(ioctl(mnt_fd, FIFREEZE, 0), 0);
	assert_false(target_threads_blocked(pid) || target_threads_faulting(pid));
	shared->phase = 1;
	assert_true(wait_state(pid, &shared->create, 'D') && wait_state(pid, &shared->fault, 'D'));
	assert_true(target_threads_blocked(pid) && target_threads_faulting(pid));
	check_evidence_of_create(pid);
	shared->phase = 2;
	assert_true(wait_state(pid, &shared->unmap, 'D'));
	check_all_refused_in_time(set, pid);
	check_stack_while_blocked(set, pid);
	check_threads_while_blocked(pid);
	assert_true(holder_becomes(guard, &facts, pid));
	check_guard_knows_the_unread(pid, &facts);
	/* Others are read as ever. */
	bool held = true;

	assert_int_equal(reader_probe(reader, getpid(), 1000, &held), 0);
	assert_false(held);
	assert_int_equal(ioctl(mnt_fd, FITHAW, 0), 0);
	assert_true(wait_threads_end(pid));
	reader_unblock(reader, pid);
	assert_non_null(target_set_refresh(set, pid));
	assert_int_equal(target_set_find(set, pid)->status, TARGET_OK);
	assert_true(holder_becomes(guard, &facts, 0));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	attach_guard_free(guard);
	target_set_free(set);
}

static void a_killed_process_may_still_hold_it(void **state)
{
	struct target_set *set = NULL;
	pid_t pid = start_target();

	(void)state;
	assert_int_equal(target_set_new(reader, &want, 1, &set), 0);
	assert_int_equal(target_set_scan(set), 0);
	struct elf_facts facts = target_set_find(set, pid)->libs[0].file->facts;
	struct attach_guard *guard = attach_guard_new(reader, set);

	assert_true(holder_becomes(guard, &facts, 0));
	assert_int_equal(ioctl(mnt_fd, FIFREEZE, 0), 0);
	shared->phase = 1;
	assert_true(wait_state(pid, &shared->fault, 'D'));
	check_guard_of_the_killed(guard, set, pid, &facts);
	assert_int_equal(ioctl(mnt_fd, FITHAW, 0), 0);
	waitpid(pid, NULL, 0);
	assert_true(holder_becomes(guard, &facts, 0));
	attach_guard_free(guard);
	target_set_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(answers_while_the_mmap_lock_is_held),
					    cmocka_unit_test(a_killed_process_may_still_hold_it) };

	if (geteuid()) {
		fprintf(stderr, "skipped: needs root\n");
		return 77;
	}
	if (!make_file_system()) {
		fprintf(stderr,
			"skipped: no loop-mounted ext4 here (loop device, mkfs.ext4 or mount namespace missing)\n");
		clean_up();
		return 77;
	}
	start_thawer();
	int failed = reader_open(&reader) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);

	reader_free(reader);
	clean_up();
	return failed;
}
