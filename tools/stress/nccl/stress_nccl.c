/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_nccl.c - `stress nccl`: the ranks, the groups they form, sweeps over collectives, types, sizes and places,
 * whose fault it is when one goes wrong, the judgement. Design: ../README.md.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/nccl/member.h"
#include "tools/stress/nccl/nccl_hunt.h"
#include "tools/stress/nccl/nccl_run.h"
#include "tools/stress/run.h"
#include "tools/stress/stress.h"

#define TYPES_DEFAULT (1u << TYPE_fp32 | 1u << TYPE_bf16)

double nccl_elapsed_s(const struct nccl_run *run)
{
	return (clock_monotonic_ns() - run->begin_ns) * 1e-9;
}

void nccl_fault_take(struct nccl_run *run, struct fault *fault)
{
	fault->at_s = nccl_elapsed_s(run);
	if (fault->gpu >= 0)
		run->c.ranks[fault->gpu].n_faults++;
	if (run->n_faults < NCCL_FAULTS_MAX) {
		run->faults[run->n_faults++] = *fault;
		nccl_report_fault(run, fault);
	}
}

void nccl_fault(struct nccl_run *run, enum fault_kind kind, int rank, const char *format, ...)
{
	struct fault fault = { .kind = kind, .gpu = rank, .measure = -1 };
	va_list args;

	va_start(args, format);
	vsnprintf(fault.text, sizeof(fault.text), format, args);
	va_end(args);
	nccl_fault_take(run, &fault);
}

void nccl_note(struct nccl_run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	notes_add(&run->notes, format, args);
	va_end(args);
}

void nccl_lacks(struct nccl_run *run, const struct trial_group *g)
{
	char name[120];

	snprintf(
		run->lacks, sizeof(run->lacks), "%.70s: %.250s: %s", rank_name(&run->c, g->at, name, sizeof(name)),
		g->text,
		trial_lacks_memory(g->text)
			? "give it a larger /dev/shm (docker run --shm-size=8g; in Kubernetes an emptyDir with medium: "
			  "Memory, mounted there), or more memory to lock (ulimit -l)"
			: "what NCCL needs of the host fails, and the GPUs answer: NCCL_DEBUG=INFO says more");
	nccl_note(run, "%s", run->lacks);
}

bool group_is_bad(const struct trial_group *g)
{
	return g->status == CASE_HUNG || g->status == CASE_FAILED || g->status == CASE_LOST || g->wrong;
}

/* --- groups --- */

/* The how manyth of its host it is: not CUDA's number, as a launcher may show each process its own GPU only. */
static int place_on_host(const struct nccl_run *run, int rank)
{
	int place = 0;

	for (int i = 0; i < rank; i++)
		place += run->c.ranks[i].node == run->c.ranks[rank].node;
	return place;
}

/* In which group a rank is: all in one, one a place on the host (a rail), one a host. */
static int group_of(const struct nccl_run *run, int rank)
{
	switch (run->options->nccl.split) {
	case SPLIT_RAILS: return place_on_host(run, rank);
	case SPLIT_INSIDE: return run->c.ranks[rank].node;
	default: return 0;
	}
}

static void group_name(const struct nccl_run *run, struct trial_group *g, int number)
{
	if (run->options->nccl.split == SPLIT_RAILS)
		snprintf(g->name, sizeof(g->name), "rail %d (a GPU of each of %d hosts)", number, g->n);
	else if (run->options->nccl.split == SPLIT_INSIDE)
		snprintf(g->name, sizeof(g->name), "host %s", run->c.ranks[g->ranks[0]].hello.host);
	else
		snprintf(g->name, sizeof(g->name), "all %d GPUs", g->n);
}

