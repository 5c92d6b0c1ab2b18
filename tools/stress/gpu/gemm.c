/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - see gemm.h. Threads of all GPUs go through a window together and meet: when all are set up, when the
 * algorithm is chosen, when all have voted, and at the end, before results go that another may want to read.
 */
#include "tools/stress/gpu/gemm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/gpu/inject.h"
#include "tools/stress/threshold.h"

#define WARM_SHARE 0.2 /* of a window, not rated: clocks settle */
#define WARM_NS 1000000000ull

/* --- meetings: run by the last one for all --- */

void gemm_classes_reset(void *arg)
{
	struct stress_run *run = arg;

	for (int i = 0; i < run->n_gpus; i++) {
		struct gemm_class *class = &run->classes[i];

		for (int way = 0; way < N_WAYS; way++) {
			free(class->vote.reference[way]);
			free(class->vote.how[way]);
		}
		*class = (struct gemm_class){ 0 };
	}
	run->choices_settled = false;
}

static struct stress_gpu *class_first(struct stress_run *run, int class)
{
	for (int i = 0; i < run->n_gpus; i++)
		if (run->gpus[i].class == class && run->gemms[i] && !run->gpus[i].lost)
			return &run->gpus[i];
	return NULL;
}

static void choices_settle(void *arg)
{
	struct stress_run *run = arg;
	bool settled = true;

	for (int i = 0; i < run->n_gpus; i++)
		settled &= run->classes[i].chosen || run->classes[i].failed || !class_first(run, i);
	run->choices_settled = settled;
}

static void class_vote(struct stress_run *run, struct gemm_class *class, int of)
{
	struct vote *vote = &class->vote;
	uint32_t tiles;

	for (int i = 0; i < run->n_gpus; i++) {
		struct gemm *g = run->gemms[i];

		if (!g || run->gpus[i].class != of || !g->usable)
			continue;
		vote->side = g->side;
		vote->rotate = g->rotate;
		class->voters[vote->n] = i;
		for (int way = 0; way < N_WAYS; way++)
			vote->ballot[vote->n][way] = g->ballot[way];
		vote->n++;
	}
	tiles = vote->side * vote->side;
	for (int way = 0; way < N_WAYS && vote->n; way++) {
		vote->reference[way] = calloc(tiles, sizeof(uint64_t));
		vote->how[way] = calloc(tiles, 1);
		if (!vote->reference[way] || !vote->how[way])
			abort();
	}
	if (vote->n)
		vote_count(vote);
	if (vote->place_matters)
		run_note(run,
			 "%s: this algorithm's results depend on the place of a tile: a row computed by another "
			 "multiprocessor says nothing here",
			 numbers[run->measure_now].name);
}

static void votes_count(void *arg)
{
	struct stress_run *run = arg;

	for (int i = 0; i < run->n_gpus; i++)
		if (run->classes[i].chosen)
			class_vote(run, &run->classes[i], i);
}

/* --- batches --- */

/* The GEMMs of half a ring and their hashes; a fault on purpose lies between the two. */
static int batch_begin(struct gemm *g, int way)
{
	const struct cuda *cuda = &g->gpu->run->cuda;
	int err = gpu_try(g->gpu, cuda->event_record(g->begin[way], g->gpu->stream), "an event"), status = 0;

	for (uint32_t slot = 0; !err && !status && slot < g->half; slot++)
		status = gemm_enqueue(g, way, slot, &g->class->algo);
	if (status) {
		struct fault fault = { .kind = FAULT_LOST, .gpu = g->gpu->index, .measure = g->number_id };

		g->gpu->lost = true;
		snprintf(fault.text, sizeof(fault.text), "cublasLtMatmul: %s: the device is out of the test",
			 cublaslt_error_text(&g->gpu->run->lt, status));
		run_fault(g->gpu->run, &fault);
		return -EIO;
	}
	err = err ? err : gpu_try(g->gpu, cuda->event_record(g->end[way], g->gpu->stream), "an event");
	err = err ? err : inject_results(g, way);
	g->batches++;
	return err ? err : gemm_hash(g, way);
}

static int batch_rate(struct gemm *g, int way, bool rated)
{
	double flop = 2.0 * g->n * g->n * g->n * g->half;
	float ms = 0;
	int err = gpu_try(g->gpu, g->gpu->run->cuda.event_elapsed(&ms, g->begin[way], g->end[way]), "a time");

	if (err || ms <= 0)
		return err;
	g->gpu->rate_now = flop / ms * 1e-9;
	if (rated)
		series_add(&g->rates, flop / ms * 1e-9);
	return 0;
}

/* Half a ring that is computed: its rate, its hashes, the comparison. */
static int batch_end(struct gemm *g, int way, bool rated)
{
	int err = gemm_hashes_fetch(g, way);

	err = err ? err : batch_rate(g, way, rated);
	err = err ? err : gemm_check(g, way);
	g->gpu->checked[g->number_id] += err ? 0 : g->half;
	return err;
}

