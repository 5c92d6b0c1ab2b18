/* SPDX-License-Identifier: Apache-2.0
 *
 * syscall_table.c - names of the system calls a training process is likely to block in, and which argument names the
 * file. Numbers come from the compiler's headers, so that each architecture has its own.
 */
#include "inspect/stack/evidence.h"

#include <sys/syscall.h>

struct row {
	const char *name;
	enum syscall_subject subject;
};

#define ROW(name, subject) [SYS_##name] = { #name, SUBJECT_##subject }

static const struct row rows[] = {
	ROW(read, FD),
	ROW(write, FD),
	ROW(pread64, FD),
	ROW(pwrite64, FD),
	ROW(readv, FD),
	ROW(writev, FD),
	ROW(preadv, FD),
	ROW(pwritev, FD),
	ROW(preadv2, FD),
	ROW(pwritev2, FD),
	ROW(close, FD),
	ROW(fstat, FD),
	ROW(lseek, FD),
	ROW(fsync, FD),
	ROW(fdatasync, FD),
	ROW(sync_file_range, FD),
	ROW(syncfs, FD),
	ROW(ftruncate, FD),
	ROW(fallocate, FD),
	ROW(flock, FD),
	ROW(fcntl, FD),
	ROW(ioctl, FD),
	ROW(getdents64, FD),
	ROW(fadvise64, FD),
	ROW(readahead, FD),
	ROW(fchmod, FD),
	ROW(fchown, FD),
	ROW(fstatfs, FD),
	ROW(fchdir, FD),
	ROW(fsetxattr, FD),
	ROW(fgetxattr, FD),
	ROW(copy_file_range, FD),
	ROW(sendfile, FD1),
	ROW(splice, FD),
	ROW(mmap, FD4),
	ROW(munmap, NONE),
	ROW(mprotect, NONE),
	ROW(mremap, NONE),
	ROW(madvise, NONE),
	ROW(brk, NONE),
	ROW(msync, NONE),
	ROW(mlock, NONE),
	ROW(munlock, NONE),
	ROW(mincore, NONE),
	ROW(mbind, NONE),
	ROW(connect, FD),
	ROW(accept, FD),
	ROW(accept4, FD),
	ROW(sendto, FD),
	ROW(recvfrom, FD),
	ROW(sendmsg, FD),
	ROW(recvmsg, FD),
	ROW(sendmmsg, FD),
	ROW(recvmmsg, FD),
	ROW(bind, FD),
	ROW(listen, FD),
	ROW(shutdown, FD),
	ROW(setsockopt, FD),
	ROW(getsockopt, FD),
	ROW(socket, NONE),
	ROW(socketpair, NONE),
	ROW(epoll_pwait, FD),
	ROW(epoll_ctl, FD),
	ROW(ppoll, NONE),
	ROW(pselect6, NONE),
	ROW(io_uring_enter, FD),
	ROW(io_uring_setup, NONE),
	ROW(io_submit, NONE),
	ROW(io_getevents, NONE),
	ROW(openat, AT),
	ROW(openat2, AT),
	ROW(mkdirat, AT),
	ROW(unlinkat, AT),
	ROW(renameat, AT),
	ROW(renameat2, AT),
	ROW(linkat, AT),
	ROW(mknodat, AT),
	ROW(fchmodat, AT),
	ROW(fchownat, AT),
	ROW(newfstatat, AT),
	ROW(statx, AT),
	ROW(readlinkat, AT),
	ROW(faccessat, AT),
	ROW(faccessat2, AT),
	ROW(utimensat, AT),
	ROW(execveat, AT),
	ROW(truncate, PATH),
	ROW(statfs, PATH),
	ROW(chdir, PATH),
	ROW(execve, PATH),
	ROW(setxattr, PATH),
	ROW(getxattr, PATH),
	ROW(umount2, PATH),
	ROW(symlinkat, NONE),
	ROW(mount, NONE),
	ROW(sync, NONE),
	ROW(futex, NONE),
	ROW(nanosleep, NONE),
	ROW(clock_nanosleep, NONE),
	ROW(sched_yield, NONE),
	ROW(wait4, NONE),
	ROW(waitid, NONE),
	ROW(clone, NONE),
	ROW(clone3, NONE),
	ROW(exit, NONE),
	ROW(exit_group, NONE),
	ROW(kill, NONE),
	ROW(tgkill, NONE),
	ROW(rt_sigtimedwait, NONE),
	ROW(rt_sigsuspend, NONE),
	ROW(restart_syscall, NONE),
	ROW(getrandom, NONE),
	ROW(membarrier, NONE),
	ROW(process_vm_readv, NONE),
	ROW(process_vm_writev, NONE),
	ROW(ptrace, NONE),
	ROW(shmat, NONE),
	ROW(shmdt, NONE),
	ROW(shmget, NONE),
	ROW(semop, NONE),
	ROW(semtimedop, NONE),
	ROW(msgrcv, NONE),
	ROW(msgsnd, NONE),
	ROW(prctl, NONE),
	ROW(bpf, NONE),
	ROW(memfd_create, NONE),
	ROW(userfaultfd, NONE),
	ROW(pidfd_open, NONE),
#ifdef SYS_open /* the old calls that arm64 never had */
	ROW(open, PATH),
	ROW(creat, PATH),
	ROW(mkdir, PATH),
	ROW(rmdir, PATH),
	ROW(unlink, PATH),
	ROW(rename, PATH),
	ROW(link, PATH),
	ROW(symlink, NONE),
	ROW(readlink, PATH),
	ROW(stat, PATH),
	ROW(lstat, PATH),
	ROW(access, PATH),
	ROW(chmod, PATH),
	ROW(chown, PATH),
	ROW(mknod, PATH),
	ROW(utime, PATH),
	ROW(utimes, PATH),
	ROW(getdents, FD),
	ROW(poll, NONE),
	ROW(select, NONE),
	ROW(epoll_wait, FD),
	ROW(pause, NONE),
	ROW(vfork, NONE),
	ROW(fork, NONE),
	ROW(dup2, FD),
	ROW(futimesat, AT),
#endif
};

static const struct row *find_row(int nr)
{
	if (nr < 0 || (size_t)nr >= sizeof(rows) / sizeof(rows[0]) || !rows[nr].name)
		return NULL;
	return &rows[nr];
}

const char *syscall_name(int nr)
{
	const struct row *row = find_row(nr);

	return row ? row->name : NULL;
}

enum syscall_subject syscall_subject(int nr)
{
	const struct row *row = find_row(nr);

	return row ? row->subject : SUBJECT_NONE;
}
