/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hours.c - hours of a healthy job's life in seconds (life_job.h), drawn from SEED; every hour or two another job,
 * by the length of its steps. Nothing critical may be said; of a call site, whose stack is read half a second after a
 * finding names it, one warning.
 *
 *     test_hours [HOURS]     3; with LONG=1 in the environment 200
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/life/life_job.h"

#define HOUR_S 3600.0
#define N_SITES 16
#define N_KNOWN 64
#define STEP_WARNINGS_MAX 8 /* ranks of a job whose steps nobody knows yet; of all its jobs */
#define WARNINGS_MAX 2      /* of a site: one; and one more where the first was over before its stack was read */

static struct site_count {
	const char *name;
	int n_phases, n_warnings;
} sites[N_SITES];
static int n_critical, n_infos, n_known;
static uint64_t known[N_KNOWN];

static struct site_count *site_of(const char *name)
{
	int i = 0;

	while (sites[i].name && strcmp(sites[i].name, name))
		i++;
	sites[i].name = name;
	return &sites[i];
}

static bool is_new(uint64_t key)
{
	for (int i = 0; i < n_known && i < N_KNOWN; i++)
		if (known[i] == key)
			return false;
	known[n_known++ % N_KNOWN] = key;
	return true;
}

static void finding_print(const struct life *l, const struct finding *f, const char *site)
{
	printf("  %.1f s: %s/%s %s rank %d at %s, waited %.1f s\n", (l->now - JOB_T0) / 1e9, finding_kind_name(f->kind),
	       hang_class_name(f->class), f->severity == SEVERITY_CRITICAL ? "critical" : "warning",
	       f->n_ranks ? f->ranks[0] : -1, site, (l->now - f->since_ns) / 1e9);
}

static void findings_read(struct life *l)
{
	for (size_t i = 0; i < l->list.n; i++) {
		const struct finding *f = &l->list.items[i];
		const struct life_rank *r = &l->ranks[f->n_ranks ? f->ranks[0] : 0];
		const char *site = r->site ? r->site : "step";

		if (r->site)
			life_stack(l, r);
		if (f->severity == SEVERITY_INFO || !is_new(f->key ^ (uint64_t)f->severity << 60)) {
			n_infos += f->severity == SEVERITY_INFO;
			continue;
		}
		n_critical += f->severity == SEVERITY_CRITICAL;
		site_of(site)->n_warnings += f->severity != SEVERITY_CRITICAL;
		if (f->severity == SEVERITY_CRITICAL || getenv("SHOW"))
			finding_print(l, f, site);
	}
}

static void phase_count(struct life *l, const char *site)
{
	(void)l;
	site_of(site)->n_phases++;
}

static void life_play(struct life *l, double hours)
{
	static const double lengths[] = { 0.05, 0.24, 0.5, 1, 3, 12, 16, 60, 120 };
	uint64_t end = l->now + (uint64_t)(hours * HOUR_S * SEC), job_end = 0;

	while (l->now < end) {
		if (l->now >= job_end) {
			life_job_begin(l, lengths[random_next(&l->rng) % 9]);
			job_end = l->now + (uint64_t)(life_between(l, 0.5, 3) * HOUR_S * SEC);
			life_steps(l);
		}
		life_phase(l);
		life_steps(l); /* that it is over is seen */
	}
}

int main(int argc, char **argv)
{
	double hours = argc > 1 ? atof(argv[1]) : getenv("LONG") && *getenv("LONG") ? 200 : 3;
	struct life l = { .said = findings_read, .phase_begins = phase_count };
	int n_often = 0;

	life_begin(&l, test_seed());
	life_play(&l, hours);
	life_end(&l);
	printf("%.0f hours: %d critical, %d ticks with something to know\n", hours, n_critical, n_infos);
	for (int i = 0; sites[i].name; i++) {
		printf("  %-28s %4d phases, %d warnings\n", sites[i].name, sites[i].n_phases, sites[i].n_warnings);
		n_often += sites[i].n_warnings > (strcmp(sites[i].name, "step") ? WARNINGS_MAX : STEP_WARNINGS_MAX);
	}
	return n_critical || n_often;
}
