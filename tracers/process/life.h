/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * life.h - records of bpf/life.bpf.c: the targets' forks, execs and exits.
 */
#ifndef RANKTRACE_LIFE_H
#define RANKTRACE_LIFE_H

#include "schemas/wire.h"

enum life_kind { LIFE_FORK = 1, LIFE_EXEC = 2, LIFE_EXIT = 3 };

struct life_fork { /* hdr: the parent */
	struct wire_hdr hdr;
	__u32 child_tgid, child_tid;
};
_Static_assert(sizeof(struct life_fork) == 32, "life_fork");

struct life_exec {
	struct wire_hdr hdr;
};

struct life_exit {
	struct wire_hdr hdr;
	__s32 code;   /* task_struct.exit_code: status << 8 | signal */
	__u32 last;   /* 1: the process's last thread */
	__u64 run_ns; /* on a CPU, of this thread in its life; not in older recordings */
};
_Static_assert(sizeof(struct life_exit) == 40, "life_exit");
#define LIFE_EXIT_OLD_BYTES 32

#endif