static int groups_make(struct nccl_run *run, char why[LIBRARY_WHY])
{
	int n = run->c.n;

	if (run->options->nccl.bisect && run->c.n_nodes < 2) {
		snprintf(why, LIBRARY_WHY,
			 "--bisect is over hosts, and all %d ranks are on one: leave it out, bad GPUs of "
			 "a host are found without",
			 n);
		return STRESS_IMPOSSIBLE;
	}
	run->groups = calloc(n + 1, sizeof(*run->groups));
	for (int number = 0; number < n; number++) {
		struct trial_group *g = &run->groups[run->n_groups];

		g->ranks = calloc(n, sizeof(*g->ranks));
		for (int i = 0; i < n; i++)
			if (group_of(run, i) == number)
				g->ranks[g->n++] = i;
		group_name(run, g, number);
		if (g->n == 1)
			nccl_note(run, "%s: alone in its group, and not tested", g->name);
		if (g->n < 2)
			free(g->ranks);
		if (g->n < 2)
			*g = (struct trial_group){ .n = 0 };
		run->n_groups += g->n > 0;
	}
	if (run->n_groups)
		return STRESS_PASSED;
	snprintf(why, LIBRARY_WHY, "--split: each GPU is alone in its group: %d GPUs on %d hosts: leave --split out",
		 run->c.n, run->c.n_nodes);
	return STRESS_IMPOSSIBLE;
}

/* --- a sweep --- */

static void rate_keep(struct nccl_run *run, int group, const struct nccl_case *of)
{
	const struct trial_group *g = &run->groups[group];
	struct nccl_rate *rate = NULL;
	double busbw = 0;

	for (int i = 0; i < run->n_rates && !rate; i++)
		if (run->rates[i].group == group && nccl_same_case(&run->rates[i].of, of))
			rate = &run->rates[i];
	if (!rate) {
		run->rates = realloc(run->rates, (run->n_rates + 1) * sizeof(*run->rates));
		if (!run->rates)
			abort();
		rate = &run->rates[run->n_rates++];
		*rate = (struct nccl_rate){ .group = group, .of = *of };
	}
	rate->bytes = g->bytes;
	rate->p99 = g->p99 > rate->p99 ? g->p99 : rate->p99;
	if (g->seconds > 0)
		busbw = g->bytes / g->seconds * 1e-9 * collective_bus_factor(of->collective, g->n);
	if (run->again && judgement_is_open(&rate->judged))
		judgement_turn(&rate->judged, BETTER_MORE, busbw);
	else if (!run->again && busbw > 0 && rate->n_values < (int)(sizeof(rate->values) / sizeof(rate->values[0])))
		rate->values[rate->n_values++] = busbw;
}

/* Which elements, on which ranks: what the one who looks for the fault needs. */
static void wrong_say(const struct nccl_run *run, struct trial_group *g)
{
	const struct wire_result *r = &run->c.ranks[g->at].last;
	char name[120];

	snprintf(g->text, sizeof(g->text),
		 "%llu of %llu elements are wrong, on %d of %d ranks; element %llu of %s is 0x%llx in place of 0x%llx",
		 (unsigned long long)g->wrong, (unsigned long long)g->checked, g->n_wrong, g->n,
		 (unsigned long long)r->kept[0].index, rank_name(&run->c, g->at, name, sizeof(name)),
		 (unsigned long long)r->kept[0].got, (unsigned long long)r->kept[0].want);
}

static void group_fault(struct nccl_run *run, struct trial_group *g, const struct nccl_case *of)
{
	char what[160];

	if (g->wrong && g->status == CASE_DONE)
		wrong_say(run, g);
	if (g->status == CASE_LOST && g->at >= 0) {
		case_name(of, what, sizeof(what));
		nccl_fault(run, FAULT_LOST, g->at, "%s: %s", what, g->text);
		return;
	}
	trial_close(&run->c, g, 1); /* pairs need communicators of their own */
	g->joined = false;
	nccl_isolate(run, g, of);
}

static void group_take(struct nccl_run *run, int group, const struct nccl_case *of)
{
	struct trial_group *g = &run->groups[group];

	nccl_report_case(run, g, of);
	if (g->status == CASE_DONE && !run->c.stopped) {
		run->n_measured++;
		rate_keep(run, group, of);
	}
	if (g->status == CASE_UNSUPPORTED)
		nccl_note(run, "%s: not in this NCCL", nccl_types[of->type].name);
	if (g->status == CASE_NO_MEMORY) {
		nccl_note(run, "%s: %s", g->name, g->text);
		run->n_left++;
	}
	if (g->status == CASE_SYSTEM) {
		nccl_lacks(run, g);
		trial_close(&run->c, g, 1);
	}
	if (group_is_bad(g))
		group_fault(run, g, of);
}

