/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_privilege.c - each check before tracing, with the privilege really taken away in a child.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inspect/discover/privilege.h"

struct answer {
	int problem;
	char message[512];
};

/* Keeps only the capabilities of `mask`. */
static int keep(uint64_t mask)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = mask, .permitted = mask },
		{ .effective = mask >> 32, .permitted = mask >> 32 },
	};

	return syscall(SYS_capset, &head, data);
}

#define CAP(n) (1ull << (n))

static int drop_all(void)
{
	return keep(0);
}
static int keep_bpf(void)
{
	return keep(CAP(39) | CAP(38) | CAP(CAP_SYS_PTRACE));
}
static int keep_admin(void)
{
	return keep(CAP(CAP_SYS_ADMIN) | CAP(CAP_SYS_PTRACE));
}
static int keep_no_ptrace(void)
{
	return keep(CAP(CAP_SYS_ADMIN));
}
static int new_user_ns(void)
{
	return unshare(CLONE_NEWUSER);
}
static int new_pid_ns(void)
{
	if (unshare(CLONE_NEWPID))
		return -1;
	/* Only children are inside: answer from one. Its /proc is the old one, where it has its old number. */
	pid_t pid = fork();

	if (pid) {
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	return 0;
}
static int no_change(void)
{
	return 0;
}

/* problem -1: the preparation is not possible here. */
static struct answer ask(int (*prepare)(void))
{
	struct answer a = { .problem = -1 };
	int p[2];

	assert_int_equal(pipe(p), 0);
	pid_t pid = fork();

	if (!pid) {
		if (!prepare())
			a.problem = privilege_namespaces(a.message, sizeof(a.message));
		if (!a.problem)
			a.problem = privilege_capabilities(a.message, sizeof(a.message));
		_exit(write(p[1], &a, sizeof(a)) != sizeof(a));
	}
	close(p[1]);
	assert_int_equal(read(p[0], &a, sizeof(a)), sizeof(a));
	close(p[0]);
	waitpid(pid, NULL, 0);
	return a;
}

static void names_missing_capabilities(void **state)
{
	struct answer a = ask(drop_all);

	(void)state;
	assert_int_equal(a.problem, PRIVILEGE_NO_CAPABILITY);
	assert_non_null(strstr(a.message, "CAP_BPF CAP_PERFMON CAP_SYS_PTRACE"));
	assert_non_null(strstr(a.message, "sudo"));
	a = ask(keep_no_ptrace);
	assert_int_equal(a.problem, PRIVILEGE_NO_CAPABILITY);
	assert_null(strstr(a.message, "CAP_BPF"));
	assert_non_null(strstr(a.message, "CAP_SYS_PTRACE"));
	assert_int_equal(ask(keep_bpf).problem, PRIVILEGE_OK);
	assert_int_equal(ask(keep_admin).problem, PRIVILEGE_OK);
	a = ask(no_change);
	assert_int_equal(a.problem, PRIVILEGE_OK);
	assert_string_equal(a.message, "");
}

static void knows_foreign_namespaces(void **state)
{
	struct answer a = ask(new_pid_ns);

	(void)state;
	assert_int_equal(a.problem, PRIVILEGE_PID_NAMESPACE);
	assert_non_null(strstr(a.message, "--pid=host"));
	a = ask(new_user_ns);
	if (a.problem == -1)
		skip();
	assert_int_equal(a.problem, PRIVILEGE_USER_NAMESPACE);
}

static void misses_btf(void **state)
{
	char message[512];

	(void)state;
	assert_int_equal(privilege_btf("/nonexistent/vmlinux", message, sizeof(message)), PRIVILEGE_NO_BTF);
	assert_non_null(strstr(message, "/nonexistent/vmlinux: No such file"));
	assert_int_equal(privilege_btf("/proc/self/status", message, sizeof(message)), PRIVILEGE_OK);
	setenv("RANKTRACE_BTF", "/nonexistent/too", 1);
	assert_int_equal(privilege_btf(NULL, message, sizeof(message)), PRIVILEGE_NO_BTF);
	unsetenv("RANKTRACE_BTF");
}

static void *thread_main(void *arg)
{
	*(uint32_t *)arg = syscall(SYS_gettid);
	return arg;
}

static void *thread_check(void *arg)
{
	struct answer *a = arg;
	uint32_t tid = 0;

	thread_main(&tid);
	a->problem = privilege_process(tid, a->message, sizeof(a->message));
	return arg;
}

static void knows_processes(void **state)
{
	struct answer a = { 0 };
	pthread_t t;

	(void)state;
	assert_int_equal(privilege_process(getpid(), a.message, sizeof(a.message)), PRIVILEGE_OK);
	assert_int_equal(privilege_process(0x7ffffff, a.message, sizeof(a.message)), PRIVILEGE_NO_PROCESS);
	assert_non_null(strstr(a.message, "no such process"));
	assert_int_equal(pthread_create(&t, NULL, thread_check, &a), 0);
	pthread_join(t, NULL);
	assert_int_equal(a.problem, PRIVILEGE_NO_PROCESS);
	assert_non_null(strstr(a.message, "it is a thread of process"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_missing_capabilities),
		cmocka_unit_test(knows_foreign_namespaces),
		cmocka_unit_test(misses_btf),
		cmocka_unit_test(knows_processes),
	};
	char message[512];

	if (geteuid() || privilege_namespaces(message, sizeof(message))) {
		fprintf(stderr, "skipped: needs root on the host, in its own namespaces\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
