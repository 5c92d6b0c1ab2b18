/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_env.c - the table of launchers and its reading. Order is trust: a launcher further down may have started the
 * one above it and left its variables behind (srun starts one torchrun or one orted a node: SLURM_PROCID is the node's
 * number then). Slurm stands last, as everything in a job step inherits its variables.
 */
#include "inspect/discover/launch_env.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct launcher {
	enum rank_source source;
	const char *name;
	const char *rank;
	const char *size[3]; /* first that is set; none at all: the launcher gives no size */
	const char *local;
	const char *job[3]; /* first that is set; "none" counts as unset (torchrun without --rdzv-id) */
	const char *step;
	const char *prefix; /* of the job's name */
};

static const struct launcher launchers[] = {
	{ RANK_ENV, "env", "RANK", { "WORLD_SIZE" }, "LOCAL_RANK", { "TORCHELASTIC_RUN_ID" }, NULL, "" },
	{ RANK_OMPI,
	  "openmpi",
	  "OMPI_COMM_WORLD_RANK",
	  { "OMPI_COMM_WORLD_SIZE" },
	  "OMPI_COMM_WORLD_LOCAL_RANK",
	  { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid" },
	  NULL,
	  "openmpi-" },
	{ RANK_MVAPICH,
	  "mvapich",
	  "MV2_COMM_WORLD_RANK",
	  { "MV2_COMM_WORLD_SIZE" },
	  "MV2_COMM_WORLD_LOCAL_RANK",
	  {},
	  NULL,
	  "" },
	{ RANK_JSM,
	  "jsm",
	  "JSM_NAMESPACE_RANK",
	  { "JSM_NAMESPACE_SIZE" },
	  "JSM_NAMESPACE_LOCAL_RANK",
	  { "LSB_JOBID" },
	  NULL,
	  "lsf-" },
	{ RANK_FLUX,
	  "flux",
	  "FLUX_TASK_RANK",
	  { "FLUX_JOB_SIZE" },
	  "FLUX_TASK_LOCAL_ID",
	  { "FLUX_JOB_ID" },
	  NULL,
	  "flux-" },
	{ RANK_PMI, "pmi", "PMI_RANK", { "PMI_SIZE" }, "MPI_LOCALRANKID", { "PMI_JOBID" }, NULL, "pmi-" },
	{ RANK_PMIX, "pmix", "PMIX_RANK", {}, NULL, { "PMIX_NAMESPACE" }, NULL, "pmix-" },
	{ RANK_SLURM,
	  "slurm",
	  "SLURM_PROCID",
	  { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS" },
	  "SLURM_LOCALID",
	  { "SLURM_JOB_ID", "SLURM_JOBID" },
	  "SLURM_STEP_ID",
	  "slurm-" },
};
#define LAUNCHERS_N (sizeof(launchers) / sizeof(launchers[0]))
#define NUMBER_MAX 10000000

struct environ_text {
	const char *text;
	size_t len;
};

static const struct launcher *launcher_of(enum rank_source source)
{
	for (size_t i = 0; i < LAUNCHERS_N; i++)
		if (launchers[i].source == source)
			return &launchers[i];
	return NULL;
}

const char *rank_source_name(enum rank_source source)
{
	const struct launcher *l = launcher_of(source);

	return l ? l->name : source == RANK_INHERITED ? "inherited" : "";
}

const char *rank_source_variable(enum rank_source source)
{
	const struct launcher *l = launcher_of(source);

	return l ? l->rank : "";
}

bool rank_source_is_inherited_by_all(enum rank_source source)
{
	return source == RANK_SLURM;
}

static const char *env_find(const struct environ_text *t, const char *name)
{
	size_t n = name ? strlen(name) : 0;

	for (const char *p = t->text; n && p < t->text + t->len; p += strlen(p) + 1)
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	return NULL;
}

/* First of up to three names that is set and is not "none". */
static const char *env_first(const struct environ_text *t, const char *const names[3])
{
	for (int i = 0; i < 3 && names[i]; i++) {
		const char *v = env_find(t, names[i]);

		if (v && *v && strcmp(v, "none"))
			return v;
	}
	return NULL;
}

/* A whole number >= 0; -1 none. */
static int number_parse(const char *v)
{
	char *end;

	if (!v || !isdigit((unsigned char)*v))
		return -1;
	long n = strtol(v, &end, 10);

	return !*end && n < NUMBER_MAX ? n : -1;
}

/* What one launcher says; false: nothing that makes sense. */
static bool row_read(const struct environ_text *t, const struct launcher *l, int *ret_rank, int *ret_size)
{
	*ret_rank = number_parse(env_find(t, l->rank));
	*ret_size = l->size[0] ? number_parse(env_first(t, l->size)) : -1;
	return *ret_rank >= 0 && (!l->size[0] || *ret_size > *ret_rank);
}

/* The rows behind the winner: they fill what it left open where they agree, and are remembered where they do not. */
static void row_compare(struct proc_environ *e, const struct environ_text *t, const struct launcher *l, int rank,
			int size)
{
	bool agrees = rank == e->rank && (size < 0 || e->world_size < 0 || size == e->world_size);

	if (!agrees) {
		if (e->other_source == RANK_UNKNOWN) {
			e->other_source = l->source;
			e->other_rank = rank;
			e->other_size = size;
		}
		return;
	}
	if (e->world_size < 0)
		e->world_size = size;
	if (e->local_rank < 0)
		e->local_rank = number_parse(env_find(t, l->local));
}

static void rank_read(struct proc_environ *e, const struct environ_text *t)
{
	int rank, size;

	for (size_t i = 0; i < LAUNCHERS_N; i++) {
		const struct launcher *l = &launchers[i];

		if (!row_read(t, l, &rank, &size))
			continue;
		if (e->source != RANK_UNKNOWN) {
			row_compare(e, t, l, rank, size);
			continue;
		}
		e->source = l->source;
		e->rank = rank;
		e->world_size = size;
		e->local_rank = number_parse(env_find(t, l->local));
	}
}

static void launcher_job(const struct environ_text *t, const struct launcher *l, char *to, size_t size)
{
	const char *job = env_first(t, l->job), *step = env_find(t, l->step);

	if (job)
		snprintf(to, size, "%s%s%s%s", l->prefix, job, step ? "." : "", step ? step : "");
}

/* torchrun's run, else the rendezvous all ranks share, else the job of the launcher that gave the rank, else any. */
static void job_read(struct proc_environ *e, const struct environ_text *t)
{
	const char *host = env_find(t, "MASTER_ADDR"), *port = env_find(t, "MASTER_PORT");
	const struct launcher *by = launcher_of(e->source);

	launcher_job(t, &launchers[0], e->job, sizeof(e->job));
	if (!*e->job && host && port)
		snprintf(e->job, sizeof(e->job), "%s:%s", host, port);
	if (!*e->job && by)
		launcher_job(t, by, e->job, sizeof(e->job));
	for (size_t i = 0; !*e->job && i < LAUNCHERS_N; i++)
		launcher_job(t, &launchers[i], e->job, sizeof(e->job));
}

/* The downward API has no names of its own: those that manuals use. In a pod the host's name is the pod's. */
static void pod_and_step_read(struct proc_environ *e, const struct environ_text *t)
{
	static const char *const names[] = { "POD_NAME", "K8S_POD_NAME", "MY_POD_NAME" };
	static const char *const spaces[] = { "POD_NAMESPACE", "K8S_POD_NAMESPACE", "MY_POD_NAMESPACE" };
	static const char *const jobs[3] = { "SLURM_JOB_ID", "SLURM_JOBID" };
	const char *name = env_first(t, names), *space = env_first(t, spaces), *job = env_first(t, jobs),
		   *step = env_find(t, "SLURM_STEP_ID");

	if (!name && env_find(t, "KUBERNETES_SERVICE_HOST"))
		name = env_find(t, "HOSTNAME");
	snprintf(e->pod_name, sizeof(e->pod_name), "%s", name ? name : "");
	snprintf(e->namespace, sizeof(e->namespace), "%s", space ? space : "");
	snprintf(e->slurm_job, sizeof(e->slurm_job), "%s", job ? job : "");
	snprintf(e->slurm_step, sizeof(e->slurm_step), "%s", step ? step : "");
}

void proc_environ_parse(const char *text, size_t len, struct proc_environ *ret)
{
	struct environ_text t = { text, len };
	const char *devices = env_find(&t, "CUDA_VISIBLE_DEVICES");

	*ret = PROC_ENVIRON_NONE;
	rank_read(ret, &t);
	job_read(ret, &t);
	pod_and_step_read(ret, &t);
	snprintf(ret->visible_devices, sizeof(ret->visible_devices), "%s", devices ? devices : "");
}

static size_t trust_of(enum rank_source source)
{
	const struct launcher *l = launcher_of(source);

	return l ? (size_t)(l - launchers) : LAUNCHERS_N;
}

void proc_environ_update(struct proc_environ *e, const struct proc_environ *live)
{
	bool late = live->source != e->source || live->rank != e->rank || live->world_size != e->world_size;

	if (live->source == RANK_UNKNOWN || trust_of(live->source) > trust_of(e->source))
		return;
	late |= e->late;
	*e = *live;
	e->late = late;
}
