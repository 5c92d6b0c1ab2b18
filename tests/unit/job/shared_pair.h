/* SPDX-License-Identifier: Apache-2.0
 *
 * shared_pair.h - two processes of two ranks each, a thread a rank or one for both, that take part in WORLD, and the
 * first two in PAIR, without a finding for ROUNDS rounds; and the detector of hangs. Of one test program.
 */
#ifndef RANKTRACE_SHARED_PAIR_H
#define RANKTRACE_SHARED_PAIR_H

#include <stdlib.h>

#include "detect/detect.h"
#include "detect/hang/report.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4
#define WORLD 0x100
#define PAIR 0x200 /* of ranks 0 and 1 */
#define ROUNDS 120

extern const struct detector detector_hang;

static struct model *m;
static struct finding_list list;
static void *state_of_hang;
static uint64_t now;
static enum task_state states[RANKS]; /* of each rank's thread */
static uint64_t disk_ns;
static bool one_thread; /* calls for both ranks of its process */
static uint32_t turned; /* another thread calls for each rank: by that number higher */

static inline uint32_t tgid_of(int rank)
{
	return 1000 + 100 * (uint32_t)(rank / 2);
}

static inline uint32_t tid_of(int rank)
{
	return turned + (one_thread ? tgid_of(rank) : tgid_of(rank) + 1 + (uint32_t)rank);
}

static inline void give(int rank, struct event e)
{
	e.tgid = tgid_of(rank);
	e.tid = tid_of(rank);
	e.ts_ns = now += MSEC / 10;
	assert_int_equal(model_apply(m, &e), 0);
}

static inline void join(int rank, uint64_t comm, int nranks)
{
	struct event e = job_seen_event(rank, nranks, comm + (uint64_t)rank, comm);

	give(rank, job_ready_event(rank, nranks, comm + (uint64_t)rank, comm));
	e.comm_seen.device = rank;
	give(rank, e);
}

static inline void call(int rank, uint64_t comm)
{
	give(rank, job_call_event(rank, OP_ALLREDUCE, comm + (uint64_t)rank, comm + (uint64_t)rank, comm));
}

static inline void wait_for(int rank, uint64_t comm, bool returns)
{
	struct event e = job_wait_event(rank, comm + (uint64_t)rank);

	give(rank, e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = now;
	if (returns)
		give(rank, e);
}

static inline void tick(void)
{
	for (int r = 0; r < RANKS; r++) {
		struct event t = { .kind = EV_TASK };

		t.task.state = states[r];
		t.task.since_ns = states[r] == TASK_DISK ? disk_ns : now > SEC ? now - SEC : 1;
		t.task.run_ns = states[r] == TASK_ON_CPU ? now : 0;
		give(r, t);
	}
	now += 250 * MSEC;
	give(0, (struct event){ .kind = EV_TICK });
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	assert_int_equal(detector_hang.tick(state_of_hang, m, &list), 0);
	while (model_next_ended(m))
		;
}

static inline void rounds(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		for (int r = 0; r < RANKS; r++)
			call(r, WORLD);
		for (int r = 0; r < RANKS; r++)
			wait_for(r, WORLD, true);
		for (int r = 0; r < 2; r++)
			call(r, PAIR);
		for (int r = 0; r < 2; r++)
			wait_for(r, PAIR, true);
		tick();
		assert_int_equal(list.n, 0); /* no rank is named while all goes on */
	}
}

static inline int set_up(bool one)
{
	one_thread = one;
	for (int r = 0; r < RANKS; r++)
		states[r] = TASK_SLEEP;
	m = model_new();
	state_of_hang = calloc(1, detector_hang.state_bytes);
	now = 10 * SEC;
	for (int r = 0; r < RANKS; r++)
		join(r, WORLD, RANKS);
	for (int r = 0; r < 2; r++)
		join(r, PAIR, 2);
	rounds();
	return 0;
}

static inline int setup(void **state)
{
	(void)state;
	return set_up(false);
}

static inline int setup_one(void **state)
{
	(void)state;
	return set_up(true);
}

static inline int teardown(void **state)
{
	(void)state;
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	detector_hang.release(state_of_hang);
	free(state_of_hang);
	model_free(m);
	return 0;
}

static inline void ticks(int n)
{
	for (int i = 0; i < n; i++)
		tick();
}

#endif
