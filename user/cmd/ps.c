/* SPDX-License-Identifier: Apache-2.0
 *
 * ps.c - `ranktrace ps`: which processes train here and what a trace would see of them. Reads only, attaches nothing.
 */
#include <argp.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/foreign.h"
#include "cmd/help.h"
#include "command.h"
#include "source.h"
#include "cmd/ps/ps_kernel.h"
#include "cmd/ps/ps_ranks.h"
#include "cmd/ps/ps_stacks.h"
#include "session/targets.h"
#include "inspect/discover/discover.h"
#include "inspect/discover/launch_env.h"
#include "inspect/discover/privilege.h"
#include "inspect/reader/reader.h"

struct ps_args {
	bool json, kernel, load, stacks;
	uint32_t pid;
};

static const struct argp_option ps_options[] = {
	{ "stacks", 's', 0, 0, "what every thread does: kernel, native and Python frames, equal stacks grouped",
	  HELP_WHAT },
	{ "pid", 'p', "PID", 0, "with --stacks: this process, training or not, and its descendants", HELP_WHAT },
	{ "kernel", 'k', 0, 0, "what this kernel offers, the replacements for what it lacks, its quirks", HELP_WHAT },
	{ "load", 'l', 0, 0,
	  "with --kernel: also load every BPF program, in every shape that it has for other kernels (attaches none)",
	  HELP_WHAT },
	{ "json", 'j', 0, 0, "JSON lines", HELP_OUTPUT },
	{ "verbose", 'v', 0, 0, "also child processes, and the libraries that would be probed", HELP_OUTPUT },
	{ 0 },
};

#define ROW "%4s %8u  %-5s  %-15s %8s %8s  %s%s%s%s%s\n"
#define TITLE "%4s %8s  %-5s  %-15s %8s %8s  %s\n"

static error_t ps_option(int key, char *arg, struct argp_state *state)
{
	struct ps_args *a = state->input;
	char *end;

	switch (key) {
	case 'j': a->json = true; return 0;
	case 'k': a->kernel = true; return 0;
	case 'l': a->load = true; return 0;
	case 's': a->stacks = true; return 0;
	case 'v': log_verbose = true; return 0;
	case 'p':
		a->pid = strtoul(arg, &end, 10);
		if (*end || !a->pid)
			argp_error(state, "--pid %s: not a process id", arg);
		return 0;
	case ARGP_KEY_END:
		if (a->pid && !a->stacks)
			argp_error(state, "--pid goes with --stacks");
		if (a->load && !a->kernel)
			argp_error(state, "--load goes with --kernel");
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "no arguments expected");
	}
	return ARGP_ERR_UNKNOWN;
}

/* "nccl,cuda": the tracers that would attach to this file. */
static void tracers_text(uint32_t mask, char *to, size_t size)
{
	const struct source *s = NULL;
	size_t at = 0;

	*to = 0;
	while ((s = source_next_tracer(s)))
		if (mask & 1u << s->live->tracer->id && at < size)
			at += snprintf(to + at, size - at, "%s%s", at ? "," : "", s->name);
}

/* Appends a reason, after "; " unless it is the first. */
__attribute__((format(printf, 3, 4))) static void reason_add(char *to, size_t size, const char *format, ...)
{
	size_t at = strlen(to);
	va_list args;

	if (at && at + 2 < size)
		at += snprintf(to + at, size - at, "; ");
	va_start(args, format);
	if (at < size)
		vsnprintf(to + at, size - at, format, args);
	va_end(args);
}

/* The file it was started from; NULL: not mapped, or not inspected. */
static const struct target_lib *program_of(const struct target_proc *p)
{
	for (size_t i = 0; i < p->n_files; i++) {
		size_t len = strlen(p->libs[i].path);

		if (!strncmp(p->libs[i].path, p->exe, len) && (!p->exe[len] || !strcmp(p->exe + len, " (deleted)")))
			return &p->libs[i];
	}
	return NULL;
}

