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
#include "tools/stress/stress.h"

#define BYTES_DEFAULT (512ull << 20)

static void links_find(struct p2p *p)
{
	const struct cuda *cuda = &p->run->cuda;
	int n = p->run->n_gpus, can;

	for (int i = 0; i < n * n; i++) {
		struct link *l = &p->links[i / n][i % n];
		int from = p->run->gpus[i / n].device, to = p->run->gpus[i % n].device;

		l->direct = i / n != i % n && !cuda->can_access(&can, from, to) && can;
		if (!cuda->peer_attribute || i / n == i % n ||
		    cuda->peer_attribute(&l->rank, CU_PEER_PERFORMANCE_RANK, from, to))
			l->rank = 0;
	}
}

static int measure_all(struct p2p *p, enum link_measure measure)
{
	int n = p->run->n_gpus, err = 0;

	for (int i = 0; i < n * n && !err && !run_stopping(p->run); i++) {
		int from = i / n, to = i % n;

		if (from == to || (measure >= LINK_SM && !p->links[from][to].direct))
			continue;
		if (measure == LINK_BOTH && from > to) /* one value for both */
			p->links[from][to].rates[measure] = p->links[to][from].rates[measure];
		else
			err = p2p_link(p, from, to, measure);
	}
	return err;
}

static int all_measure(struct p2p *p)
{
	int err = p2p_buffers(p);

	for (int m = 0; m < N_LINK_MEASURES && !err; m++) {
		if (m == LINK_COPY)
			err = p2p_enable(p);
		if (p->mode == REPORT_PLAIN)
			printf("%8.1f s  %s\n", run_elapsed_s(p->run), link_measure_names[m]);
		fflush(stdout);
		err = err ? err : measure_all(p, m);
	}
	for (int i = 0; i < p->run->n_gpus && !err && !run_stopping(p->run); i++)
		err = p2p_host(p, i);
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
	else if (p->run->stopped)
		snprintf(result->why, sizeof(result->why), "stopped before everything had its turn: no verdict");
	return result->why[0] ? STRESS_IMPOSSIBLE : STRESS_PASSED;
}

static void result_fill(struct stress_result *result, const struct stress_run *run)
{
	result->n_gpus = run->n_gpus;
	for (int i = 0; i < run->n_gpus; i++)
		result->ordinals[i] = run->gpus[i].ordinal;
	result->n_faults = run->n_faults < STRESS_FAULTS_MAX ? run->n_faults : STRESS_FAULTS_MAX;
	memcpy(result->faults, run->faults, result->n_faults * sizeof(result->faults[0]));
}

static int test_run(struct p2p *p, struct stress_result *result)
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
	links_find(p);
	p2p_nodes_find(p);
	err = all_measure(p);
	*p->flag = 1; /* what still waits may go on */
	health_stop(&health);
	if (!p->run->stopped && !err)
		p2p_judge(p);
	p2p_buffers_free(p);
	status = status_of(p, err, result);
	if (err != -ENOMEM)
		p2p_report(p, status, result->partial);
	result_fill(result, p->run);
	return status;
}

int stress_p2p(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct report report = { .mode = mode == REPORT_TERMINAL ? REPORT_PLAIN : mode };
	struct stress_options mine = *options;
	struct p2p *p = calloc(1, sizeof(*p));
	int status;

	if (!p || !(p->run = calloc(1, sizeof(*p->run))))
		abort();
	memset(result, 0, sizeof(*result));
	mine.measures = 0; /* no library for products */
	p->mode = report.mode;
	p->run->report = &report;
	p->bytes = options->p2p_bytes ? options->p2p_bytes : BYTES_DEFAULT;
	status = run_open(p->run, &mine, result->why);
	if (!status && p->run->n_gpus < 2) {
		snprintf(result->why, sizeof(result->why),
			 "there is no link to test: %d GPU under test on this host: at least two", p->run->n_gpus);
		status = STRESS_IMPOSSIBLE;
	}
	if (!status) {
		p->run->cuda.context_set(p->run->gpus[0].context);
		status = test_run(p, result);
	}
	run_close(p->run);
	free(p->run);
	free(p);
	return status;
}
