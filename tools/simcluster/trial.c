/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - see trial.h. A trial is a child process: the warmed-up hub is copied as it is written to, and no trial
 * knows of another.
 */
#include "tools/simcluster/trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "tools/simcluster/baseline.h"

#define BASELINE_S 5.0     /* so long after the first wait the quick ones are asked */
#define SAID_EVERY_S 300.0 /* of a life: one that is ended early counts as far as it went */

/* --- lines --- */

static void number_print(FILE *to, const char *name, double v)
{
	if (isfinite(v))
		fprintf(to, ",\"%s\":%.3f", name, v);
}

static void verdict_print(FILE *to, const struct verdict *v, double from_s)
{
	fprintf(to, "{\"kind\":\"%s\",\"class\":\"%s\",\"cause\":\"%s\",\"severity\":\"%s\",\"ranks\":[",
		finding_kind_name(v->kind), hang_class_name(v->class), cause_name(v->cause), severity_name(v->worst));
	for (int i = 0; i < v->n_ranks; i++)
		fprintf(to, "%s%d", i ? "," : "", v->ranks[i]);
	fprintf(to, "],\"n_ranks\":%d,\"confidence\":%.2f,\"caused\":%s", v->n_ranks_all, v->confidence,
		*v->caused_by ? "true" : "false");
	number_print(to, "open_s", v->open_s - from_s);
	number_print(to, "warned_s", v->warned_s - from_s);
	number_print(to, "critical_s", v->critical_s - from_s);
	number_print(to, "closed_s", v->closed_s - from_s);
	fputc('}', to);
}

static void words_print(FILE *to, const struct baseline_word *words)
{
	fputs(",\"baselines\":{", to);
	for (int b = 0; b < BASELINE_COUNT; b++) {
		fprintf(to, "%s\"%s\":{\"after_s\":%.0f,\"ranks\":[", b ? "," : "", baseline_name(b),
			baseline_after_s(b));
		for (int i = 0; i < BASELINE_RANKS && words[b].ranks[i] >= 0; i++)
			fprintf(to, "%s%d", i ? "," : "", words[b].ranks[i]);
		fputs("]}", to);
	}
	fputc('}', to);
}

/* What ordinary life has beside the fault: who names such a rank is right. */
static void stalls_print(FILE *to, const struct life *l, double from_s)
{
	unsigned long first = l->stalls > STALLS_KEPT ? l->stalls - STALLS_KEPT : 0;

	fputs(",\"stalls\":[", to);
	for (unsigned long i = first; i < l->stalls; i++) {
		const struct life_stall *one = &l->stalled[i % STALLS_KEPT];

		fprintf(to, "%s{\"rank\":%d,\"begin_s\":%.3f,\"s\":%.3f}", i > first ? "," : "", one->rank,
			one->begin_s - from_s, one->s);
	}
	fputc(']', to);
}

static void trial_print(FILE *to, const struct run *r, const struct trials *t, int nth, size_t before,
			const struct baseline_word *words)
{
	const struct fault *f = &r->fault;
	double from_s = isfinite(f->first_s) ? f->first_s : f->begin_s;
	size_t n, said = 0;
	const struct verdict *v = judge_verdicts(r->judge, &n);

	fprintf(to, "{\"trial\":%d,\"seed\":%llu,\"fault\":\"%s\",\"severity\":%.3f,\"rank\":%d,\"rank2\":%d,\"op\":%d",
		nth, (unsigned long long)t->seed, fault_name(f->kind), f->severity, f->rank, f->rank2, f->op);
	fprintf(to, ",\"waits\":%s,\"step_s\":%.3f,\"watched_s\":%.1f,\"verdicts\":[",
		isfinite(f->first_s) ? "true" : "false", r->cluster.shape.step_s, r->now_s - from_s);
	for (size_t i = before; i < n; i++) {
		fputs(said++ ? "," : "", to);
		verdict_print(to, &v[i], from_s);
	}
	fputc(']', to);
	stalls_print(to, &r->life, from_s);
	words_print(to, words);
	fputs("}\n", to);
}

/* --- one trial --- */

static int trial_go_on(struct run *r, const struct trials *t, struct baseline_word *words)
{
	double until_s = r->now_s + t->watch_s + 2 * r->cluster.shape.step_s;
	int err = 0;

	while (!err && !r->fault.struck && r->now_s < until_s)
		err = run_until(r, r->now_s + 0.1);
	if (isfinite(r->fault.first_s)) {
		err = err ? err : run_until(r, r->fault.first_s + BASELINE_S);
		err = err ? err : baselines_ask(r->judge, r->cluster.n_hosts, t->skew_s, &r->draw, words);
		until_s = r->fault.first_s + t->watch_s;
	}
	return err ? err : run_until(r, until_s);
}

