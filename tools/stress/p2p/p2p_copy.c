/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_copy.c - one link by one measure, as nvbandwidth measures: a kernel holds the stream until all is enqueued, so
 * that no launch is in the time; 4 copies first, then the median of 3 times 16. What arrived is compared on the device.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tools/stress/p2p/p2p.h"
#include "tools/stress/series.h"

#define WARM_UP 4
#define COPIES 16
#define TURNS 3
#define HOLD_NS 5000000000ull
#define BLOCK 256
#define BLOCK_COPY 512
#define BLOCKS_PER_SM 8
#define POISON 0xcafebabeu
#define SEED 0xbaadf00dull
#define WRONG_KEPT 1
#define CHAIN_STEP 256
#define CHAIN_BYTES (1u << 20)
#define HOPS 20000ull

struct flow {
	int from, to;
	enum link_measure how;
};

static struct stress_gpu *gpu_here(struct p2p *p, int i)
{
	struct stress_gpu *gpu = &p->run->gpus[i];

	p->run->cuda.context_set(gpu->context);
	return gpu;
}

/* --- memory --- */

static int pattern_fill(struct p2p *p, int i)
{
	struct stress_gpu *gpu = gpu_here(p, i);
	uint64_t count = p->bytes / 8, base = 0, seed = SEED;
	uint32_t rank = i, zero = 0, one = 1, bytes = 8;
	void *params[] = { &p->gpus[i].from, &count, &base, &seed, &rank, &zero, &one, &zero, &bytes, &zero, &zero };

	return gpu_launch(gpu, KERNEL_PART_FILL, gpu->sm_count * BLOCKS_PER_SM, 1, BLOCK, params) ? -EIO
												  : gpu_wait(gpu);
}

int p2p_buffers(struct p2p *p)
{
	const struct cuda *cuda = &p->run->cuda;
	int err = 0;

	for (int i = 0; i < p->run->n_gpus && !err; i++) {
		struct stress_gpu *gpu = gpu_here(p, i);
		struct p2p_gpu *g = &p->gpus[i];

		err = gpu_alloc(gpu, p->bytes, &g->from);
		err = err ? err : gpu_alloc(gpu, p->bytes, &g->to);
		err = err ? err : gpu_alloc(gpu, (1 + 3 * WRONG_KEPT) * sizeof(uint64_t), &g->errors);
		for (int e = 0; e < 2 && !err; e++)
			err = gpu_try(gpu, cuda->event_create(&g->events[e], 0), "an event");
		err = err ? err : pattern_fill(p, i);
	}
	return err;
}

void p2p_buffers_free(struct p2p *p)
{
	const struct cuda *cuda = &p->run->cuda;

	for (int i = 0; i < p->run->n_gpus; i++) {
		struct p2p_gpu *g = &p->gpus[i];
		const cuda_ptr all[] = { g->from, g->to, g->errors };

		if (gpu_here(p, i)->lost)
			continue;
		for (int j = 0; j < 3; j++)
			if (all[j])
				cuda->free(all[j]);
		for (int e = 0; e < 2; e++)
			if (g->events[e])
				cuda->event_destroy(g->events[e]);
	}
}

/* Where the driver says that it can be; both ways. */
int p2p_enable(struct p2p *p)
{
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++) {
			struct stress_gpu *gpu = gpu_here(p, i);
			int error = 0;

			if (i == j || !p->links[i][j].direct)
				continue;
			error = p->run->cuda.peer_enable(p->run->gpus[j].context, 0);
			if (error != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && gpu_try(gpu, error, "peer access"))
				return -EIO;
		}
	return 0;
}

/* --- what is timed --- */

static int copies_enqueue(struct p2p *p, const struct flow *f, int n)
{
	struct stress_gpu *gpu = gpu_here(p, f->from), *other = &p->run->gpus[f->to];
	uint64_t count = p->bytes / 16;
	void *params[] = { &p->gpus[f->to].to, &p->gpus[f->from].from, &count };
	int err = 0;

	for (int i = 0; i < n && !err; i++)
		if (f->how == LINK_SM)
			err = gpu_launch(gpu, KERNEL_COPY, gpu->sm_count, 1, BLOCK_COPY, params);
		else
			err = gpu_try(gpu,
				      p->run->cuda.copy_peer(p->gpus[f->to].to, other->context, p->gpus[f->from].from,
							     gpu->context, p->bytes, gpu->stream),
				      "a copy to another GPU");
	return err;
}

static int chase_enqueue(struct p2p *p, const struct flow *f)
{
	uint64_t hops = HOPS;
	void *params[] = { &p->gpus[f->to].to, &hops, &p->gpus[f->from].errors };

	return gpu_launch(gpu_here(p, f->from), KERNEL_CHASE, 1, 1, 1, params);
}

/* Nothing begins before all is enqueued. Not where a copy goes through memory of the host: the driver moves it, and the
 * call itself would wait for the kernel that holds the stream. */
static int stream_hold(struct p2p *p, const struct flow *f)
{
	uint64_t flag = (uintptr_t)p->flag, hold_ns = HOLD_NS;
	void *params[] = { &flag, &hold_ns };

	if (f->how == LINK_OFF || !p->links[f->from][f->to].direct)
		return 0;
	return gpu_launch(gpu_here(p, f->from), KERNEL_SPIN, 1, 1, 1, params);
}

