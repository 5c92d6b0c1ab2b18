/* SPDX-License-Identifier: Apache-2.0
 *
 * step_marks.h - a process that marks its steps as PyTorch does, on a clock of its own.
 */
#ifndef STEP_MARKS_H
#define STEP_MARKS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/model.h"

#define MS 1000000ull
#define PID 100
#define TID 101
#define DATA "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
#define STEP "Optimizer.step#AdamW.step"
#define ZERO "Optimizer.zero_grad#AdamW.zero_grad"
#define DDP "DistributedDataParallel.forward"

static struct model *m;
static uint64_t now_ms;
static struct step_done last; /* the newest step that ended */
static int n_done;

static inline int begin(void **state)
{
	(void)state;
	m = model_new();
	now_ms = 1000;
	n_done = 0;
	memset(&last, 0, sizeof(last));
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static inline void apply(struct event *e)
{
	e->ts_ns = now_ms * MS;
	e->tgid = PID;
	if (!e->tid)
		e->tid = TID;
	assert_int_equal(model_apply(m, e), 0);
	if (model_step_done(m)) {
		last = *model_step_done(m);
		n_done++;
	}
}

static inline void mark(enum torch_what what, const char *name)
{
	struct event e = { .kind = EV_TORCH, .torch.what = what };

	snprintf(e.torch.name, sizeof(e.torch.name), "%s", name);
	apply(&e);
}

static inline void range(const char *name, int ms)
{
	mark(TORCH_RANGE_BEGIN, name);
	now_ms += ms;
	mark(TORCH_RANGE_END, "");
}

static inline void backward(int ms)
{
	mark(TORCH_BACKWARD_BEGIN, "");
	now_ms += ms;
	mark(TORCH_BACKWARD_END, "");
}

/* 5 wait, 10 forward of which 3 behind the range, 20 backward, 1 nothing, 4 optimizer: 40 ms. */
static inline void step(void)
{
	range(DATA, 5);
	range(DDP, 7);
	now_ms += 3;
	backward(20);
	now_ms++;
	range(STEP, 4);
}

static inline void phases_are(uint64_t data, uint64_t forward, uint64_t backward_, uint64_t optimizer, uint64_t all)
{
	assert_int_equal(last.phase_ns[PHASE_DATA_WAIT], data * MS);
	assert_int_equal(last.phase_ns[PHASE_FORWARD], forward * MS);
	assert_int_equal(last.phase_ns[PHASE_BACKWARD], backward_ * MS);
	assert_int_equal(last.phase_ns[PHASE_OPTIMIZER], optimizer * MS);
	assert_int_equal(last.end_ns - last.begin_ns, all * MS);
}

/* Of all training steps that are over: what the host did in its phases, without its waits for the GPU. */
static inline void totals_are(uint64_t steps, uint64_t wall, uint64_t data, uint64_t forward, uint64_t backward_,
			      uint64_t optimizer, uint64_t other)
{
	const struct phase_totals *t = &last.proc->phase_totals;

	assert_int_equal(t->n_steps, steps);
	assert_int_equal(t->wall_ns, wall * MS);
	assert_int_equal(t->host_ns[PHASE_DATA_WAIT], data * MS);
	assert_int_equal(t->host_ns[PHASE_FORWARD], forward * MS);
	assert_int_equal(t->host_ns[PHASE_BACKWARD], backward_ * MS);
	assert_int_equal(t->host_ns[PHASE_OPTIMIZER], optimizer * MS);
	assert_int_equal(t->host_ns[PHASE_OTHER], other * MS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

#endif
