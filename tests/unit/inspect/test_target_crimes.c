/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_crimes.c - each kind of process that reads what others wrote, as if that had taken it over: it tries to
 * open, connect, fork, run, trace, signal, map code and the like. What a kind does for its living it may; everything
 * else kills it. Readers and parsers are the real ones, the others processes that gave up the same. Who runs libraries
 * of others is refused what it may not, and lives on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/confine.h"
#include "cluster/publisher.h"
#include "inspect/reader/reader.h"

enum {
	KIND_READER = 1,
	KIND_PARSER = 2,
	KIND_REPLAY = 4,
	KIND_KEEPER = 8,
	KIND_SERVER = 16,
	KIND_SCREEN = 32,
	KIND_REFUSED = 64, /* no more than refused to a server: libc may want a file of its own */
	KIND_NONE = 0
};
#define PATH "/tmp/ranktrace-crime"

static pid_t victim; /* another process, of root's */
static char page[4096] __attribute__((aligned(4096)));

static long vm_call(long call, void *mine)
{
	struct iovec here = { mine, 1 }, there = { page, 1 };

	return syscall(call, victim, &here, 1, &there, 1, 0);
}

static long perf_open(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr) };

	return syscall(SYS_perf_event_open, &attr, victim, -1, -1, 0);
}

static long run_program(void)
{
	char *args[] = { "true", NULL };

	return execv("/bin/true", args);
}

#if defined(__x86_64__)
/* The same numbers are other calls in the two other tables of this machine. */
static long call_of_32_bits(void)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	return ret;
}
#endif

