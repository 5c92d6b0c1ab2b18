/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_env.h - what an environment says of who a process is: rank, size, job, by the launcher that wrote it. One row
 * a launcher (launch_env.c). Pure text work; where the text comes from is proc_row.c's and late_environ.c's business.
 */
#ifndef RANKTRACE_TARGET_LAUNCH_ENV_H
#define RANKTRACE_TARGET_LAUNCH_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/collector.h"

struct proc_environ {
	int rank, local_rank, world_size; /* -1 unknown */
	enum rank_source source;          /* who says so; RANK_UNKNOWN: no launcher */
	bool late;                        /* set by the program itself, after its start */
	int other_rank, other_size;       /* what a less trusted launcher says, where it disagrees; -1 none does */
	enum rank_source other_source;
	char job[128];
	char visible_devices[64];
	char pod_name[64], namespace[64];   /* of Kubernetes; "" unknown */
	char slurm_job[24], slurm_step[16]; /* "" unknown */
};

/* No launcher said anything. */
#define PROC_ENVIRON_NONE \
	((struct proc_environ){ .rank = -1, .local_rank = -1, .world_size = -1, .other_rank = -1, .other_size = -1 })

/*
 * Zero-separated text as in /proc/PID/environ, with a zero byte behind `len`. A rank counts only with a world size that
 * is larger (PMIx alone has none). The most trusted row wins: innermost launcher first.
 */
void proc_environ_parse(const char *text, size_t len, struct proc_environ *ret);
/* Takes over what the program set after its start, where that is as trusted as what it was started with or more. */
void proc_environ_update(struct proc_environ *e, const struct proc_environ *live);

/* A source of which every process below the launcher has a copy, also those that are no rank: Slurm's. */
bool rank_source_is_inherited_by_all(enum rank_source source);
const char *rank_source_name(enum rank_source source);     /* "slurm", "" unknown */
const char *rank_source_variable(enum rank_source source); /* "SLURM_PROCID", "" unknown */

#endif
