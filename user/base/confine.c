/* SPDX-License-Identifier: Apache-2.0
 *
 * confine.c - libcap for capabilities, libseccomp for filters. A filter is a list of what is allowed, so that a system
 * call of a later kernel is refused too.
 */
#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#define BIT(cap) (1ull << (cap))

#define TRACING (BIT(CAP_BPF) | BIT(CAP_PERFMON))
/* Memory and files of any process. */
#define LOOKING (BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH))
/* /proc/PID/map_files, network namespaces, kernel stacks; samples of threads. */
#define READER (LOOKING | BIT(CAP_SYS_ADMIN) | BIT(CAP_PERFMON))
/* To take a worker's user and capabilities away, and to end it when its parent does. */
#define ZYGOTE (READER | BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_SETPCAP) | BIT(CAP_KILL))
/* The kernel's log; an end to workers of another user. */
#define COLLECTOR (TRACING | LOOKING | BIT(CAP_SYSLOG) | BIT(CAP_KILL))

/* Files and folders of others, as root is used to. */
#define KEEPER (BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER))

/* ---- capabilities ---- */

static void user_change(void)
{
	prctl(PR_SET_KEEPCAPS, 1);
	if (!setgroups(0, NULL) && !setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID))
		(void)!setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
	prctl(PR_SET_KEEPCAPS, 0);
}

/* Those of `among` that are permitted. */
static uint64_t permitted(uint64_t among)
{
	cap_t now = cap_get_proc();
	uint64_t bits = 0;

	for (cap_value_t c = 0; now && c < cap_max_bits(); c++) {
		cap_flag_value_t is = CAP_CLEAR;

		if (among & BIT(c) && !cap_get_flag(now, c, CAP_PERMITTED, &is) && is == CAP_SET)
			bits |= BIT(c);
	}
	cap_free(now);
	return bits;
}

static int capabilities_set(uint64_t bits)
{
	cap_t then = cap_init();
	int err = then ? 0 : -ENOMEM;

	for (cap_value_t c = 0; !err && c < cap_max_bits(); c++)
		if (bits & BIT(c) && (cap_set_flag(then, CAP_PERMITTED, 1, &c, CAP_SET) ||
				      cap_set_flag(then, CAP_EFFECTIVE, 1, &c, CAP_SET)))
			err = -errno;
	if (!err && cap_set_proc(then)) /* none inheritable, and so none ambient */
		err = -errno;
	cap_free(then);
	return err;
}

/* The right to shrink the bounding set is one of those that go, and the change of user takes the effective ones: in
 * this order. */
static int privileges_keep(uint64_t keep, bool drop_user)
{
	int err;

	for (cap_value_t c = 0; c < cap_max_bits(); c++)
		if (!(keep & BIT(c)))
			cap_drop_bound(c);
	if (drop_user && permitted(BIT(CAP_KILL))) /* else its collector could not end it */
		user_change();
	err = capabilities_set(permitted(keep));
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	/* Others of its user may not trace it. */
	if (!err && drop_user && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		err = -errno;
	return err;
}

int confine_collector(bool *admin)
{
	*admin = (*admin || permitted(TRACING) != TRACING) && permitted(BIT(CAP_SYS_ADMIN));
	return privileges_keep(COLLECTOR | (*admin ? BIT(CAP_SYS_ADMIN) : 0), false);
}

int confine_zygote(void)
{
	return privileges_keep(ZYGOTE, false);
}

int confine_child(void)
{
	return privileges_keep(0, false);
}

int confine_reader(void)
{
	return privileges_keep(READER, false);
}

int confine_parser(void)
{
	return privileges_keep(0, true);
}

int confine_replay(void)
{
	return privileges_keep(0, true);
}

int confine_keeper(void)
{
	return privileges_keep(KEEPER, false);
}

/* ---- system calls ---- */

struct filter {
	scmp_filter_ctx f;
	int err; /* of the first rule that failed */
};

static void allow(struct filter *to, const int *calls, size_t n)
{
	for (size_t i = 0; !to->err && i < n; i++)
		to->err = seccomp_rule_add(to->f, SCMP_ACT_ALLOW, calls[i], 0);
}

/* Where (argument `arg` & mask) == value. */
static void allow_where(struct filter *to, int call, unsigned arg, uint64_t mask, uint64_t value)
{
	struct scmp_arg_cmp where = SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, mask, value);

	if (!to->err)
		to->err = seccomp_rule_add_array(to->f, SCMP_ACT_ALLOW, call, 1, &where);
}