/* Products may take seconds each, and a test that is asked to end has two: asked between any two of them. -EINTR then.
 */
static int ballots_make(struct gemm *g)
{
	uint32_t tiles = g->side * g->side;
	int err = 0;

	for (int way = 0; !err && way < N_WAYS; way++) {
		if (run_stopping(g->gpu->run))
			return -EINTR;
		err = batch_begin(g, way);
		err = err ? err : gemm_hashes_fetch(g, way);
		for (uint32_t tile = 0; !err && tile < tiles; tile++)
			g->ballot[way][tile] = vote_own(g->host[way] + tile, g->half, tiles);
	}
	return err;
}

/* The first rated batch may come behind the window's end, where the set-up took all its time: there is a rate. */
static int burn(struct gemm *g)
{
	struct stress_run *run = g->gpu->run;
	uint64_t begin_ns = clock_monotonic_ns(), warm_ns = 0;
	int way = PLAIN, err = batch_begin(g, way);
	bool more = true;

	if (run->window_end_ns > begin_ns)
		warm_ns = (run->window_end_ns - begin_ns) * WARM_SHARE;
	warm_ns = warm_ns < WARM_NS ? warm_ns : WARM_NS;
	if (g->class->product_ns >= WARM_NS) /* the ballots took longer than clocks do to settle */
		warm_ns = 0;
	while (!err && more) {
		uint64_t now_ns = clock_monotonic_ns();

		more = (now_ns < run->window_end_ns || !g->rates.n) && !run_stopping(run);
		if (more)
			err = batch_begin(g, !way);
		err = err ? err : batch_end(g, way, now_ns - begin_ns >= warm_ns);
		way = !way;
	}
	return err;
}

/* --- the window --- */

static void window_note(struct gemm *g)
{
	struct stress_gpu *gpu = g->gpu;

	gpu->rate_now = 0;
	if (g->rates.n)
		run_window_take(gpu, g->number_id, series_median(&g->rates));
}

static bool window_prepare(struct gemm *g)
{
	struct stress_gpu *gpu = g->gpu;
	int err;

	if (gpu->cc < g->number->cc_min) {
		gpu->unsupported[g->number_id] = true;
		return false;
	}
	err = gemm_setup(g);
	if (err == -ENOMEM)
		gpu->impossible = true;
	if (err == -ENOTSUP)
		gpu->unsupported[g->number_id] = true;
	if (err)
		return false;
	gpu->run->gemms[gpu->index] = g;
	return true;
}

/* false: there is no algorithm, or the GPU is lost. */
static bool window_choose(struct gemm *g, bool ready)
{
	struct stress_run *run = g->gpu->run;

	do {
		if (ready && !g->class->chosen && !g->class->failed && class_first(run, g->gpu->class) == g->gpu)
			gemm_choose(g);
		if (g->gpu->lost)
			return false;
		crew_meet(&run->crew, choices_settle, run);
	} while (!run->choices_settled);
	if (ready && g->class->failed) {
		g->gpu->unsupported[g->number_id] = true;
		run_note(run, "%s", g->class->why);
	}
	if (!ready || !g->class->chosen)
		return false;
	gemm_batch_fit(g);
	return true;
}

static void window_run(struct gemm *g)
{
	struct stress_gpu *gpu = g->gpu;
	struct stress_run *run = gpu->run;
	bool ready = window_prepare(g);
	int err = 0;

	if (gpu->lost)
		return;
	crew_meet(&run->crew, gemm_classes_reset, run);
	if (ready)
		gemm_narrow_time(g);
	if (gpu->lost)
		return;
	crew_meet(&run->crew, gemm_classes_time, run);
	ready = window_choose(g, ready);
	if (gpu->lost)
		return;
	g->usable = ready && !ballots_make(g);
	ready = g->usable;
	if (gpu->lost)
		return;
	crew_meet(&run->crew, votes_count, run);
	if (ready) {
		err = gemm_checksum(g);
		for (int way = 0; !err && way < N_WAYS; way++)
			err = gemm_check(g, way);
		err = err ? err : gemm_open_tiles(g);
		if (!err && !run_stopping(run))
			burn(g);
		window_note(g);
	}
	if (!gpu->lost)
		crew_meet(&run->crew, NULL, NULL);
}

void gemm_window(struct stress_gpu *gpu, int number_id)
{
	struct gemm *g = calloc(1, sizeof(*g));

	if (!g)
		abort();
	g->gpu = gpu;
	g->number_id = number_id;
	g->number = &numbers[number_id];
	g->class = &gpu->run->classes[gpu->class];
	window_run(g);
	gpu->work_ns = 0;
	pthread_mutex_lock(&gpu->run->lock);
	gpu->run->gemms[gpu->index] = NULL;
	pthread_mutex_unlock(&gpu->run->lock);
	gemm_release(g);
	free(g);
}
