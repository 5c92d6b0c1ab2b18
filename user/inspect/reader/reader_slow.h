/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_slow.h - files that take longer to read than the loop can wait: made to cost time, or any file on a host
 * without free CPUs and in a guest that is emulated. One parser at a time goes on with its question while the loop
 * does other things; who asks the same again gets the answer. So what starves is read late, and what costs is bounded:
 * one file at a time, for so much CPU time in all, and a rest of three times that afterwards. Private to reader*.c.
 */
#ifndef RANKTRACE_TARGET_READER_SLOW_H
#define RANKTRACE_TARGET_READER_SLOW_H

#include "inspect/reader/reader_late.h"
#include "inspect/reader/reader_wire.h"

#define SLOW_KEPT_MAX 16  /* answers: who asks for several things of a file begins anew while one is late */
#define SLOW_KNOWN_MAX 64 /* files that wait for their turn; of more the first are forgotten, and found slow again */

/* A question about one file that is asked again in the same words. */
struct slow_key {
	reader_fn *fn;
	uint64_t arg_hash, dev, ino, size, mtime_ns;
};

struct slow_kept { /* an answer; data NULL: none */
	struct slow_key key;
	uint64_t used_ns;
	void *data;
	size_t len;
};

struct slow_files {
	struct worker worker; /* at work; pid 0: none */
	struct slow_key key;
	uint64_t seq, begin_ns, asked_ns, cpu_begin_ns, late_ns; /* of that question; late_ns: its deadline */
	uint64_t rest_until_ns;
	struct slow_key lost;                  /* the last whose parser died of it, or was killed by somebody */
	struct slow_key known[SLOW_KNOWN_MAX]; /* fn NULL: none */
	struct slow_kept kept[SLOW_KEPT_MAX];
	unsigned int next_known, next_kept;
};

enum slow_turn {
	SLOW_UNKNOWN, /* ask, and wait as ever */
	SLOW_NEXT,    /* it is slow, and its turn: ask, wait for nothing, slow_put() */
	SLOW_ANSWERED /* take the answer to s->seq from s->worker, then slow_end() */
};

/* What a file may cost in all. Tests set it. */
extern uint64_t slow_cpu_ns;

/* False: no caller asks that again (no file, or several). */
bool slow_key_of(const struct question *q, struct slow_key *ret);
/* enum slow_turn; or -EAGAIN: later. -EFBIG: it took more CPU time than any file may. -ETIMEDOUT: it slept. */
int slow_check(struct slow_files *s, const struct slow_key *key);
/* Takes the worker, at work on that question, if the turn is free; else its file waits for it and the worker ends. */
void slow_put(struct slow_files *s, const struct slow_key *key, struct worker *w, uint64_t seq, uint64_t late_ns);
void slow_end(struct slow_files *s);
/* One is at work: is its answer there? */
bool slow_is_done(const struct slow_files *s);
/* The answer is kept for a minute after its last use, where there is memory for it. */
void slow_keep(struct slow_files *s, const void *data, size_t len);
/* NULL: there is none. */
const struct slow_kept *slow_kept(struct slow_files *s, const struct slow_key *key);
void slow_free(struct slow_files *s);
/* Its parser died: -EAGAIN, once more; -EBADMSG when a second one did. slow_end() is still to be called. */
int slow_lost(struct slow_files *s);
/* Ends a question that was not asked again for long: now and then. */
void slow_sweep(struct slow_files *s);

#endif
