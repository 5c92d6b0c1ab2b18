// SPDX-License-Identifier: Apache-2.0
/*
 * The schedule: at each step at most one phase. A phase comes every so many steps, as a checkpoint does, from a first
 * one that is drawn; its length is drawn anew each time, short ones as likely as long ones (log-uniform).
 */
#include "tools/simjob/life/life.h"

#include "tools/simjob/faults/faults.h"
#include "tools/simjob/job/injection.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LENGTHS 0.3 /* sequences of a replica's batch are up to that much longer or shorter */

const struct life_phase *const life_phases[] = {
#define LIFE_PHASE(ID) &life_##ID,
#include "tools/simjob/life/phases.def"
#undef LIFE_PHASE
};
const int nr_life_phases = sizeof(life_phases) / sizeof(life_phases[0]);

/* Ranks that share a process live without what a process or a thread of their own is needed for. */
static bool is_possible(const struct options *options, const struct life_phase *phase)
{
	return (options->ranks_per_process == 1 || !phase->ends_process) &&
	       (options->threads != THREADS_ONE || !phase->waits_alone);
}

/* --life=checkpoint,abort: names between commas. */
static bool is_named(const struct options *options, const struct life_phase *phase)
{
	const char *at = options->life ? options->life : "";
	size_t length = strlen(phase->name);

	if (!*at)
		return true;
	for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		if (!strncmp(at, phase->name, length) && (at[length] == ',' || !at[length]))
			return true;
	}
	return false;
}

static bool is_chosen(const struct options *options, const struct life_phase *phase)
{
	return is_possible(options, phase) && is_named(options, phase);
}

static struct random phase_random(const struct injection *injection, int index, int step)
{
	struct random random = { .state = injection->draw + ((uint64_t)index << 40) + (uint64_t)step * 0x9e37ULL };

	random_u64(&random);
	return random;
}

/* Step since its last beginning; -1: it is not on. */
static int phase_nth(const struct injection *injection, int index, int step)
{
	const struct life_phase *phase = life_phases[index];
	struct random random = phase_random(injection, index, -1);
	int first = LIFE_FIRST_STEP + random_u64(&random) % phase->every;
	int every = phase->every * (0.7 + 0.6 * random_unit(&random));
	int nth = step < first ? -1 : (step - first) % (every > 1 ? every : 1);

	return nth < (phase->steps ? phase->steps : 1) ? nth : -1;
}

static struct life_event event_at(const struct rank *rank, const struct injection *injection, int index, int nth)
{
	const struct life_phase *phase = life_phases[index];
	struct random random = phase_random(injection, index, rank->step - nth);
	double seconds = phase->min_s * pow(phase->max_s / phase->min_s, random_unit(&random));

	return (struct life_event){ .phase = phase,
				    .seconds = seconds * rank->options->life_scale,
				    .rank = random_u64(&random) % rank->options->nr_ranks,
				    .draw = random_u64(&random),
				    .nth = nth };
}

/* What is on at this step. phase NULL: nothing, or this process is new and was made for it. */
static struct life_event event_now(const struct rank *rank, const struct injection *injection)
{
	struct life_event none = { 0 };
	int i, nth;

	if (rank->step == rank->resumed_step)
		return none;
	for (i = 0; i < nr_life_phases; i++) {
		nth = is_chosen(rank->options, life_phases[i]) ? phase_nth(injection, i, rank->step) : -1;
		if (nth >= 0 && !(life_phases[i]->restarts_job && rank->generation >= LIFE_RESTARTS_MAX))
			return event_at(rank, injection, i, nth);
	}
	return none;
}

static void report(struct rank *rank, const struct injection *injection, const struct life_event *event,
		   const char *when)
{
	char facts[160];

	if (rank->rank != event->rank || event->nth)
		return;
	snprintf(facts, sizeof(facts), ",\"what\":\"%s\",\"sec\":%.2f", event->phase->name, event->seconds);
	injection_report_with(rank, injection, when, facts);
}

static void before_step(struct rank *rank, const struct injection *injection)
{
	struct life_event event = event_now(rank, injection);

	if (!event.phase)
		return;
	report(rank, injection, &event, "begin");
	injection_state(rank, injection)->begun = true;
	if (event.phase->run)
		event.phase->run(rank, &event);
	report(rank, injection, &event, "end");
}

/* The same for all of a replica, which computes one batch. */
static double sequence_factor(const struct rank *rank, const struct injection *injection)
{
	struct random random = phase_random(injection, 99 + rank->position.dp, rank->step);

	return 1 + LENGTHS * (2 * random_unit(&random) - 1);
}

static double step_factor(struct rank *rank, const struct injection *injection)
{
	struct life_event event = event_now(rank, injection);
	double factor = sequence_factor(rank, injection);

	return event.phase && event.phase->kernel_factor ? factor * event.phase->kernel_factor(rank, &event) : factor;
}

static int names_check(const struct options *options, struct reason *reason)
{
	size_t n = 0;
	const char *at;
	int i;

	for (at = options->life; at && *at; at++)
		n += at == options->life || *at == ',';
	for (i = 0; n && i < nr_life_phases; i++) {
		if (is_named(options, life_phases[i]) && !is_possible(options, life_phases[i]))
			return refuse(reason,
				      "--life=%s: not with --ranks-per-process and these --threads; leave it out",
				      life_phases[i]->name);
		n -= is_named(options, life_phases[i]);
	}
	return n ? refuse(reason, "--life='%s': no such phase, or one twice; README.md lists them", options->life) : 0;
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	(void)injection;
	if (options->graph)
		return refuse(reason, "communicators are made anew; leave --graph out");
	if (options->netns || options->nccl_path2)
		return refuse(reason, "one host and one libnccl; leave --netns and --nccl-lib2 out");
	return names_check(options, reason);
}

const struct fault fault_life = {
	.resource = &resource_object_store,
	.is_of_job = true,
	.recurs = true,
	.nr_restarts = LIFE_RESTARTS_MAX,
	.check = check,
	.before_step = before_step,
	.kernel_factor = step_factor,
};
