/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_scopes.h - scopes of jobs whose ranks live, die and are tied by hand, one after the other. For cmocka: setup()
 * and teardown() around each test. Of one program.
 */
#ifndef RANKTRACE_HAND_SCOPES_H
#define RANKTRACE_HAND_SCOPES_H

#include "job/jobs.h"

#define NAME "127.0.0.1:29500"
#define LIVING_MAX 64

static struct jobs *jobs;
static struct {
	struct job_scope *s;
	int rank, world;
} living[LIVING_MAX];
static int n_living, n_ties;
static struct job_scope *ties[LIVING_MAX][2];

static inline int setup(void **state)
{
	(void)state;
	jobs = jobs_new();
	n_living = n_ties = 0;
	return jobs ? 0 : -1;
}

static inline int teardown(void **state)
{
	(void)state;
	jobs_free(jobs);
	return 0;
}

static inline struct job_scope *scope(const char *name, uint32_t host, uint64_t netns, const char *pod)
{
	static const char *const hosts[] = { "host-a", "host-b", "host-c" };
	struct job_place at = { .host = host, .host_name = hosts[host], .netns = netns, .pod_name = pod, .pod = pod };

	struct job_scope *s = jobs_scope(jobs, name, &at);

	s->n_procs = 1; /* some process is known of each, dead or alive */
	return s;
}

static inline void lives(struct job_scope *s, int first, int last, int world)
{
	for (int r = first; r <= last; r++) {
		living[n_living].s = s;
		living[n_living].rank = r;
		living[n_living++].world = world;
	}
}

/* Its processes stay known, dead. */
static inline void dies(struct job_scope *s, int rank)
{
	for (int i = 0; i < n_living; i++)
		if (living[i].s == s && (rank < 0 || living[i].rank == rank))
			living[i--] = living[--n_living];
}

static inline void tied(struct job_scope *a, struct job_scope *b)
{
	ties[n_ties][0] = a;
	ties[n_ties++][1] = b;
}

static inline void settle(void)
{
	jobs_begin(jobs);
	for (int i = 0; i < n_living; i++)
		assert_int_equal(jobs_rank(jobs, living[i].s, living[i].rank, living[i].world), 0);
	for (int i = 0; i < n_ties; i++)
		jobs_tie(ties[i][0], ties[i][1]);
	assert_int_equal(jobs_settle(jobs), 0);
}

#endif
