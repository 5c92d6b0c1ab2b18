/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - where a process lives: cgroup, container, pod, network namespace, host; and what its job is called for
 * that. No read takes a lock of the target's.
 */
#include "inspect/discover/cgroup_path.h"
#include "inspect/discover/discover_private.h"
#include "job/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct target_place place_none;

static void boot_id_read(char *to, size_t size)
{
	char text[64];

	to[0] = '\0';
	if (proc_read(text, sizeof(text), "/proc/sys/kernel/random/boot_id") > 0)
		snprintf(to, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* 0: not known, or not ours to see. */
static uint64_t netns_read(uint32_t tgid)
{
	char path[32], link[64];

	snprintf(path, sizeof(path), "/proc/%u/ns/net", tgid);
	ssize_t n = readlink(path, link, sizeof(link) - 1);

	if (n < 0)
		return 0;
	link[n] = '\0';
	return strncmp(link, "net:[", 5) ? 0 : strtoull(link + 5, NULL, 10);
}

/* A program that was started with an emptied environment is in Slurm's cgroup still. */
static void slurm_take(struct proc_row *p, const char *names)
{
	const char *dot = strchr(names, '.');

	if (!*p->env.job && dot)
		snprintf(p->env.job, sizeof(p->env.job), "slurm-%s", names);
	if (*p->env.slurm_job || !dot)
		return;
	snprintf(p->env.slurm_job, sizeof(p->env.slurm_job), "%.*s", (int)(dot - names), names);
	snprintf(p->env.slurm_step, sizeof(p->env.slurm_step), "%s", dot + 1);
}

void place_names_take(struct proc_row *p, const struct cgroup_names *names)
{
	memcpy(p->pub.container, names->container, sizeof(names->container));
	memcpy(p->pub.pod, names->pod, sizeof(names->pod));
	slurm_take(p, names->slurm);
	if (p->place)
		memcpy(p->place->cgroup, names->path, sizeof(names->path));
}

void place_read(struct proc_row *p)
{
	struct cgroup_names names;

	if (!p->place)
		p->place = calloc(1, sizeof(*p->place));
	cgroup_names_read(p->pub.tgid, &names);
	place_names_take(p, &names);
	p->pub.netns = netns_read(p->pub.tgid);
	if (!p->place)
		return;
	p->pub.place = p->place;
	boot_id_read(p->place->boot_id, sizeof(p->place->boot_id));
}

void place_show(struct proc_row *p)
{
	struct target_place *to = p->place;

	if (!to)
		return;
	memcpy(to->pod_name, p->env.pod_name, sizeof(to->pod_name));
	memcpy(to->namespace, p->env.namespace, sizeof(to->namespace));
	memcpy(to->slurm_job, p->env.slurm_job, sizeof(to->slurm_job));
	memcpy(to->slurm_step, p->env.slurm_step, sizeof(to->slurm_step));
}

/* --- jobs --- */

static struct job_place place_of(const struct target_proc *p)
{
	return (struct job_place){ .netns = p->netns,
				   .user = p->uid + 1,
				   .pod = p->pod,
				   .pod_name = p->place->pod_name,
				   .container = p->container,
				   .cgroup = p->place->cgroup };
}

bool target_proc_of_job(const struct target_proc *p, const char *text)
{
	struct job_place at = place_of(p);

	return job_selected(text, p->job, &at) || (*p->place->job && !strcmp(p->place->job, text));
}

static struct job_scope *scope_of(struct jobs *jobs, const struct target_proc *p)
{
	struct job_place at = place_of(p);

	return jobs_scope(jobs, p->job, &at);
}

static int jobs_find(const struct target_set *s, struct jobs *jobs)
{
	int err = 0;

	jobs_begin(jobs);
	for (size_t i = 0; !err && i < s->n_list; i++) {
		const struct target_proc *p = s->list[i];
		struct job_scope *scope = p->is_child ? NULL : scope_of(jobs, p);

		if (scope)
			scope->n_procs++;
		err = scope ? jobs_rank(jobs, scope, p->rank, p->world_size) : p->is_child ? 0 : -ENOMEM;
	}
	return err ? err : jobs_settle(jobs);
}

static void job_show(const struct target_set *s, struct jobs *jobs, struct proc_row *p)
{
	struct proc_row *rank = p->pub.is_child ? proc_row_find(s, p->pub.rank_tgid) : p;
	struct job_scope *scope = rank ? scope_of(jobs, &rank->pub) : NULL;

	if (p->place)
		snprintf(p->place->job, sizeof(p->place->job), "%s", scope ? scope->job->shown : p->pub.job);
}

int target_set_name_jobs(struct target_set *s)
{
	struct jobs *jobs = jobs_new();
	int err = jobs ? jobs_find(s, jobs) : -ENOMEM;

	for (struct proc_row *p = s->active; p && !err; p = p->next)
		if (p->listed)
			job_show(s, jobs, p);
	jobs_free(jobs);
	if (!err)
		discover_sort(s);
	return err;
}
