/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_spawn.h - the workers of a reader, the zygote that makes them, and the spare one that takes its place. Private
 * to reader.c and reader_spawn.c.
 */
#ifndef RANKTRACE_TARGET_READER_SPAWN_H
#define RANKTRACE_TARGET_READER_SPAWN_H

#include "inspect/reader/reader_late.h"
#include "inspect/reader/reader_wire.h"

struct zygote {
	pid_t pid;
	int fd;  /* pidfd; -1: it is our child, or there is none */
	int ctl; /* -1 there is none */
};

#define NOTHING_ASKED -1
#define WORKER_WAIT_MS 5000 /* who need not go on looking */

struct workers {
	struct zygote zygote, spare;
	bool is_hurried, is_lost; /* lost: no zygote is left */
	pid_t dying;              /* our child, killed and not over yet; 0 none */
	uint32_t number;          /* of the last question to the zygote */
	int asked;                /* enum worker_kind: the answer is not there yet */
	uint64_t asked_ns;
	struct worker worker[WORKER_KINDS];
};

/* Forks the zygote and has a first reader made. 0 or -errno; workers_close() either way. */
int workers_open(struct workers *w);
/* Waits for no worker that is stalled. */
void workers_close(struct workers *w);
/* Replaces a zygote, or a spare one, that is gone or was stopped: now and then, as neither shows it until it is needed.
 */
void workers_check(struct workers *w);
/* For who must go on looking: a fork takes a millisecond, and one that the kernel delays is waited for once. */
unsigned workers_wait_ms(const struct workers *w);
/* Also of a zygote that takes the other's place. */
void workers_hurry(struct workers *w, bool hurried);
/* 0: there is one. -EINPROGRESS: none within that time, as the kernel delays forks; ask again. -EPIPE: no zygote is
 * left. */
int worker_ensure(struct workers *w, enum worker_kind kind, unsigned wait_ms);
const char *worker_name(enum worker_kind kind);
/* Reports that one ended in the middle of its work: of each kind once, as it may happen again and again. */
void worker_lost_say(const char *name);

#endif