static void refuse(struct filter *to, int call)
{
	if (!to->err)
		to->err = seccomp_rule_add(to->f, SCMP_ACT_ERRNO(EACCES), call, 0);
}

/* To look at what is open, to have memory that cannot be executed, to answer. */
static void allow_looking(struct filter *to)
{
	static const int calls[] = {
		SCMP_SYS(read),         SCMP_SYS(pread64), SCMP_SYS(readv),      SCMP_SYS(preadv),
		SCMP_SYS(lseek),        SCMP_SYS(fstat),   SCMP_SYS(newfstatat), SCMP_SYS(close),
		SCMP_SYS(recvmsg),      SCMP_SYS(sendmsg), SCMP_SYS(munmap),     SCMP_SYS(mremap),
		SCMP_SYS(brk),          SCMP_SYS(madvise), SCMP_SYS(futex),      SCMP_SYS(clock_gettime),
		SCMP_SYS(getpid),       SCMP_SYS(gettid),  SCMP_SYS(sysinfo),    SCMP_SYS(getrandom),
		SCMP_SYS(sched_yield),  SCMP_SYS(exit),    SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
		SCMP_SYS(rt_sigreturn),
	};

	allow(to, calls, sizeof(calls) / sizeof(calls[0]));
	allow_where(to, SCMP_SYS(mmap), 2, PROT_EXEC, 0);
	allow_where(to, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);
	allow_where(to, SCMP_SYS(fcntl), 1, ~0u, F_GETFD); /* libelf asks whether its file is open */
}

/* To open for reading; to read another's memory; to ask the kernel for sockets; to sample a thread. */
static void allow_reading(struct filter *to)
{
	static const int calls[] = {
		SCMP_SYS(readlink),         SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(statx),
		SCMP_SYS(process_vm_readv), SCMP_SYS(setsockopt), SCMP_SYS(sendto),     SCMP_SYS(recvfrom),
		SCMP_SYS(perf_event_open),  SCMP_SYS(poll),       SCMP_SYS(ppoll),      SCMP_SYS(nanosleep),
		SCMP_SYS(clock_nanosleep),
	};

	allow(to, calls, sizeof(calls) / sizeof(calls[0]));
	allow_where(to, SCMP_SYS(openat), 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY);
	allow_where(to, SCMP_SYS(socket), 0, ~0u, AF_NETLINK);
	allow_where(to, SCMP_SYS(setns), 1, ~0u, CLONE_NEWNET);
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, PERF_EVENT_IOC_ENABLE);
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, PERF_EVENT_IOC_DISABLE);
}

/* To write to what is open; to ask whether that is a terminal; to end at a failed assertion. */
static void allow_writing(struct filter *to)
{
	static const int calls[] = {
		SCMP_SYS(write),     SCMP_SYS(writev),       SCMP_SYS(pwrite64),
		SCMP_SYS(ftruncate), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
	};

	allow(to, calls, sizeof(calls) / sizeof(calls[0]));
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, TCGETS);
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, TIOCGWINSZ);
	allow_where(to, SCMP_SYS(tgkill), 0, ~0u, getpid());
}

/* To do what keeper.c does with names. */
static void allow_keeping(struct filter *to)
{
	static const int calls[] = {
		SCMP_SYS(read),     SCMP_SYS(sendmsg),    SCMP_SYS(close),        SCMP_SYS(rename),
		SCMP_SYS(renameat), SCMP_SYS(renameat2),  SCMP_SYS(unlink),       SCMP_SYS(unlinkat),
		SCMP_SYS(exit),     SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
	};

	allow(to, calls, sizeof(calls) / sizeof(calls[0]));
	allow_where(to, SCMP_SYS(openat), 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY);
}

static int filter_load(struct filter *to)
{
	if (!to->err)
		to->err = seccomp_load(to->f);
	seccomp_release(to->f);
	return to->err;
}

int confine_parser_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	/* libdw wants the path of its file, and can do without. */
	refuse(&to, SCMP_SYS(readlink));
	refuse(&to, SCMP_SYS(readlinkat));
	return filter_load(&to);
}

int confine_reader_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	allow_reading(&to);
	return filter_load(&to);
}

int confine_replay_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	allow_writing(&to);
	return filter_load(&to);
}

int confine_keeper_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_keeping(&to);
	return filter_load(&to);
}