/* Once a group was bad it is out: its fault has been looked for. */
void nccl_case_run(struct nccl_run *run, const struct nccl_case *of)
{
	bool was_joined[NCCL_RANKS_MAX] = { false };

	for (int i = 0; i < run->n_groups; i++) {
		was_joined[i] = run->groups[i].joined;
		run->n_left += !was_joined[i] && !run->again;
	}
	trial_case(&run->c, run->groups, run->n_groups, of);
	for (int i = 0; i < run->n_groups; i++)
		if (was_joined[i] && (!run->c.stopped || run->groups[i].wrong))
			group_take(run, i, of);
}

static bool over(const struct nccl_run *run)
{
	return run->c.stopped ||
	       (run->options->time_ns && clock_monotonic_ns() > run->begin_ns + run->options->time_ns);
}

/* Largest first within the sweep's order of the user: collective, type, place, size. */
static void sizes_run(struct nccl_run *run, struct nccl_case *of)
{
	const struct nccl_options *o = &run->options->nccl;

	for (uint64_t bytes = o->bytes_min; bytes <= o->bytes_max && !run->c.stopped; bytes *= o->factor)
		for (int in_place = !o->out_of_place; in_place <= (o->in_place ? 1 : 0) && !run->c.stopped;
		     in_place++) {
			if (in_place && !collectives[of->collective].can_be_in_place)
				continue;
			of->bytes = bytes;
			of->in_place = in_place;
			of->seed++;
			of->root++;
			nccl_case_run(run, of);
		}
}

static void sweep(struct nccl_run *run, uint64_t *seed)
{
	const struct nccl_options *o = &run->options->nccl;
	uint32_t types = o->types ? o->types : TYPES_DEFAULT;
	struct nccl_case of = { .iterations = o->iterations, .skip = o->skip, .limit_ns = o->limit_ns, .seed = *seed };

	for (of.collective = 0; of.collective < N_COLLECTIVES; of.collective++)
		for (of.type = 0; of.type < N_TYPES; of.type++)
			if (o->collectives >> of.collective & 1 && types >> of.type & 1)
				sizes_run(run, &of);
	*seed = of.seed;
}

static void creation_fault(struct nccl_run *run, struct trial_group *g)
{
	if (g->status == CASE_SYSTEM) {
		nccl_lacks(run, g);
		return;
	}
	nccl_fault(run, g->status == CASE_HUNG ? FAULT_STALLED : FAULT_LOST, g->status == CASE_HUNG ? -1 : g->at,
		   "%s: the communicator was not made: %s", g->name, g->text);
}

static void sweeps_run(struct nccl_run *run, const struct baseline *baseline)
{
	uint64_t seed = run->options->seed << 20;

	trial_open(&run->c, run->groups, run->n_groups);
	for (int i = 0; i < run->n_groups && !run->c.stopped; i++)
		if (!run->groups[i].joined)
			creation_fault(run, &run->groups[i]);
	do
		sweep(run, &seed);
	while (run->options->time_ns && !over(run) && !run->n_faults && !run->lacks[0]);
	if (!run->c.stopped)
		nccl_hold(run, baseline);
	for (int i = 0; i < run->n_groups; i++)
		if (run->groups[i].joined)
			trial_close(&run->c, &run->groups[i], 1);
}

/* --- the end --- */

static void health_take(void *arg, int rank, struct fault *fault)
{
	struct nccl_run *run = arg;

	if (fault->kind == FAULT_XID || fault->kind == FAULT_ECC || fault->kind == FAULT_ROWS ||
	    fault->kind == FAULT_THROTTLED)
		nccl_fault(run, fault->kind, rank, "%s", fault->text);
}

static int status_of(const struct nccl_run *run, const char *partial, char why[LIBRARY_WHY])
{
	if (run->n_faults)
		return STRESS_FAILED;
	if (run->n_measured && !*partial && !run->uncompared && !run->lacks[0])
		return STRESS_PASSED;
	if (run->lacks[0])
		snprintf(why, LIBRARY_WHY, "%s", run->lacks);
	else if (run->uncompared && run->n_measured && !*partial)
		snprintf(why, LIBRARY_WHY,
			 "--bisect: results are right, but %d hosts are too few to compare rates: take three or more "
			 "that have as many GPUs each, "
			 "or stress nccl --baseline without --bisect",
			 run->c.n_nodes);
	else if (*partial)
		snprintf(why, LIBRARY_WHY, "stopped before everything had its turn: no verdict");
	else
		notes_unmeasured(&run->notes, why, LIBRARY_WHY);
	return STRESS_IMPOSSIBLE;
}

