/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_p2p.c - `stress p2p`: each link between two GPUs by each measure, then each GPU with the host, then the
 * judgement. One link at a time, so that each has the machine for itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/health.h"
#include "tools/stress/p2p/p2p.h"
#include "tools/stress/series.h"
#include "tools/stress/stress.h"
#include "tools/stress/threshold.h"

#define BYTES_DEFAULT (512ull << 20)

/* --inject: the driver says that it gives no peer access there. */
static bool peer_is_off(const struct stress_run *run, int from, int to)
{
	const struct inject *inject = &run->options->inject;

	return inject->kind == INJECT_NO_PEER && run->gpus[from].ordinal == inject->gpu &&
	       run->gpus[to].ordinal == inject->to;
}

static void links_find(struct p2p *p)
{
	const struct cuda *cuda = &p->run->cuda;
	int n = p->run->n_gpus, can;

	for (int i = 0; i < n * n; i++) {
		struct link *l = &p->links[i / n][i % n];
		int from = p->run->gpus[i / n].device, to = p->run->gpus[i % n].device;

		l->direct = i / n != i % n && !cuda->can_access(&can, from, to) && can &&
			    !peer_is_off(p->run, i / n, i % n);
		if (!cuda->peer_attribute || i / n == i % n ||
		    cuda->peer_attribute(&l->rank, CU_PEER_PERFORMANCE_RANK, from, to))
			l->rank = 0;
	}
}

static void rate_add(struct link_rate *rate, double value)
{
	double *more = realloc(rate->values, (rate->n + 1) * sizeof(*more));

	if (!more)
		abort();
	rate->values = more;
	rate->values[rate->n++] = value;
	rate->judged.n_rounds = rate->n;
	rate->judged.value = values_median(rate->values, rate->n);
	rate->judged.measured = rate->judged.value > 0;
}

static int measure_all(struct p2p *p, enum link_measure measure)
{
	int n = p->run->n_gpus, err = 0;
	double value;

	for (int i = 0; i < n * n && !err && !run_stopping(p->run); i++) {
		int from = i / n, to = i % n;

		if (from == to || (measure >= LINK_SM && !p->links[from][to].direct))
			continue;
		if (measure == LINK_BOTH && from > to) { /* one value for both */
			p->links[from][to].rates[measure].judged = p->links[to][from].rates[measure].judged;
			continue;
		}
		err = p2p_link(p, from, to, measure, &value);
		if (!err)
			rate_add(&p->links[from][to].rates[measure], value);
	}
	return err;
}

static void rates_free(struct p2p *p)
{
	for (int i = 0; i < STRESS_GPUS_MAX; i++) {
		for (int j = 0; j < STRESS_GPUS_MAX * N_LINK_MEASURES; j++)
			free(p->links[i][j / N_LINK_MEASURES].rates[j % N_LINK_MEASURES].values);
		for (int j = 0; j < NODES_MAX * N_WAYS_HOST; j++)
			free(p->gpus[i].host[j / N_WAYS_HOST][j % N_WAYS_HOST].values);
	}
}

static int host_measure(struct p2p *p, int gpu)
{
	struct host_values values;
	int err = p2p_host(p, gpu, &values);

	for (int i = 0; i < p->n_nodes * N_WAYS_HOST && !err; i++)
		rate_add(&p->gpus[gpu].host[i / N_WAYS_HOST][i % N_WAYS_HOST],
			 values.of[i / N_WAYS_HOST][i % N_WAYS_HOST]);
	return err;
}

static int round_measure(struct p2p *p)
{
	int err = 0;

	/* peer access stays on once it is: what is measured without it has one round */
	for (int m = p->rounds ? LINK_COPY : LINK_OFF; m < N_LINK_MEASURES && !err; m++) {
		if (m == LINK_COPY && !p->rounds)
			err = p2p_enable(p);
		if (p->mode == REPORT_PLAIN)
			printf("%8.1f s  %s\n", run_elapsed_s(p->run), link_measure_names[m]);
		fflush(stdout);
		err = err ? err : measure_all(p, m);
	}
	for (int i = 0; i < p->run->n_gpus && !err && !run_stopping(p->run); i++)
		err = host_measure(p, i);
	return err;
}

