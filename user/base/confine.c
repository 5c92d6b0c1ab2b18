/* SPDX-License-Identifier: Apache-2.0
 *
 * confine.c - libcap for capabilities, libseccomp for filters, Landlock for what may be written. A filter is a list of
 * what is allowed, so that a system call of a later kernel is refused too; of who runs code of others', of what is
 * refused.
 */
#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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
/* The kernel's log; an end to workers of another user; a turn in time (hurry.h). */
#define COLLECTOR (TRACING | LOOKING | BIT(CAP_SYSLOG) | BIT(CAP_KILL) | BIT(CAP_SYS_NICE))

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

int confine_hurry(void)
{
	return privileges_keep(BIT(CAP_SYS_NICE), false);
}

int confine_zygote(void)
{
	return privileges_keep(ZYGOTE, false);
}

int confine_child(void)
{
	return privileges_keep(0, false);
}

int confine_bus(void)
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

int confine_server(void)
{
	return privileges_keep(0, true);
}

/* ---- files ---- */

static int rule_add(int rules, const char *path)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
						   .parent_fd = open(path, O_PATH | O_CLOEXEC) };
	int err = 0;

	if (rule.parent_fd < 0)
		return 0; /* gone meanwhile */
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		err = -errno;
	close(rule.parent_fd);
	return err;
}

/* Kernels before 5.13, or without Landlock: the rest has to do. */
static bool is_missing(int err)
{
	return err == ENOSYS || err == EOPNOTSUPP;
}

int confine_writes(const char *const *paths, size_t n)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs =
						      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
						      LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
						      LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
						      LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
						      LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
						      LANDLOCK_ACCESS_FS_MAKE_SYM };
	int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0), err = 0;

	if (rules < 0)
		return is_missing(errno) ? 0 : -errno;
	for (size_t i = 0; !err && i < n; i++)
		err = rule_add(rules, paths[i]);
	if (!err && syscall(SYS_landlock_restrict_self, rules, 0))
		err = -errno;
	close(rules);
	return err;
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

/* To serve on a socket that listens already; no other can be made. */
static void allow_serving(struct filter *to)
{
	static const int calls[] = {
		SCMP_SYS(accept4),    SCMP_SYS(shutdown),    SCMP_SYS(recvfrom),     SCMP_SYS(sendto),
		SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),  SCMP_SYS(getsockname),  SCMP_SYS(epoll_ctl),
		SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(poll),         SCMP_SYS(ppoll),
		SCMP_SYS(write),      SCMP_SYS(writev),      SCMP_SYS(gettimeofday), SCMP_SYS(time),
		SCMP_SYS(getppid),
	};

	allow(to, calls, sizeof(calls) / sizeof(calls[0]));
	allow_where(to, SCMP_SYS(fcntl), 1, ~0u, F_GETFL);
	allow_where(to, SCMP_SYS(fcntl), 1, ~0u, F_SETFL);
}

/* Where !(argument `arg` == value), or (argument & mask) == value. */
static void refuse_where(struct filter *to, int call, struct scmp_arg_cmp where)
{
	if (!to->err)
		to->err = seccomp_rule_add_array(to->f, SCMP_ACT_ERRNO(EPERM), call, 1, &where);
}

/* What no question to a device needs, to which it is put by code of others, whose needs are not known. */
static const int acting[] = {
	/* programs, other processes */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(kcmp),
	SCMP_SYS(tkill),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	/* files */
	SCMP_SYS(creat),
	SCMP_SYS(truncate),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(link),
	SCMP_SYS(linkat),
	SCMP_SYS(symlink),
	SCMP_SYS(symlinkat),
	SCMP_SYS(mknod),
	SCMP_SYS(mknodat),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(chown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(open_by_handle_at),
	/* the machine */
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
};

static void refuse_acting(struct filter *to)
{
	for (size_t i = 0; !to->err && i < sizeof(acting) / sizeof(acting[0]); i++)
		to->err = seccomp_rule_add(to->f, SCMP_ACT_ERRNO(EPERM), acting[i], 0);
	if (!to->err) /* whose arguments a filter cannot see: libc does without */
		to->err = seccomp_rule_add(to->f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!to->err)
		to->err = seccomp_rule_add(to->f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0);
}

static void refuse_acting_by_arguments(struct filter *to)
{
	refuse_where(to, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	refuse_where(to, SCMP_SYS(kill), SCMP_A0(SCMP_CMP_NE, getpid()));
	refuse_where(to, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, getpid()));
	refuse_where(to, SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT));
	refuse_where(to, SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, O_TRUNC, O_TRUNC));
	refuse_where(to, SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT));
	refuse_where(to, SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, O_TRUNC, O_TRUNC));
	refuse_where(to, SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, O_TMPFILE, O_TMPFILE));
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