static void rank_bad(const struct nccl_run *run, struct stress_result *result, int rank)
{
	const struct wire_hello *h = &run->c.ranks[rank].hello;
	char name[16];

	snprintf(name, sizeof(name), "GPU %d", h->ordinal);
	stress_result_bad(result, name, h->uuid, h->pci);
}

static void result_fill(const struct nccl_run *run, struct stress_result *result)
{
	for (int i = 0; i < run->c.n; i++)
		if (run->c.ranks[i].n_faults)
			rank_bad(run, result, i);
	result->n_gpus = run->c.n < STRESS_GPUS_MAX ? run->c.n : STRESS_GPUS_MAX;
	for (uint32_t i = 0; i < result->n_gpus; i++)
		result->ordinals[i] = run->c.ranks[i].hello.ordinal;
	result->n_faults = run->n_faults < STRESS_FAULTS_MAX ? run->n_faults : STRESS_FAULTS_MAX;
	memcpy(result->faults, run->faults, result->n_faults * sizeof(result->faults[0]));
}

static int test_run(struct nccl_run *run, const struct baseline *baseline, struct stress_result *result)
{
	int status;

	nccl_report_begin(run);
	if (run->options->nccl.bisect)
		nccl_hunt(run);
	else
		sweeps_run(run, baseline);
	if (!run->c.stopped || run->again)
		nccl_judge(run);
	coordinator_health(&run->c, health_take, run);
	if (run->c.stopped)
		snprintf(result->partial, sizeof(result->partial), "stopped by a signal after %.0f s",
			 nccl_elapsed_s(run));
	else if (run->n_left && run->n_measured && !run->n_faults && !run->lacks[0])
		nccl_fault(run, FAULT_MISSING, -1, "%u cases were not measured", run->n_left);
	status = status_of(run, result->partial, result->why);
	nccl_report_end(run, status, result->partial);
	result_fill(run, result);
	return status;
}

static void issued_line(FILE *f, const char *call, uint64_t calls, uint64_t bytes)
{
	if (calls)
		fprintf(f, "%s %llu %llu\n", call, (unsigned long long)calls, (unsigned long long)bytes);
}

/* For --trace, which compares it with the recording: a line a call of NCCL. */
static void issued_write(const struct coordinator *c, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return;
	for (int i = 0; i < N_COLLECTIVES; i++)
		issued_line(f, collectives[i].call, c->issued[i].calls, c->issued[i].bytes);
	issued_line(f, "Send", c->transfers.calls / 2, c->transfers.bytes / 2);
	issued_line(f, "Recv", c->transfers.calls / 2, c->transfers.bytes / 2);
	fclose(f);
}

static void run_free(struct nccl_run *run)
{
	for (int i = 0; i < run->n_groups; i++)
		free(run->groups[i].ranks);
	free(run->groups);
	free(run->rates);
	free(run);
}

/* Ranks and groups; `status` of what cannot be. */
static int ranks_open(struct nccl_run *run, const struct stress_options *options, struct stress_result *result)
{
	struct launcher_place place;
	int err = launcher_find(options->nccl.host, &place, result->why);

	if (err == -EINVAL)
		return STRESS_USAGE;
	if (!err && place.rank > 0)
		return coordinator_join(&place, options, result->why);
	err = coordinator_open(&run->c, options, err ? NULL : &place, result->why);
	return err ? err : groups_make(run, result->why);
}

int stress_nccl(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct nccl_run *run = calloc(1, sizeof(*run));
	struct baseline *baseline = NULL;
	int status;

	if (!run)
		abort();
	memset(result, 0, sizeof(*result));
	run->options = options;
	run->mode = mode;
	run->begin_ns = clock_monotonic_ns();
	status = baseline_open(options, &baseline, result->why);
	status = status ? status : ranks_open(run, options, result);
	if (!status)
		status = test_run(run, baseline, result);
	if (options->save_baseline && run->c.n && status != STRESS_USAGE)
		status = nccl_baseline_save(run, status, result->why);
	if (getenv(ISSUED_VARIABLE))
		issued_write(&run->c, getenv(ISSUED_VARIABLE));
	coordinator_close(&run->c, status);
	baseline_free(baseline);
	run_free(run);
	return status;
}
