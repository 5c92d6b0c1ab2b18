/* SPDX-License-Identifier: Apache-2.0
 *
 * evidence.h - why one thread is blocked, read while it is: kernel stack, wait channel, system call, the file behind
 * it. Never ptrace, never a stop. What can take the target's mmap_lock goes through the reader.
 */
#ifndef RANKTRACE_TARGET_EVIDENCE_H
#define RANKTRACE_TARGET_EVIDENCE_H

#include "inspect/reader/reader.h"

struct target_evidence {
	char state;              /* as in /proc/PID/stat, 0 unknown */
	bool mmap_lock_held;     /* a read that takes the process' mmap_lock timed out */
	int syscall_nr;          /* -1 none or not known */
	uint64_t args[6];        /* of the system call */
	uint64_t sp, pc;         /* of user space, 0 unknown */
	char kernel_stack[4096]; /* "func+0x12/0x34" lines, innermost first, no newline at the end; "" none */
	char wchan[64];          /* "" none */
	char syscall[32];        /* "openat"; "page_fault" for a fault; "syscall_<nr>" without a name; "" running */
	char file[512];          /* file or path the call is about; "" none or unknown */
};

/*
 * Fills what can be had; parts that cannot stay empty. Takes up to two deadlines when the mmap_lock is held, or what is
 * left of the reader's timeout: -EINPROGRESS then, and another call soon knows.
 * -ESRCH the thread is gone; -EPERM, -EACCES not allowed to look at it.
 */
int evidence_read(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_evidence *ret);

/* Name of a system call of this architecture, NULL unknown. */
const char *syscall_name(int nr);

enum syscall_subject { SUBJECT_NONE, SUBJECT_FD, SUBJECT_FD1, SUBJECT_FD4, SUBJECT_PATH, SUBJECT_AT };
/* Which argument names the file: an fd (argument 0, 1 or 4), a path (argument 0), a directory fd and a path (0, 1). */
enum syscall_subject syscall_subject(int nr);

/* Cleans the text of /proc/PID/stack: drops addresses, keeps "func+0x1/0x2 [module]" lines. */
void kernel_stack_clean(const char *text, char *to, size_t size);

#endif