/* Those of `may` live from it; the others die of trying. */
#define CRIMES(X) \
	X(nothing, KIND_READER | KIND_PARSER | KIND_REPLAY | KIND_SERVER | KIND_SCREEN, getpid() < 0) \
	X(open_to_read, KIND_READER | KIND_KEEPER | KIND_REFUSED, open("/etc/passwd", O_RDONLY)) \
	X(open_to_write, KIND_REFUSED, open("/etc/passwd", O_WRONLY)) \
	X(open_to_append, KIND_REFUSED, open(PATH, O_RDWR | O_APPEND)) \
	X(create, KIND_REFUSED, open(PATH, O_RDONLY | O_CREAT, 0600)) \
	X(truncate_a_file, KIND_NONE, truncate(PATH, 0)) \
	X(open_by_handle, KIND_NONE, syscall(SYS_open_by_handle_at, 0, page, 0)) \
	X(memory_file, KIND_NONE, memfd_create("x", 0)) \
	X(make_folder, KIND_NONE, mkdir(PATH, 0700)) \
	X(make_link, KIND_NONE, symlink("/etc", PATH)) \
	X(change_mode, KIND_NONE, chmod(PATH, 04755)) \
	X(rename_a_file, KIND_KEEPER, rename(PATH, PATH "2")) \
	X(remove_a_file, KIND_KEEPER, unlink(PATH)) \
	X(read_a_folder, KIND_READER, syscall(SYS_getdents64, 0, page, sizeof(page))) \
	X(write_to_what_is_open, KIND_REPLAY | KIND_SERVER | KIND_SCREEN, write(2, "", 0)) \
	X(type_into_a_terminal, KIND_NONE, ioctl(0, TIOCSTI, "x")) \
	X(socket_inet, KIND_NONE, socket(AF_INET, SOCK_STREAM, 0)) \
	X(socket_unix, KIND_NONE, socket(AF_UNIX, SOCK_STREAM, 0)) \
	X(socket_packet, KIND_NONE, socket(AF_PACKET, SOCK_RAW, 0)) \
	X(socket_netlink, KIND_READER, socket(AF_NETLINK, SOCK_DGRAM, 4)) \
	X(connect_what_is_open, KIND_NONE, connect(0, (struct sockaddr *)page, 16)) \
	X(fork_a_child, KIND_NONE, fork() ?: pause()) \
	X(clone_a_thread, KIND_NONE, syscall(SYS_clone, CLONE_VM, 0, 0, 0, 0)) \
	X(run_a_program, KIND_NONE, run_program()) \
	X(trace_another, KIND_NONE, ptrace(PTRACE_SEIZE, victim, 0, 0)) \
	X(be_traced, KIND_NONE, ptrace(PTRACE_TRACEME, 0, 0, 0)) \
	X(read_another, KIND_READER, vm_call(SYS_process_vm_readv, page)) \
	X(write_another, KIND_NONE, vm_call(SYS_process_vm_writev, page)) \
	X(sample_another, KIND_READER, perf_open()) \
	X(signal_another, KIND_NONE, kill(victim, SIGSTOP)) \
	X(signal_a_thread, KIND_NONE, syscall(SYS_tgkill, victim, victim, SIGSTOP)) \
	X(hold_another, KIND_NONE, syscall(SYS_pidfd_open, victim, 0)) \
	X(take_a_file, KIND_NONE, syscall(SYS_pidfd_getfd, 0, 0, 0)) \
	X(map_code, KIND_NONE, (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) \
	X(turn_to_code, KIND_NONE, mprotect(page, 4096, PROT_READ | PROT_EXEC)) \
	X(be_dumpable, KIND_NONE, prctl(PR_SET_DUMPABLE, 1)) \
	X(be_root, KIND_NONE, setuid(0)) \
	X(have_capabilities, KIND_NONE, syscall(SYS_capset, page, page)) \
	X(raise_limits, KIND_NONE, syscall(SYS_prlimit64, 0, 7, page, NULL)) \
	X(load_bpf, KIND_NONE, syscall(SYS_bpf, 5, page, 64)) \
	X(load_a_module, KIND_NONE, syscall(SYS_finit_module, 0, "", 0)) \
	X(mount_a_file_system, KIND_NONE, mount("x", "/tmp", "tmpfs", 0, NULL)) \
	X(new_namespace, KIND_NONE, unshare(CLONE_NEWUSER)) \
	X(namespace_of_mounts, KIND_NONE, setns(0, CLONE_NEWNS)) \
	X(namespace_of_net, KIND_READER, setns(0, CLONE_NEWNET)) \
	X(new_root, KIND_NONE, chroot("/tmp")) \
	X(ring_of_calls, KIND_NONE, syscall(SYS_io_uring_setup, 1, page)) \
	X(faults_of_its_own, KIND_NONE, syscall(SYS_userfaultfd, 0)) \
	X(keys, KIND_NONE, syscall(SYS_keyctl, 0, -3, 0)) \
	X(shared_memory, KIND_NONE, syscall(SYS_shmget, 1, 4096, 01666)) \
	X(clock, KIND_NONE, syscall(SYS_clock_settime, 0, page)) \
	X(restart_the_machine, KIND_NONE, syscall(SYS_reboot, 0, 0, 0, page)) \
	X(call_of_a_later_kernel, KIND_NONE, syscall(100000))

#define FUNCTION(name, may, act) \
	static long name(void) \
	{ \
		return act; \
	}
CRIMES(FUNCTION)
#if defined(__x86_64__)
FUNCTION(call_by_interrupt, 0, call_of_32_bits())
FUNCTION(call_of_x32, 0, syscall(0x40000000 + SYS_getpid))
#endif

static const struct {
	const char *name;
	unsigned may;
	long (*act)(void);
} crimes[] = {
#define ROW(name, may, act) { #name, may, name },
	CRIMES(ROW)
#if defined(__x86_64__)
		ROW(call_by_interrupt, 0, 0) ROW(call_of_x32, 0, 0)
#endif
};
#define N (sizeof(crimes) / sizeof(crimes[0]))

static int job_crime(struct reader_job *job)
{
	int which;

	memcpy(&which, job->arg, sizeof(which));
	crimes[which].act();
	return 0;
}

static void check(int which, unsigned kind, bool died)
{
	if (died == !(crimes[which].may & kind))
		return;
	fail_msg("%s: %s", crimes[which].name, died ? "it needs that, and died of it" : "it went unpunished");
}

static void a_reader_only_looks(void **state)
{
	for (int i = 0; i < (int)N; i++)
		check(i, KIND_READER,
		      reader_run(*state, 0, job_crime, &i, sizeof(i), 2000, NULL, 0, NULL, NULL) == -EIO);
}

static void a_parser_does_nothing(void **state)
{
	for (int i = 0; i < (int)N; i++)
		check(i, KIND_PARSER,
		      parser_run(*state, 0, job_crime, &i, sizeof(i), NULL, 0, 2000, NULL, 0, NULL) == -EIO);
}

enum outcome { DIED, WAS_REFUSED, DID_IT, WAS_NOT_CONFINED };

/* By the signal of the filter, if at all. */
static enum outcome outcome_of(int which, int (*confine)(void), int (*calls)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		if (confine() || calls())
			_exit(WAS_NOT_CONFINED);
		_exit(crimes[which].act() < 0 ? WAS_REFUSED : DID_IT);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return DIED;
	if (WEXITSTATUS(status) != WAS_REFUSED && WEXITSTATUS(status) != DID_IT)
		fail_msg("%s: status %x", crimes[which].name, status);
	return WEXITSTATUS(status);
}

static bool dies_of(int which, int (*confine)(void), int (*calls)(void))
{
	return outcome_of(which, confine, calls) == DIED;
}

static void a_replay_writes_what_is_open(void **state)
{
	(void)state;
	for (int i = 0; i < (int)N; i++)
		check(i, KIND_REPLAY, dies_of(i, confine_replay, confine_replay_calls));
}

static void a_keeper_renames(void **state)
{
	(void)state;
	for (int i = 1; i < (int)N; i++)
		check(i, KIND_KEEPER, dies_of(i, confine_keeper, confine_keeper_calls));
}

static void a_screen_draws(void **state)
{
	(void)state;
	for (int i = 0; i < (int)N; i++)
		check(i, KIND_SCREEN, dies_of(i, confine_replay, confine_screen_calls));
}

static void a_server_answers(void **state)
{
	(void)state;
	for (int i = 0; i < (int)N; i++) {
		enum outcome o = outcome_of(i, confine_server, confine_server_calls);

		if (!(crimes[i].may & KIND_REFUSED))
			check(i, KIND_SERVER, o == DIED);
		else if (o == DID_IT)
			fail_msg("%s: a server did it", crimes[i].name);
	}
}

static int nothing_more(void)
{
	return 0;
}

/* It may have sockets, read files, and do what a library of others wants for itself. */
static void a_bus_acts_on_nobody(void **state)
{
	static const char *const acts[] = {
		"open_to_write",  "create",         "truncate_a_file", "open_by_handle", "make_folder",
		"make_link",      "change_mode",    "rename_a_file",   "remove_a_file",  "fork_a_child",
		"clone_a_thread", "run_a_program",  "trace_another",   "read_another",   "write_another",
		"sample_another", "signal_another", "signal_a_thread", "hold_another",   "take_a_file",
		"load_bpf",       "load_a_module",  "new_namespace",   "new_root",       "keys",
		"ring_of_calls",  "clock",
	};

	(void)state;
	for (size_t k = 0; k < sizeof(acts) / sizeof(acts[0]); k++) {
		int i = 0;

		while (i < (int)N && strcmp(crimes[i].name, acts[k]) != 0)
			i++;
		assert_true(i < (int)N);
		if (outcome_of(i, publisher_confine, nothing_more) != WAS_REFUSED)
			fail_msg("%s: a bus did it, or died of it", acts[k]);
	}
}

static int collector_refused(void)
{
	if (confine_collector_calls())
		return 1;
	if (vm_call(SYS_process_vm_readv, page) != -1 || errno != EPERM || ptrace(PTRACE_SEIZE, victim, 0, 0) != -1 ||
	    errno != EPERM || syscall(SYS_open_by_handle_at, 0, page, 0) != -1 || errno != EPERM)
		return 2;
	return open("/dev/null", O_RDWR) < 0 || socket(AF_NETLINK, SOCK_DGRAM, 4) < 0 ? 3 : 0;
}

static void a_collector_reads_no_memory(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(collector_refused());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void none_was_harmed(void **state)
{
	int status;

	(void)state;
	assert_int_equal(waitpid(victim, &status, WNOHANG | WUNTRACED), 0);
	assert_true(access(PATH, F_OK) < 0);
}

static int begin(void **state)
{
	victim = fork();
	if (!victim) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return reader_open((struct reader **)state);
}

static int end(void **state)
{
	reader_free(*state);
	kill(victim, SIGKILL);
	return waitpid(victim, NULL, 0) != victim;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_only_looks),
		cmocka_unit_test(a_parser_does_nothing),
		cmocka_unit_test(a_replay_writes_what_is_open),
		cmocka_unit_test(a_keeper_renames),
		cmocka_unit_test(a_screen_draws),
		cmocka_unit_test(a_server_answers),
		cmocka_unit_test(a_bus_acts_on_nobody),
		cmocka_unit_test(a_collector_reads_no_memory),
		cmocka_unit_test(none_was_harmed),
	};

	if (!CONFINE_SANITIZED) /* else there is no filter */
		return cmocka_run_group_tests(tests, begin, end);
	puts("skipped: a build with address sanitizer has no filters");
	return 77;
}