static int flow_enqueue(struct p2p *p, const struct flow *f)
{
	struct stress_gpu *gpu = gpu_here(p, f->from);
	const struct cuda *cuda = &p->run->cuda;
	struct p2p_gpu *g = &p->gpus[f->from];
	int err = stream_hold(p, f);

	err = err ? err : gpu_try(gpu, cuda->event_record(g->events[0], gpu->stream), "an event");
	if (!err)
		err = f->how == LINK_LATENCY ? chase_enqueue(p, f) : copies_enqueue(p, f, COPIES);
	return err ? err : gpu_try(gpu, cuda->event_record(g->events[1], gpu->stream), "an event");
}

/* All flows at once: their bandwidths added up, or the latency. NAN after a fault. */
static double flows_time(struct p2p *p, const struct flow *flows, int n)
{
	double sum = 0;
	int err = 0;

	*p->flag = 0;
	for (int i = 0; i < n && !err; i++)
		err = flow_enqueue(p, &flows[i]);
	*p->flag = 1;
	for (int i = 0; i < n && !err; i++) {
		struct stress_gpu *gpu = gpu_here(p, flows[i].from);
		struct p2p_gpu *g = &p->gpus[flows[i].from];
		float ms = 0;

		err = gpu_wait(gpu);
		err = err ? err : gpu_try(gpu, p->run->cuda.event_elapsed(&ms, g->events[0], g->events[1]), "a time");
		sum += flows[i].how == LINK_LATENCY ? ms * 1e6 / HOPS : ms > 0 ? COPIES * p->bytes / (ms * 1e6) : 0;
	}
	return err ? NAN : sum;
}

/* --- the data --- */

static int poison(struct p2p *p, int to)
{
	struct stress_gpu *gpu = gpu_here(p, to);
	const struct cuda *cuda = &p->run->cuda;
	int err = gpu_try(gpu, cuda->set_words(p->gpus[to].to, POISON, p->bytes / 4, gpu->stream), "a set of memory");

	err = err ? err : gpu_try(gpu, cuda->set_words(p->gpus[to].errors, 0, 2, gpu->stream), "a set of memory");
	return err ? err : gpu_wait(gpu);
}

/* What arrived from `from`: every word. */
static int arrived_check(struct p2p *p, const struct flow *f)
{
	struct stress_gpu *gpu = gpu_here(p, f->to);
	uint64_t count = p->bytes / 8, base = 0, seed = SEED, room = WRONG_KEPT, found[1 + 3 * WRONG_KEPT];
	uint32_t rank = f->from, one = 1, zero = 0, bytes = 8;
	void *params[] = { &p->gpus[f->to].to,
			   &count,
			   &count,
			   &base,
			   &seed,
			   &rank,
			   &one,
			   &zero,
			   &one,
			   &zero,
			   &bytes,
			   &zero,
			   &zero,
			   &p->gpus[f->to].errors,
			   &room };
	struct fault fault = { .kind = FAULT_CORRUPT, .gpu = f->to, .measure = -1 };
	int err = gpu_launch(gpu, KERNEL_PART_CHECK, gpu->sm_count * BLOCKS_PER_SM, 1, BLOCK, params);

	err = err ? err : gpu_wait(gpu);
	err = err ? err : gpu_try(gpu, p->run->cuda.to_host(found, p->gpus[f->to].errors, sizeof(found)), "a copy");
	if (err || !found[0])
		return err;
	snprintf(fault.text, sizeof(fault.text),
		 "link GPU %d to GPU %d, %s: %llu of %llu words arrived wrong; word %llu is 0x%llx in place of 0x%llx",
		 p->run->gpus[f->from].ordinal, gpu->ordinal, link_measure_names[f->how], (unsigned long long)found[0],
		 (unsigned long long)count, (unsigned long long)found[1], (unsigned long long)found[3],
		 (unsigned long long)found[2]);
	run_fault(p->run, &fault);
	return 0;
}

/* A walk through places of the other's memory in random order (Sattolo's cycle), each with the next one's address. */
static int chain_make(struct p2p *p, int to)
{
	uint32_t n = (p->bytes < CHAIN_BYTES ? p->bytes : CHAIN_BYTES) / CHAIN_STEP, words = CHAIN_STEP / 8;
	uint64_t *chain = calloc(n, CHAIN_STEP), state = SEED;
	uint32_t *order = calloc(n, sizeof(*order));
	int err;

	if (!chain || !order)
		abort();
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t j = (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33, other;

		j %= i;
		other = order[i];
		order[i] = order[j];
		order[j] = other;
	}
	for (uint32_t i = 0; i < n; i++)
		chain[(uint64_t)i * words] = p->gpus[to].to + (uint64_t)order[i] * CHAIN_STEP;
	err = gpu_put(gpu_here(p, to), p->gpus[to].to, chain, (size_t)n * CHAIN_STEP);
	free(chain);
	free(order);
	return err;
}

int p2p_link(struct p2p *p, int from, int to, enum link_measure measure, double *value)
{
	const struct flow flows[2] = { { from, to, measure }, { to, from, measure } };
	int n = measure == LINK_BOTH ? 2 : 1, err = 0;
	double turns[TURNS];

	for (int i = 0; i < n && !err; i++)
		err = measure == LINK_LATENCY ? chain_make(p, to) : poison(p, flows[i].to);
	for (int i = 0; i < n && !err && measure != LINK_LATENCY; i++) {
		err = copies_enqueue(p, &flows[i], WARM_UP);
		err = err ? err : gpu_wait(gpu_here(p, flows[i].from));
	}
	for (int i = 0; i < TURNS && !err; i++) {
		turns[i] = flows_time(p, flows, n);
		err = isnan(turns[i]) ? -EIO : 0;
	}
	if (err)
		return err;
	*value = values_median(turns, TURNS);
	for (int i = 0; i < n && !err && measure != LINK_LATENCY; i++)
		err = arrived_check(p, &flows[i]);
	return err;
}
