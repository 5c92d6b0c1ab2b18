/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_choose.c - the algorithm of a window: the fastest of those that the library proposes, chosen on one GPU and
 * given to all, without split sums, so that equal GPUs give equal bits (cuBLAS' notes on reproducibility: same version,
 * same architecture and number of multiprocessors, own workspace). And how many products make a batch: of a GPU with
 * slow fp64 one takes many seconds, which is no stall.
 */
#include <stdio.h>

#include "base/clock.h"
#include "tools/stress/gpu/gemm.h"
#include "tools/stress/threshold.h"

#define CHOICES_MAX 8
#define TRIALS 5                  /* of a choice; the first of several is not timed */
#define TRIALS_NS 250000000ull    /* of a choice: fewer where a product takes longer */
#define CHOOSE_NS 2000000000ull   /* of all choices; the library has the best first */
#define BATCH_NS 1000000000ull    /* of a batch, if it has more than one product */
#define NARROW 16                 /* a product of that part of B's columns is timed before a whole one */
#define COLUMNS_OF 16             /* int8 and fp8 take multiples of it */
#define PRODUCTS_MIN (N_WAYS + 1) /* that a window has to hold: a ballot of each way, and one for the rate */

static bool splits_sums(const struct cublaslt *lt, const struct cublaslt_algo *algo)
{
	int32_t splits = 1;
	size_t written;

	return lt->algo_get && !lt->algo_get(algo, CUBLASLT_ALGO_SPLITK_NUM, &splits, sizeof(splits), &written) &&
	       splits > 1;
}

/* Milliseconds of a product, by n of them; 0: it cannot run. -EIO: the device is lost. */
static int trial(struct gemm *g, const struct cublaslt_algo *algo, int n, float *ms)
{
	const struct cuda *cuda = &g->gpu->run->cuda;
	int timed = n > 1 ? n - 1 : 1, status = n > 1 ? gemm_enqueue(g, PLAIN, 0, algo) : 0, err;

	*ms = 0;
	if (status)
		return gpu_wait(g->gpu);
	err = gpu_try(g->gpu, cuda->event_record(g->begin[PLAIN], g->gpu->stream), "an event");
	for (int i = 0; !err && !status && i < timed; i++)
		status = gemm_enqueue(g, PLAIN, 0, algo);
	err = err ? err : gpu_try(g->gpu, cuda->event_record(g->end[PLAIN], g->gpu->stream), "an event");
	err = err ? err : gpu_wait(g->gpu);
	if (!err && !status)
		err = gpu_try(g->gpu, cuda->event_elapsed(ms, g->begin[PLAIN], g->end[PLAIN]), "a time");
	*ms /= timed;
	return err;
}

/* What the library proposes for the layouts as they are; its status. */
static int choices_get(const struct gemm *g, struct cublaslt_choice *choices, int room, int *n)
{
	*n = 0;
	return g->gpu->run->lt.heuristic(g->lt, g->desc, g->layout_a, g->layout_b, g->layout_c, g->layout_c, g->pref,
					 room, choices, n);
}

/* A product of a part of B's columns, with layouts of its own. */
void gemm_narrow_time(struct gemm *g)
{
	const struct cublaslt *lt = &g->gpu->run->lt;
	uint32_t columns = (g->n / NARROW + COLUMNS_OF - 1) / COLUMNS_OF * COLUMNS_OF;
	cublaslt_handle b = g->layout_b, c = g->layout_c, narrow[2] = { 0 };
	struct cublaslt_choice choice;
	int n = 0, status = lt->layout_create(&narrow[0], g->number->type, g->n, columns, g->n);
	float ms = 0;

	status = status ? status : lt->layout_create(&narrow[1], g->number->c_type, g->n, columns, g->n);
	g->layout_b = narrow[0];
	g->layout_c = narrow[1];
	if (!status && !choices_get(g, &choice, 1, &n) && n && !choice.state && trial(g, &choice.algo, 2, &ms))
		ms = 0; /* it is lost */
	g->narrow_ns = (uint64_t)(ms * 1e6) * g->n / columns;
	g->layout_b = b;
	g->layout_c = c;
	for (int i = 0; i < 2; i++)
		if (narrow[i])
			lt->layout_destroy(narrow[i]);
}