/* Once, or for as long as --time says: rounds, each of all links. */
static int all_measure(struct p2p *p)
{
	uint64_t end_ns = p->run->begin_ns + p->run->options->time_ns;
	int err = p2p_buffers(p);

	do {
		err = err ? err : round_measure(p);
		p->rounds += !err && !p->run->stopped;
	} while (!err && !run_stopping(p->run) && p->run->options->time_ns && clock_monotonic_ns() < end_ns);
	return err;
}

static int status_of(struct p2p *p, int err, struct stress_result *result)
{
	if (p->run->stopped)
		snprintf(result->partial, sizeof(result->partial), "stopped by a signal after %.0f s",
			 run_elapsed_s(p->run));
	else if (err == -EIO)
		snprintf(result->partial, sizeof(result->partial), "it ended with the GPU that failed");
	if (p->run->n_faults_all)
		return STRESS_FAILED;
	if (err == -ENOMEM)
		snprintf(result->why, sizeof(result->why),
			 "memory: a GPU has no room for two buffers of %llu bytes: a smaller --bytes",
			 (unsigned long long)p->bytes);
	else if (p->run->stopped && !p->rounds)
		snprintf(result->why, sizeof(result->why), "stopped before everything had its turn: no verdict");
	else if (p->not_judged[0])
		snprintf(result->why, sizeof(result->why), "%s", p->not_judged);
	return result->why[0] ? STRESS_IMPOSSIBLE : STRESS_PASSED;
}

/* Of a run that passed only. */
static int baseline_save(struct p2p *p, int status, char why[LIBRARY_WHY])
{
	int err = status ? 0 : p2p_baseline_write(p->run->options->save_baseline, p);

	if (status)
		run_note(p->run, "--save-baseline: not written, as not all passed");
	if (!err)
		return status;
	snprintf(why, LIBRARY_WHY, "--save-baseline: %.200s: %s", p->run->options->save_baseline, strerror(-err));
	return STRESS_USAGE;
}

static int test_run(struct p2p *p, const struct baseline *baseline, struct stress_result *result)
{
	struct health_thread health;
	int err, status;

	p->run->measure_now = -1;
	if (p->run->cuda.host_alloc((void **)&p->flag, sizeof(*p->flag), CU_HOST_ALLOC_PORTABLE)) {
		snprintf(result->why, sizeof(result->why), "no pinned memory of the host: raise the limit (ulimit -l)");
		return STRESS_IMPOSSIBLE;
	}
	if (health_start(&health, p->run, result->why))
		return STRESS_IMPOSSIBLE;
	p2p_report_begin(p);
	links_find(p);
	p2p_nodes_find(p);
	p2p_board_look(p);
	p2p_ways_find(p);
	err = all_measure(p);
	if (p->rounds && !err)
		err = p2p_again(p, baseline);
	*p->flag = 1; /* what still waits may go on */
	health_stop(&health);
	if (p->rounds && !err)
		p2p_judge(p);
	p2p_buffers_free(p);
	status = status_of(p, err, result);
	if (p->run->options->save_baseline)
		status = baseline_save(p, status, result->why);
	if (err != -ENOMEM)
		p2p_report(p, status, result->partial);
	stress_result_fill(result, p->run);
	return status;
}

int stress_p2p(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct report report = { .mode = mode == REPORT_TERMINAL ? REPORT_PLAIN : mode };
	struct stress_options mine = *options;
	struct p2p *p = calloc(1, sizeof(*p));
	struct baseline *baseline = NULL;
	int status;

	if (!p || !(p->run = calloc(1, sizeof(*p->run))))
		abort();
	memset(result, 0, sizeof(*result));
	mine.measures = 0; /* no library for products */
	p->mode = report.mode;
	p->run->report = &report;
	p->bytes = options->p2p_bytes ? options->p2p_bytes : BYTES_DEFAULT;
	status = baseline_open(options, &baseline, result->why);
	status = status ? status : run_open(p->run, &mine, result->why);
	if (!status && p->run->n_gpus < 2) {
		snprintf(result->why, sizeof(result->why),
			 "there is no link to test: %d GPU under test on this host: at least two", p->run->n_gpus);
		status = STRESS_IMPOSSIBLE;
	}
	if (!status) {
		p->run->cuda.context_set(p->run->gpus[0].context);
		status = test_run(p, baseline, result);
	}
	run_close(p->run);
	baseline_free(baseline);
	rates_free(p);
	free(p->run);
	free(p);
	return status;
}
