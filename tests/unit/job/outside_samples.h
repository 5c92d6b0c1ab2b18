/* SPDX-License-Identifier: Apache-2.0
 *
 * outside_samples.h - a job of which no call was seen, only NCCL's counters, task states and stacks at some looks,
 * written by hand. For tests of what an autopsy says.
 */
#ifndef RANKTRACE_OUTSIDE_SAMPLES_H
#define RANKTRACE_OUTSIDE_SAMPLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"
#include "sink/sink.h"

enum { RANKS = 4, WORLD = 0xa0, LEFT = 0xb0, RIGHT = 0xc0 };

extern struct model *m;
extern struct detectors *d;
extern struct finding_list list;
extern uint64_t now;
extern struct samples_of {
	enum task_state state;
	const char *syscall;
	bool wakes;        /* now and then, for a moment */
	uint64_t slept_ns; /* without a break since then; 0: since the begin */
} at[RANKS];
extern bool seen[RANKS];
extern struct samples_stack {
	const char *python, *native, *frames;
} stack_of[RANKS]; /* native NULL: none was read */

#define REDUCED(n) \
	(const uint64_t[]) \
	{ \
		1, 0, 0, 0, n \
	} /* one Broadcast at the start, then AllReduce */
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, end)

int start(void **state);
int end(void **state);
void give(struct event e);
void ranks_appear(void);
void who(void); /* and an autopsy looked through their memory: it knows no habits, and tells at once */
/* One communicator of one rank, `n[]` collectives of each kind entered. */
void sample(int r, uint64_t hash, int rank, int nranks, const uint64_t n[OP_KINDS_COUNTED]);
void tasks(void);
void tick(void);
void world(const uint64_t n[RANKS]);
void two_groups(void); /* each of two communicators has one behind */
const struct finding *only(void);
const char *text_of(const struct finding *f, const char *name);
/* What the sink for people prints of it; free() it. */
char *report(bool verdict);

#endif
