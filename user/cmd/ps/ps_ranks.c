/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_ranks.c - see ps_ranks.h.
 */
#include "cmd/ps/ps_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "autopsy/procs.h"
#include "base/clock.h"
#include "cmd/ps/ps_rate.h"
#include "tracers/gpu/gpu_guess.h"

#define FIND_NS 2000000000ull
#define SAMPLE_FOR_NS 2000000000ull
#define SAMPLE_EVERY_NS 2000000
#define SAMPLES_MAX 1001
#define GPUS_MAX 16

struct series { /* of one process */
	struct rate_sample *samples;
	size_t n;
	struct nccl_state *now; /* n_places of them, as read last */
};

static uint64_t collectives_of(const struct nccl_state *states, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; states[i].valid && k < states[i].n_counters; k++)
			sum += states[i].counters[k];
	return sum;
}

/* A communicator that goes away meanwhile makes the sum smaller: it begins again. */
static int sample_take(struct autopsy_proc *of, struct reader *r, struct series *s)
{
	int err = comm_states_sample(&of->comms, r, of->proc->tgid, s->now);
	uint64_t count;

	if (err)
		return err == -ENOMEM ? err : 0;
	count = collectives_of(s->now, of->comms.n_places);
	if (s->n && count < s->samples[s->n - 1].count)
		s->n = 0;
	s->samples[s->n++] = (struct rate_sample){ .ns = clock_monotonic_ns(), .count = count };
	return 0;
}

static int series_make(const struct autopsy_procs *procs, struct series *all)
{
	for (size_t i = 0; i < procs->n; i++) {
		size_t n = procs->all[i].comms.n_places;

		all[i].samples = n ? calloc(SAMPLES_MAX, sizeof(*all[i].samples)) : NULL;
		all[i].now = n ? calloc(n, sizeof(*all[i].now)) : NULL;
		if (n && (!all[i].samples || !all[i].now))
			return -ENOMEM;
	}
	return 0;
}

static int series_fill(struct autopsy_procs *procs, struct reader *r, struct series *all)
{
	uint64_t end_ns = clock_monotonic_ns() + SAMPLE_FOR_NS, next_ns;
	int err = 0;

	for (int round = 0; !err && round < SAMPLES_MAX; round++) {
		next_ns = clock_monotonic_ns() + SAMPLE_EVERY_NS;
		for (size_t i = 0; !err && i < procs->n; i++)
			if (all[i].samples)
				err = sample_take(&procs->all[i], r, &all[i]);
		if (next_ns >= end_ns)
			break;
		if (clock_monotonic_ns() < next_ns)
			nanosleep(&(struct timespec){ .tv_nsec = SAMPLE_EVERY_NS }, NULL);
	}
	return err;
}

/* Devices are numbers of the process; CUDA_VISIBLE_DEVICES has the host's. */
static void gpus_text(const struct target_proc *p, const struct nccl_state *states, size_t n, char *to, size_t size)
{
	uint32_t seen = 0;
	size_t at = 0;

	*to = 0;
	for (size_t i = 0; i < n; i++)
		if (states[i].valid && states[i].device >= 0 && states[i].device < GPUS_MAX)
			seen |= 1u << states[i].device;
	if (!seen && p->local_rank >= 0 && p->local_rank < GPUS_MAX && gpu_in_use(p->tgid))
		seen = 1u << p->local_rank;
	for (int device = 0; device < GPUS_MAX; device++) {
		int gpu = seen >> device & 1 ? gpu_guess(p->visible_devices, device) : -1;

		if (gpu >= 0 && at < size)
			at += snprintf(to + at, size - at, "%s%d", at ? "," : "", gpu);
	}
}

static const struct nccl_state *largest(const struct nccl_state *states, size_t n)
{
	const struct nccl_state *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (states[i].valid && (!best || states[i].nranks > best->nranks))
			best = &states[i];
	return best;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* JAX, ncclCommInitAll, a thread for each rank: it has several members of one communicator. */
static int ranks_fill(const struct nccl_state *states, size_t n, struct ps_rank *row)
{
	const struct nccl_state *of = largest(states, n);

	row->ranks = calloc(n + 1, sizeof(*row->ranks));
	if (!row->ranks)
		return -ENOMEM;
	for (size_t i = 0; of && i < n; i++)
		if (states[i].valid && states[i].hash == of->hash)
			row->ranks[row->n_ranks++] = states[i].rank;
	qsort(row->ranks, row->n_ranks, sizeof(*row->ranks), by_number);
	if (row->n_ranks == 1)
		row->n_ranks = 0;
	return 0;
}

static const char *state_of(const struct autopsy_proc *p, const struct ps_rank *row)
{
	if (p->proc->status == TARGET_DENIED || p->comms.denied)
		return "not readable";
	if (p->frozen)
		return "frozen";
	if (p->proc->state == 'T' || p->proc->state == 't')
		return "stopped";
	if (p->proc->state == 'D')
		return "D state";
	if (p->comms.held)
		return "lock held";
	if (!p->comms.n_places)
		return "no communicator";
	if (!row->counted)
		return "not counted";
	return row->collectives_per_s > 0 ? "trains" : "no collective";
}

static int row_fill(const struct autopsy_proc *p, const struct series *s, struct ps_rank *row)
{
	size_t n = s->now ? p->comms.n_places : 0;

	*row = (struct ps_rank){ .proc = p->proc };
	row->counted = s->n > 1 && !p->comms.uncounted;
	if (row->counted) {
		row->collectives_per_s = rate_of_collectives(s->samples, s->n);
		row->steps_per_s = rate_of_steps(s->samples, s->n);
	}
	gpus_text(p->proc, s->now, n, row->gpus, sizeof(row->gpus));
	row->state = state_of(p, row);
	return ranks_fill(s->now, n, row);
}

static int rows_read(struct reader *r, struct autopsy_procs *procs, struct ps_rank **ret)
{
	struct series *all = calloc(procs->n + 1, sizeof(*all));
	int err;

	*ret = calloc(procs->n + 1, sizeof(**ret));
	err = all && *ret ? procs_comms_find(procs, FIND_NS) : -ENOMEM;
	if (!err)
		err = series_make(procs, all);
	if (!err && procs->n_comms)
		err = series_fill(procs, r, all);
	for (size_t i = 0; all && i < procs->n; i++) {
		if (!err)
			err = row_fill(&procs->all[i], &all[i], &(*ret)[i]);
		free(all[i].samples);
		free(all[i].now);
	}
	free(all);
	return err;
}

int ps_ranks_read(struct reader *r, struct target_set *set, struct ps_rank **ret, size_t *ret_n)
{
	struct autopsy_procs procs = { .reader = r, .readers = &r, .n_readers = 1, .find_max_ns = FIND_NS };
	const struct target_proc *const *list = target_set_list(set, ret_n);
	int err = 0;

	for (size_t i = 0; !err && i < *ret_n; i++)
		err = procs_add(&procs, list[i]);
	if (!err)
		err = rows_read(r, &procs, ret);
	procs_free(&procs);
	if (err) {
		ps_ranks_free(*ret, *ret_n);
		*ret = NULL;
	}
	return err;
}

void ps_ranks_free(struct ps_rank *rows, size_t n)
{
	for (size_t i = 0; rows && i < n; i++)
		free(rows[i].ranks);
	free(rows);
}
