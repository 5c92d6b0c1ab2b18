/* SPDX-License-Identifier: Apache-2.0
 *
 * outside.h - what is read of ranks from outside: stacks, and how far NCCL's proxy is with one member's transfers.
 * Texts as in struct event. Included by model.h.
 */
#ifndef RANKTRACE_MODEL_OUTSIDE_H
#define RANKTRACE_MODEL_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"

struct task_stack {
	uint64_t ns; /* 0 never */
	bool sampled;
	const char *wait, *file, *kernel, *frames, *python, *native, *end;
};

#define DISK_LOOKS 3

/* Looks at which several threads of a rank and its children were in short D waits, or one of them again and again. */
struct disk_looks {
	uint64_t at_ns[DISK_LOOKS]; /* the newest first; 0 none */
	uint64_t seen_ns;           /* the newest thread in such a wait; 0 never */
	uint32_t seen_tid;
};

struct proc_outside {              /* of a process that was sampled from outside */
	const char *stacks_unread; /* why no stack of it could be read; NULL: some were, or none was tried */
	struct disk_looks disk;    /* of a rank's own process */
};

#define PROXY_PARTS_KEPT 256

struct samples {           /* what samples of the communicator from outside showed; the newest one */
	uint64_t seen_ns;  /* the newest */
	uint64_t since_ns; /* the first that showed these counters: the last of these calls was before it */
	bool counted;      /* this NCCL keeps counters that move */
	bool moved;        /* they moved between two samples */
	bool aborted;
	uint32_t round;               /* struct proc.sample_rounds then */
	uint64_t n;                   /* samples; 0 never */
	uint64_t after_ns;            /* the one before that: the last of these calls was after it; 0 none */
	uint64_t stood_ns, stood_seq; /* the counters before these were seen more than once: since when, and their sum;
					 0 they were not */
	uint64_t counters[OP_KINDS_COUNTED];
	int async_result, init_state; /* ncclResult_t */
};

/* How far the member's transfers over the network are: the newest sample of NCCL's proxy that is whole. */
struct proxies {
	uint64_t n_samples; /* 0 never */
	uint64_t seen_ns;   /* the newest */
	uint64_t since_ns;  /* the first that showed these very numbers: nothing moved since, if seen_ns is later */
	bool moved;         /* they changed between two samples */
	uint32_t thread;    /* tid of the progress thread; 0 not known */
	int n;              /* parts at work or queued first */
	struct proxy_part *parts; /* [n] */
};

/* outside.c, for the model itself */
struct model;
struct member_own;
int proxy_apply(struct model *m, const struct event *e); /* PROXY */
void proxies_free(struct member_own *mb);

#endif
