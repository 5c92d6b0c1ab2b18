/* SPDX-License-Identifier: Apache-2.0
 *
 * task_sample.h - what /proc says of one thread at one moment: state, time on a CPU, how often it was switched. Two
 * samples show whether it slept all the while. Takes no lock of the target's memory.
 */
#ifndef RANKTRACE_TARGET_TASK_SAMPLE_H
#define RANKTRACE_TARGET_TASK_SAMPLE_H

#include <stdint.h>

struct task_sample {
	char state;               /* as in /proc/PID/stat */
	uint64_t run_ns, wait_ns; /* on a CPU, waiting for one, since it began */
	uint64_t n_switches;      /* from a CPU, of either kind */
};

/* 0; -ESRCH gone, -EACCES, -EBADMSG. */
int task_sample_read(uint32_t tgid, uint32_t tid, struct task_sample *ret);
/* Bytes the process read and wrote by system calls; 0 not known. */
uint64_t task_sample_io_bytes(uint32_t tgid);

#endif
