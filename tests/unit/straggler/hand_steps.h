/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_steps.h - the iterations of a job of one rank, two operations each, as long as a test says, before the detector
 * slow_step. Of one test program.
 */
#ifndef RANKTRACE_HAND_STEPS_H
#define RANKTRACE_HAND_STEPS_H

#include <stdint.h>
#include <stdlib.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 2
#include "tests/unit/job/hand_known.h"

enum { OPS = 4096, PERIOD = 2 };

static const struct job_id job = { .name = "train", .shown = "train", .nth = 1 };
static struct steps steps;
static struct op ops[OPS];
static int n_ops, per_tick;
static uint64_t call_ns;
static struct finding_list list;
static void *detector;

static inline struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static inline void tick(void)
{
	list.n = 0;
	m.now_ns = call_ns;
	assert_int_equal(detector_slow_step.tick(detector, &m, &list), 0);
}

static inline void op_add(void)
{
	struct op *op = &ops[n_ops];

	assert_true(n_ops < OPS);
	*op = (struct op){ .nth = n_ops, .call_ns = call_ns, .prev_in_proc = known[0]->last_op, .member = &members[0] };
	if (known[0]->last_op)
		known[0]->last_op->next_in_proc = op;
	known[0]->last_op = op;
	known[0]->n_ops = ++n_ops;
}

/* One operation in its middle, and the one that begins the next: that is where it ends. */
static inline void iteration(uint64_t ns)
{
	call_ns += ns / 2;
	op_add();
	if (n_ops / 2 % 2 && per_tick == 1)
		tick();
	call_ns += ns - ns / 2;
	op_add();
}

static inline void step(double s)
{
	iteration((uint64_t)(s * 1e9 + 0.5));
	if (n_ops / 2 % per_tick == 0)
		tick();
}

static inline void many(int n, double s)
{
	while (n-- > 0)
		step(s);
}

static inline int begin(void **state)
{
	hand_setup(state);
	hand_find();
	n_ops = 0;
	per_tick = 1;
	call_ns = NOW;
	steps = (struct steps){ .period_ops = PERIOD, .phase = PERIOD + 1 };
	known[0]->steps = &steps;
	known[0]->job = &job;
	known[0]->next = NULL;
	op_add();
	op_add();
	detector = calloc(1, detector_slow_step.state_bytes);
	tick();  /* from here on it reads */
	step(1); /* the first begin */
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	detector_slow_step.release(detector);
	free(detector);
	hand_lose();
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	return 0;
}

static inline void again(void **state)
{
	end(state);
	begin(state);
}

/* Iterations of that length until there is a finding; -1: none in 60. */
static inline int until_slow(double s)
{
	for (int i = 1; i <= 60; i++) {
		step(s);
		if (only())
			return i;
	}
	return -1;
}

static inline int until_over(double s)
{
	for (int i = 1; i <= 30; i++) {
		step(s);
		if (!only())
			return i;
	}
	return -1;
}

#endif
