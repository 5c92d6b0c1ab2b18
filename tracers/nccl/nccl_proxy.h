/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_proxy.h - how far the network transfers of a communicator are, read from outside: NCCL's progress thread keeps,
 * for each active operation and connection, how many steps were posted, received, transmitted and done. No probe.
 * Places of all members come from the DWARF of the mapped file; where one is missing nothing is reported.
 */
#ifndef RANKTRACE_TARGET_NCCL_PROXY_H
#define RANKTRACE_TARGET_NCCL_PROXY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tracers/nccl/wire/proxy.h"

#define NCCL_PROXY_SUBS_MAX 256 /* reported of one communicator: 64 channels, both directions, two peers */
#define NCCL_PROXY_THREADS_MAX 512

struct reader;

struct nccl_proxy_layout {       /* bytes from the start of each struct; NCCL_NOWHERE: this version has none */
	uint32_t known;          /* 1: all but those marked optional are */
	uint32_t proxy_state;    /* ncclComm.proxyState */
	uint32_t active, thread; /* ncclProxyState.progressState: head of the list; pthread_t (optional) */
	uint32_t subs, stride, max_subs, nsubs, op_count, state, next, next_peer; /* ncclProxyArgs */
	uint32_t coll, algorithm, protocol;                                       /* the same, optional */
	uint32_t connection, channel, nsteps, peer, base, posted, received, flushed, transmitted,
		done;                /* ncclProxySubArgs */
	uint32_t is_send, transport; /* ncclProxyConnection */
};

struct nccl_proxy_sample {
	uint64_t proxy_state; /* address: communicators of a process that share it share its operations */
	uint32_t n;
	uint32_t thread;   /* tid of the progress thread; 0 not known */
	uint32_t moving;   /* 1: the list changed while it was read, again and again; n is 0 */
	uint32_t cut;      /* 1: there are more */
	uint32_t threaded; /* 1: there is a progress thread, whichever it is */
	uint32_t reserved;
	struct proxy_part parts[NCCL_PROXY_SUBS_MAX]; /* but for comm, n and thread: those are 0 */
};

/* Of the library behind `fd`, borrowed, in the helper process; with known = 0 where something is missing. 0, or that it
 * came to nothing yet: reader_is_late(). */
int nccl_proxy_layout_fetch(struct reader *r, int fd, struct nccl_proxy_layout *ret);
/*
 * One look at the communicator at `comm`, which must still be `hash` (at hash_at from its start) before and after.
 * `thread`: as reported by an earlier sample, 0 to find it. -ENOENT: no proxy yet, or nothing that can be believed;
 * -ESTALE: another communicator; or an error of parser_run_memory().
 */
int nccl_proxy_read(struct reader *r, pid_t pid, const struct nccl_proxy_layout *l, uint64_t comm, uint32_t hash_at,
		    uint64_t hash, uint32_t thread, unsigned deadline_ms, struct nccl_proxy_sample *ret);

#endif