static void status_text(const struct target_proc *p, char *to, size_t size)
{
	if (p->status == TARGET_DENIED)
		reason_add(to, size, "not readable: %s", strerror(-p->error));
	else if (p->status == TARGET_BLOCKED)
		reason_add(to, size, "its mmap_lock is held: libraries as of the last scan");
	else if (p->status == TARGET_ERROR)
		reason_add(to, size, "%s", strerror(-p->error));
	if (p->n_unreadable)
		reason_add(to, size, "%zu executable files not inspected, first %.100s: %s", p->n_unreadable,
			   p->unreadable, elf_error_text(p->unreadable_error));
}

/* Why something of this process would stay invisible; "": nothing would. */
static void invisible_text(const struct target_proc *p, char *to, size_t size)
{
	const struct target_lib *program = program_of(p);

	*to = 0;
	status_text(p, to, size);
	if (!p->n_libs && p->rank >= 0 && !p->is_child && program && !program->file->error &&
	    !program->file->facts.has_symbols)
		reason_add(to, size,
			   "%.100s is stripped: NCCL or CUDA linked into it cannot be found; build it without -s",
			   p->exe);
	else if (!p->n_libs && p->rank >= 0 && !p->is_child && p->status == TARGET_OK)
		reason_add(to, size, "no NCCL or CUDA symbols mapped (yet)");
	if (p->seccomp > 0)
		reason_add(to, size, "under seccomp: no return probes on kernels from 6.11");
}

/* What is odd about its identity; "": nothing. */
static void identity_text(const struct target_proc *p, char *to, size_t size)
{
	*to = 0;
	if (p->rank_ambiguous && !p->is_child)
		reason_add(to, size,
			   "several processes with communicators have the same rank: ranktrace uses NCCL's own");
	else if (p->other_source != RANK_UNKNOWN && !p->is_child)
		reason_add(to, size, "%s is trusted, %s says %d%s", rank_source_variable(p->rank_source),
			   rank_source_variable(p->other_source), p->other_rank,
			   p->other_rank == p->rank ? " of another size" : "");
}

static void source_text(const struct target_proc *p, char *to, size_t size)
{
	const char *name = rank_source_name(p->rank_source);

	snprintf(to, size, "%s%s", *name ? name : "-", p->rank_late && !p->is_child ? "(late)" : "");
}

static void rate_text(bool known, double per_s, char *to, size_t size)
{
	snprintf(to, size, !known ? "-" : per_s >= 100 ? "%.0f" : "%.1f", per_s);
}

/* "3", of a child "+3", of a process that is several "0-3" or "0,2"; "-" not known. */
static void rank_text(const struct ps_rank *row, char *to, size_t size)
{
	const struct target_proc *p = row->proc;
	size_t n = row->n_ranks, at = 0;

	if (n && row->ranks[n - 1] == row->ranks[0] + (int)n - 1)
		snprintf(to, size, n == 2 ? "%d,%d" : "%d-%d", row->ranks[0], row->ranks[n - 1]);
	else if (!n && p->rank < 0)
		snprintf(to, size, "-");
	else if (!n)
		snprintf(to, size, "%s%d", p->is_child ? "+" : "", p->rank);
	else
		for (size_t i = 0; i < n && at < size; i++)
			at += (size_t)snprintf(to + at, size - at, "%s%d", i ? "," : "", row->ranks[i]);
}

static void row_print(const struct ps_rank *row)
{
	const struct target_proc *p = row->proc;
	char rank[64], steps[16], collectives[16], why[512], note[256];

	rank_text(row, rank, sizeof(rank));
	invisible_text(p, why, sizeof(why));
	identity_text(p, note, sizeof(note));
	rate_text(row->steps_per_s > 0, row->steps_per_s, steps, sizeof(steps));
	rate_text(row->counted, row->collectives_per_s, collectives, sizeof(collectives));
	foreign_print(ROW, rank, p->tgid, *row->gpus ? row->gpus : "-", p->is_child ? "child" : row->state, steps,
		      collectives, *p->place->job ? p->place->job : "-", *note || *why ? "  " : "", note,
		      *note && *why ? "; " : "", why);
}

