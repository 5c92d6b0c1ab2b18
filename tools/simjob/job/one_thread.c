// SPDX-License-Identifier: Apache-2.0
/*
 * One thread for all ranks of a process (--threads=one), as nccl-tests -g N and users of ncclCommInitAll() have it.
 * Each rank's life runs on a stack of its own, and the thread turns to the next rank where such a program does: behind
 * a call that it makes for all its GPUs within one NCCL group, and at a wait for a GPU. It asks all their streams, and
 * waits for one only when no rank has anything else to do.
 */
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES (1UL << 20)
#define POLL_NS (200 * NSEC_PER_USEC)

enum stop { STOP_NONE, STOP_GROUP, STOP_STREAM, STOP_END };

struct turn { /* one rank's part of the thread */
	ucontext_t context;
	struct rank *rank;
	enum stop stop;
	uint64_t nr_waits; /* for its stream */
};

static struct {
	ucontext_t thread;
	struct turn turns[MAX_RANKS], *now;
	int nr_turns;
	bool group_is_open;
} one;

static void turn_begin(void)
{
	struct turn *turn = one.now;

	rank_live(turn->rank);
	turn->stop = STOP_END;
}

/* Returns when what it waits for has come. */
static void turn_stop(struct turn *turn, enum stop stop)
{
	turn->stop = stop;
	turn->nr_waits += stop == STOP_STREAM;
	swapcontext(&turn->context, &one.thread);
}

/* The device is the thread's: a program with several sets it before each call. */
static void device_take(const struct turn *turn)
{
	const struct api *api = &turn->rank->api;

	if (turn->rank->context)
		cuda_check(api, api->cuCtxSetCurrent(turn->rank->context), "cuCtxSetCurrent");
}

/* False: each rank waits for something, or is through. */
static bool turns_take(void)
{
	bool any = false;
	int i;

	for (i = 0; i < one.nr_turns; i++) {
		if (one.turns[i].stop != STOP_NONE)
			continue;
		any = true;
		one.now = &one.turns[i];
		device_take(one.now);
		swapcontext(&one.thread, &one.now->context);
	}
	return any;
}

/* False: none is open. */
static bool group_close(void)
{
	const struct api *api = &one.turns[0].rank->api;
	int i;

	if (!one.group_is_open)
		return false;
	one.group_is_open = false;
	nccl_check(api, api->ncclGroupEnd(), NULL, "ncclGroupEnd");
	for (i = 0; i < one.nr_turns; i++) {
		if (one.turns[i].stop == STOP_GROUP)
			one.turns[i].stop = STOP_NONE;
	}
	return true;
}

static bool stream_is_done(const struct turn *turn)
{
	const struct api *api = &turn->rank->api;
	CUresult res;

	device_take(turn);
	res = api->cuStreamQuery(turn->rank->compute);
	if (res != CUDA_ERROR_NOT_READY)
		cuda_check(api, res, "cuStreamQuery");
	return res == CUDA_SUCCESS;
}

static void stream_synchronize(struct turn *turn)
{
	device_take(turn);
	cuda_check(&turn->rank->api, turn->rank->api.cuStreamSynchronize(turn->rank->compute), "cuStreamSynchronize");
	turn->stop = STOP_NONE;
}

static bool is_at_same_wait(const struct turn *a, const struct turn *b)
{
	return a->nr_waits == b->nr_waits && a->rank->step == b->rank->step &&
	       a->rank->op_in_step == b->rank->op_in_step;
}

/* All ranks are at the same wait, each behind the same calls: none of them needs another's next one. */
static bool turns_are_together(void)
{
	const struct turn *first = NULL;
	int i;

	for (i = 0; i < one.nr_turns; i++) {
		const struct turn *turn = &one.turns[i];

		if (turn->stop == STOP_END)
			continue;
		if (turn->stop != STOP_STREAM || (first && !is_at_same_wait(turn, first)))
			return false;
		first = turn;
	}
	return first;
}

/* Returns how many ranks still wait. */
static int streams_poll(void)
{
	int i, nr_waiting = 0;

	for (i = 0; i < one.nr_turns; i++) {
		if (one.turns[i].stop != STOP_STREAM)
			continue;
		if (stream_is_done(&one.turns[i]))
			one.turns[i].stop = STOP_NONE;
		else
			nr_waiting++;
	}
	return nr_waiting;
}

static void waits_count_anew(void)
{
	int i;

	for (i = 0; i < one.nr_turns; i++)
		one.turns[i].nr_waits = 0;
}

static int turns_at(enum stop stop)
{
	int i, n = 0;

	for (i = 0; i < one.nr_turns; i++)
		n += one.turns[i].stop == stop;
	return n;
}

/* False: no rank waits for its stream. */
static bool streams_await(void)
{
	int i, nr = turns_at(STOP_STREAM), nr_waiting;

	if (!nr)
		return false;
	if (turns_are_together()) {
		for (i = 0; i < one.nr_turns; i++) {
			if (one.turns[i].stop == STOP_STREAM)
				stream_synchronize(&one.turns[i]);
		}
		return true;
	}
	nr_waiting = streams_poll();
	if (nr_waiting == nr)
		sleep_until(clock_now_ns() + POLL_NS);
	else if (nr_waiting == 0 && turns_at(STOP_NONE) == one.nr_turns) /* behind what only some ranks do */
		waits_count_anew();
	return true;
}

static void turn_set_up(struct turn *turn, struct rank *rank)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED || getcontext(&turn->context)) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", rank->rank);
		exit(1);
	}
	turn->rank = rank;
	rank->turn = turn;
	turn->context.uc_stack.ss_sp = stack;
	turn->context.uc_stack.ss_size = STACK_BYTES;
	turn->context.uc_link = &one.thread;
	makecontext(&turn->context, turn_begin, 0);
}

void ranks_live_in_one_thread(struct rank *ranks, int nr_ranks)
{
	int i;

	one.nr_turns = nr_ranks;
	for (i = 0; i < nr_ranks; i++)
		turn_set_up(&one.turns[i], &ranks[i]);
	while (turns_take() || group_close() || streams_await())
		;
	for (i = 0; i < nr_ranks; i++)
		munmap(one.turns[i].context.uc_stack.ss_sp, STACK_BYTES);
}

void group_join(struct rank *rank)
{
	if (!rank->turn || one.group_is_open)
		return;
	nccl_check(&rank->api, rank->api.ncclGroupStart(), NULL, "ncclGroupStart");
	one.group_is_open = true;
}

void group_await(struct rank *rank)
{
	if (rank->turn && one.group_is_open)
		turn_stop(rank->turn, STOP_GROUP);
}

void stream_await(struct rank *rank)
{
	turn_stop(rank->turn, STOP_STREAM);
}