int confine_hurry_calls(void)
{
	static const int calls[] = { SCMP_SYS(sched_setscheduler), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
				     SCMP_SYS(rt_sigprocmask) };
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	allow(&to, calls, sizeof(calls) / sizeof(calls[0]));
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
	static const int merging[] = { SCMP_SYS(dup) }; /* each recording is read twice */
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	allow_writing(&to);
	allow(&to, merging, sizeof(merging) / sizeof(merging[0]));
	return filter_load(&to);
}

/* To wait for keys, to set a terminal, to see a child end. */
static void allow_screen(struct filter *to)
{
	static const int calls[] = {
		SCMP_SYS(poll),      SCMP_SYS(ppoll),           SCMP_SYS(select), SCMP_SYS(pselect6),
		SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(wait4),  SCMP_SYS(gettimeofday),
	};

	allow(to, calls, sizeof(calls) / sizeof(calls[0]));
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, TCSETS);
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, TCSETSW);
	allow_where(to, SCMP_SYS(ioctl), 1, ~0u, TCSETSF);
}

int confine_screen_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	allow_writing(&to);
	allow_screen(&to);
	return filter_load(&to);
}

/* It has the right to look into processes and to read files. What it does with it is to open files of /proc: memory is
 * for readers. */
int confine_collector_calls(void)
{
	static const int calls[] = {
		SCMP_SYS(ptrace),
		SCMP_SYS(process_vm_readv),
		SCMP_SYS(process_vm_writev),
		SCMP_SYS(pidfd_getfd),
		SCMP_SYS(kcmp),
		SCMP_SYS(open_by_handle_at),
		SCMP_SYS(userfaultfd),
		SCMP_SYS(io_uring_setup),
		SCMP_SYS(io_uring_enter),
		SCMP_SYS(keyctl),
		SCMP_SYS(add_key),
		SCMP_SYS(request_key),
		SCMP_SYS(mount),
		SCMP_SYS(umount2),
		SCMP_SYS(setns),
		SCMP_SYS(unshare),
		SCMP_SYS(chroot),
		SCMP_SYS(init_module),
		SCMP_SYS(finit_module),
		SCMP_SYS(delete_module),
		SCMP_SYS(kexec_load),
		SCMP_SYS(kexec_file_load),
		SCMP_SYS(reboot),
	};
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_ALLOW) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	for (size_t i = 0; !to.err && i < sizeof(calls) / sizeof(calls[0]); i++)
		to.err = seccomp_rule_add(to.f, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
	return filter_load(&to);
}

static int acting_refuse(bool sockets)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_ALLOW) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	refuse_acting(&to);
	refuse_acting_by_arguments(&to);
	if (sockets && !to.err)
		to.err = seccomp_rule_add(to.f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 0);
	return filter_load(&to);
}

int confine_server_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_looking(&to);
	allow_serving(&to);
	refuse(&to, SCMP_SYS(openat)); /* libc may want a file of a locale or a zone, and can do without */
	return filter_load(&to);
}

int confine_child_calls(void)
{
	return acting_refuse(true);
}

int confine_bus_calls(void)
{
	return acting_refuse(false);
}

int confine_keeper_calls(void)
{
	struct filter to = { .f = CONFINE_SANITIZED ? NULL : seccomp_init(SCMP_ACT_KILL_PROCESS) };

	if (!to.f)
		return CONFINE_SANITIZED ? 0 : -ENOMEM;
	allow_keeping(&to);
	return filter_load(&to);
}