/* With --verbose: who says that it is that rank, and what of it would be probed. */
static void details_print(const struct target_set *set, const struct target_proc *p)
{
	char tracers[64], source[24], unseen[256];

	source_text(p, source, sizeof(source));
	foreign_print("         %s: local %d, world %d (%s)", p->name, p->local_rank, p->world_size, source);
	if (p->ns_pid != p->tgid)
		foreign_print(", pid %u inside", p->ns_pid);
	foreign_print("%s%s%s%s\n", *p->container ? ", container " : "", p->container, *p->pod ? ", pod " : "", p->pod);
	for (size_t i = 0; i < p->n_files; i++) {
		char id[2 * ELF_BUILD_ID_MAX + 1];

		if (!p->libs[i].tracers)
			continue;
		tracers_text(p->libs[i].tracers, tracers, sizeof(tracers));
		elf_facts_build_id(&p->libs[i].file->facts, id);
		foreign_print("         %-10s %.12s%s %s\n", tracers, id, p->libs[i].deleted ? " (deleted)" : "",
			      p->libs[i].path);
		target_unseen_text(set, p->libs[i].file, unseen, sizeof(unseen));
		if (*unseen)
			foreign_print("         not visible: %s\n", unseen);
	}
}

static void rows_print(const struct target_set *set, const struct ps_rank *rows, size_t n)
{
	if (n)
		foreign_print(TITLE, "RANK", "PID", "GPU", "STATE", "STEPS/S", "COLL/S", "JOB  NOTE");
	for (size_t i = 0; i < n; i++) {
		if (rows[i].proc->is_child && !log_verbose)
			continue;
		row_print(&rows[i]);
		if (log_verbose)
			details_print(set, rows[i].proc);
	}
}

static cJSON *libs_json(const struct target_proc *p)
{
	cJSON *libs = cJSON_CreateArray();

	for (size_t i = 0; i < p->n_files; i++) {
		char id[2 * ELF_BUILD_ID_MAX + 1], tracers[64];
		cJSON *lib;

		if (!p->libs[i].tracers)
			continue;
		lib = cJSON_CreateObject();
		elf_facts_build_id(&p->libs[i].file->facts, id);
		tracers_text(p->libs[i].tracers, tracers, sizeof(tracers));
		foreign_json(lib, "path", p->libs[i].path);
		foreign_json(lib, "build_id", id);
		foreign_json(lib, "tracers", tracers);
		cJSON_AddBoolToObject(lib, "deleted", p->libs[i].deleted);
		cJSON_AddBoolToObject(lib, "has_dwarf", p->libs[i].file->facts.has_dwarf);
		cJSON_AddItemToArray(libs, lib);
	}
	return libs;
}

static void add_rate(cJSON *o, const char *name, bool known, double per_s)
{
	char text[32];

	snprintf(text, sizeof(text), known ? "%.2f" : "null", per_s);
	cJSON_AddRawToObject(o, name, text);
}