static int trial_run(struct run *r, const struct trials *t, enum fault_kind kind, int nth)
{
	struct baseline_word words[BASELINE_COUNT];
	uint64_t seed = hash_mix(hash_mix(t->seed, (uint64_t)kind), (uint64_t)nth);
	size_t before;
	int err;

	memset(words, 0xff, sizeof(words));
	r->draw.state = hash_mix(seed, 1);
	r->cluster.noise.state = hash_mix(seed, 2);
	r->life.draw.state = hash_mix(seed, 3);
	agents_reseed(r->agents, hash_mix(seed, 4));
	judge_verdicts(r->judge, &before);
	fault_draw(&r->fault, kind, t->severity, &r->cluster, &r->draw);
	err = run_until(r, r->now_s + draw_unit(&r->draw) * r->cluster.shape.step_s);
	r->armed = true;
	err = err ? err : trial_go_on(r, t, words);
	if (!err)
		trial_print(stdout, r, t, nth, before, words);
	return err;
}

/* --- all of them --- */

static int trial_wait(int *running)
{
	int status = 0;

	if (wait(&status) < 0)
		return -errno;
	--*running;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

static int trial_fork(struct run *r, const struct trials *t, int nth, int *running)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		int err = trial_run(r, t, t->kinds[nth / t->n], nth % t->n);

		fflush(stdout);
		_exit(err ? 1 : 0);
	}
	++*running;
	return 0;
}

int trials_run(struct run *r, const struct trials *t)
{
	int running = 0, err = 0, one;

	for (int i = 0; i < t->n_kinds * t->n && !err; i++) {
		while (running >= t->jobs && !err)
			err = trial_wait(&running);
		err = err ? err : trial_fork(r, t, i, &running);
	}
	while (running) {
		one = trial_wait(&running);
		err = err ? err : one;
	}
	return err;
}

/* --- ordinary life --- */

static void sums_print(const struct run *r, double from_s)
{
	const struct life *l = &r->life;
	double messages_s, ticks_s, longest_s;
	uint64_t bytes, n, lost;
	struct rusage used;

	judge_cost(r->judge, &messages_s, &ticks_s, &longest_s);
	agents_totals(r->agents, &bytes, &n, &lost);
	getrusage(RUSAGE_SELF, &used);
	printf("{\"life\":true,\"ranks\":%d,\"simulated_s\":%.0f,\"rate\":%.1f", r->cluster.n_ranks, r->now_s - from_s,
	       l->rate);
	printf(",\"checkpoints\":%lu,\"evaluations\":%lu,\"stalls\":%lu,\"restarts\":%lu,\"garbage\":%lu,\"logs\":%lu",
	       l->checkpoints, l->evaluations, l->stalls, l->restarts, l->garbage, l->logs);
	printf(",\"traffic\":%lu,\"sequences\":%lu,\"heavy_stage\":%s", l->traffic, l->sequences,
	       r->cluster.shape.last_stage_factor >= HEAVY_STAGE ? "true" : "false");
	printf(",\"messages\":%llu,\"lost\":%llu,\"bytes\":%llu", (unsigned long long)n, (unsigned long long)lost,
	       (unsigned long long)bytes);
	printf(",\"hub_messages_s\":%.2f,\"hub_ticks_s\":%.2f,\"longest_tick_s\":%.4f,\"rss_mb\":%.0f}\n", messages_s,
	       ticks_s, longest_s, (double)used.ru_maxrss / 1024);
}

/* Those that were open since then; one that changed is said again, by its number. */
static void verdicts_print(const struct judge *j, double since_s)
{
	size_t n;
	const struct verdict *v = judge_verdicts(j, &n);

	for (size_t i = 0; i < n; i++) {
		if (v[i].closed_s < since_s)
			continue;
		printf("{\"number\":%llu,\"verdict\":", (unsigned long long)v[i].number);
		verdict_print(stdout, &v[i], 0);
		fputs("}\n", stdout);
	}
}

int life_run(struct run *r, double for_s)
{
	double from_s = r->now_s, since_s = from_s;
	int err = 0;

	while (r->now_s < from_s + for_s && !err) {
		err = run_until(r, fmin(r->now_s + SAID_EVERY_S, from_s + for_s));
		verdicts_print(r->judge, since_s);
		sums_print(r, from_s);
		fflush(stdout);
		since_s = r->now_s;
	}
	return err;
}
