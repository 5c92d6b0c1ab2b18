/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_files.h - the files of /proc/PID that never take the target's mmap_lock (stat, status, task/), as structs. What
 * a process maps is discover's work.
 */
#ifndef RANKTRACE_TARGET_PROC_FILES_H
#define RANKTRACE_TARGET_PROC_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UID_UNKNOWN UINT32_MAX

struct proc_stat {
	uint32_t parent;
	char state;
	char name[16];
	bool is_kernel;         /* PF_KTHREAD */
	uint64_t start_time_ns; /* since boot */
	uint64_t vsize;         /* bytes; moves with every mmap */
	uint32_t n_threads;     /* of a zombie: more than 1 while others of its threads live */
	uint64_t image;         /* hash of the addresses that exec lays out: another one, another program */
};

/* Parses /proc/PID/stat; the name may hold anything, also ") R 1". -EBADMSG. */
int proc_stat_parse(const char *text, struct proc_stat *ret);
/* -ESRCH gone, -EACCES, -EBADMSG. */
int proc_stat_read(uint32_t pid, struct proc_stat *ret);
struct reader;
/* The same in a reader: amid thousands of forks or exits a read of it may sleep for seconds (2 s measured), so of users
 * with many processes the collector itself does not read it. */
int reader_stat(struct reader *r, uint32_t pid, struct proc_stat *ret);

struct proc_status {
	uint32_t ns_pid;
	int seccomp;  /* -1 unknown */
	uint32_t uid; /* real one; UID_UNKNOWN */
};
int proc_status_read(uint32_t pid, struct proc_status *ret);

/* Reads a small file whole, cut to size - 1 and zero-terminated. Bytes or -errno (-ESRCH for a process that went). */
int proc_read(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