static void row_print_json(const struct ps_rank *row)
{
	const struct target_proc *p = row->proc;
	cJSON *o = cJSON_CreateObject();
	char why[512], note[256], *text;

	invisible_text(p, why, sizeof(why));
	identity_text(p, note, sizeof(note));
	cJSON_AddNumberToObject(o, "pid", p->tgid);
	cJSON_AddNumberToObject(o, "ns_pid", p->ns_pid);
	cJSON_AddNumberToObject(o, "rank", p->rank);
	cJSON_AddNumberToObject(o, "local_rank", p->local_rank);
	cJSON_AddNumberToObject(o, "world_size", p->world_size);
	foreign_json(o, "rank_source", rank_source_name(p->rank_source));
	cJSON_AddBoolToObject(o, "rank_late", p->rank_late);
	foreign_json(o, "rank_note", note);
	cJSON_AddBoolToObject(o, "is_child", p->is_child);
	foreign_json(o, "job", p->place->job);
	foreign_json(o, "name", p->name);
	foreign_json(o, "container", p->container);
	foreign_json(o, "pod", p->pod);
	foreign_json(o, "pod_name", p->place->pod_name);
	foreign_json(o, "namespace", p->place->namespace);
	foreign_json(o, "slurm_job", p->place->slurm_job);
	foreign_json(o, "slurm_step", p->place->slurm_step);
	cJSON_AddNumberToObject(o, "netns", p->netns);
	foreign_json(o, "visible_devices", p->visible_devices);
	foreign_json(o, "status", target_status_name(p->status));
	foreign_json(o, "invisible", why);
	foreign_json(o, "gpus", row->gpus);
	cJSON_AddItemToObject(o, "ranks", cJSON_CreateIntArray(row->ranks, (int)row->n_ranks));
	foreign_json(o, "state", row->state);
	add_rate(o, "steps_per_s", row->steps_per_s > 0, row->steps_per_s);
	add_rate(o, "collectives_per_s", row->counted, row->collectives_per_s);
	cJSON_AddItemToObject(o, "libs", libs_json(p));
	text = cJSON_PrintUnformatted(o);
	if (text)
		puts(text);
	free(text);
	cJSON_Delete(o);
}

int ps_end(size_t n_shown)
{
	char denied[1024];
	bool limited = privilege_reading(denied, sizeof(denied));

	if (!n_shown)
		log_info("no training process %s: nothing with NCCL or CUDA symbols mapped and no RANK in an "
			 "environment",
			 limited ? "that may be read" : "on this host");
	if (limited && !n_shown)
		log_error("%s", denied);
	else if (limited)
		log_warn("%s", denied);
	return limited && !n_shown ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}

static int list_print(struct reader *reader, struct target_set *set, bool json)
{
	struct ps_rank *rows = NULL;
	size_t n;
	int err = ps_ranks_read(reader, set, &rows, &n);

	if (err) {
		log_error("reading the processes: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	for (size_t i = 0; json && i < n; i++)
		row_print_json(&rows[i]);
	if (!json)
		rows_print(set, rows, n);
	ps_ranks_free(rows, n);
	return ps_end(n);
}

int cmd_ps(int argc, char **argv)
{
	static const struct argp argp = { ps_options, ps_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = { "ps",
					  "[OPTIONS]\n[OPTIONS] --stacks [--pid PID]\n[OPTIONS] --kernel [--load]",
					  "Lists the ranks that train on this host: GPU, state, and how fast they "
					  "go, from two seconds of NCCL's own counters. Attaches nothing." };
	const struct target_filter *filters;
	struct target_set *set = NULL;
	struct reader *reader = NULL;
	struct ps_args a = {};
	int err, code = EXIT_INTERNAL;
	size_t n;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	if (a.kernel)
		return ps_kernel_print(a.load, a.json);
	filters = session_target_filters(&n);
	err = reader_open(&reader);
	if (!err)
		err = target_set_new(reader, filters, n, &set);
	if (err)
		log_error("starting: %s", strerror(-err));
	else
		reader_set_timeout(reader, READER_TIMEOUT_MS);
	if (!err && ((err = target_set_scan_settled(set)) || (err = target_set_name_jobs(set))))
		log_error("/proc: %s", strerror(-err));
	if (!err)
		code = a.stacks ? ps_stacks_print(reader, set, a.pid, a.json) : list_print(reader, set, a.json);
	target_set_free(set);
	reader_free(reader);
	return code;
}