void gemm_classes_time(void *arg)
{
	struct stress_run *run = arg;

	for (int i = 0; i < run->n_gpus; i++) {
		const struct gemm *g = run->gemms[i];

		if (g && g->narrow_ns && (!g->class->product_ns || g->narrow_ns < g->class->product_ns))
			g->class->product_ns = g->narrow_ns;
	}
}

static int trials_of(uint64_t product_ns)
{
	uint64_t n = product_ns ? TRIALS_NS / product_ns : TRIALS;

	return n < 1 ? 1 : n < TRIALS ? (int)n : TRIALS;
}

/* A type with a row is measured at any speed: one that is as slow as that on all GPUs of a kind is a fault of them. */
bool gemm_is_left_out(const struct stress_gpu *gpu, int number_id, uint64_t product_ns)
{
	const struct stress_run *run = gpu->run;

	return run->options->all.quick && !run->again && PRODUCTS_MIN * product_ns > run->window_ns &&
	       !threshold_find(gpu->name, measure_name(number_id), gpu->health.limit_w, run->options->size);
}

/* `stress all --quick` has to end in time, and says what it left out. */
static bool left_out(struct gemm *g)
{
	double product_s = g->class->product_ns * 1e-9;

	if (!gemm_is_left_out(g->gpu, g->number_id, g->class->product_ns))
		return false;
	g->class->failed = true;
	snprintf(g->class->why, sizeof(g->class->why),
		 "%s: left out, as a product of %u takes %.2g s on %s, too long for --quick: ranktrace stress gpu "
		 "--only %s measures it",
		 g->number->name, g->n, product_s, g->gpu->name, g->number->name);
	return true;
}

static int choices_try(struct gemm *g, const struct cublaslt_choice *choices, int n)
{
	uint64_t begin_ns = clock_monotonic_ns();
	struct stress_run *run = g->gpu->run;
	int trials = trials_of(g->class->product_ns), err = 0;
	float best = 0, ms;

	g->gpu->work_ns = trials * g->class->product_ns;
	for (int i = 0; i < n; i++) {
		if (best > 0 && (clock_monotonic_ns() - begin_ns >= CHOOSE_NS || run_stopping(run)))
			break;
		if (choices[i].state || splits_sums(&run->lt, &choices[i].algo))
			continue;
		err = trial(g, &choices[i].algo, trials, &ms);
		if (err)
			return err;
		if (ms > 0 && (best == 0 || ms < best)) {
			best = ms;
			g->class->algo = choices[i].algo;
		}
	}
	g->class->product_ns = best * 1e6;
	g->class->chosen = best > 0;
	return 0;
}

void gemm_choose(struct gemm *g)
{
	struct cublaslt_choice choices[CHOICES_MAX];
	int n, status;

	if (left_out(g))
		return;
	status = choices_get(g, choices, CHOICES_MAX, &n);
	if (choices_try(g, choices, status ? 0 : n))
		return;
	g->class->failed = !g->class->chosen;
	if (g->class->failed)
		snprintf(g->class->why, sizeof(g->class->why), "%s: cuBLASLt has no algorithm for it on %s: %s",
			 g->number->name, g->gpu->name,
			 cublaslt_error_text(&g->gpu->run->lt, status ? status : CUBLAS_NOT_SUPPORTED));
}

void gemm_batch_fit(struct gemm *g)
{
	uint64_t product_ns = g->class->product_ns;

	while (g->half > 1 && g->half * product_ns > BATCH_NS)
		g->half--;
	g->gpu->work_ns = N_WAYS * g->half * product_ns;
}
