/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_place.c - what the jobs of a host's processes are called, by the places where these live, and which job a
 * text on the command line means. Processes are made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/discover/cgroup_path.h"
#include "inspect/discover/discover_private.h"

#define PROCS_MAX 8
#define NAME "127.0.0.1:29500"

static struct target_set set;
static const struct target_proc *list[PROCS_MAX];

static int setup(void **state)
{
	(void)state;
	set = (struct target_set){ .list = list };
	return 0;
}

static int teardown(void **state)
{
	struct proc_row *p, *next;

	(void)state;
	HASH_ITER (hh, set.procs, p, next) {
		HASH_DEL(set.procs, p);
		DL_DELETE(set.active, p);
		free(p->place);
		free(p);
	}
	return 0;
}

/* A rank (`rank_pid` 0) or a process of that rank, in a pod with a network of its own. */
static struct proc_row *lives(uint32_t pid, const char *job, const char *pod, int rank, int world, uint32_t rank_pid)
{
	struct proc_row *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->place = calloc(1, sizeof(*p->place));
	assert_non_null(p->place);
	p->pub.tgid = pid;
	p->pub.rank = rank;
	p->pub.world_size = world;
	p->pub.is_child = rank_pid;
	p->pub.rank_tgid = rank_pid ? rank_pid : pid;
	p->pub.netns = 40 + (unsigned char)*pod;
	p->pub.place = p->place;
	p->listed = true;
	snprintf(p->pub.job, sizeof(p->pub.job), "%s", job);
	snprintf(p->pub.pod, sizeof(p->pub.pod), "uid-%s", pod);
	snprintf(p->place->pod_name, sizeof(p->place->pod_name), "%s", pod);
	HASH_ADD_INT(set.procs, pub.tgid, p);
	proc_row_wake(&set, p);
	list[set.n_list++] = &p->pub;
	return p;
}

static const char *job_of(const struct proc_row *p)
{
	return p->place->job;
}

static void one_job_keeps_its_name(void **state)
{
	const struct proc_row *a = lives(10, NAME, "a", 0, 2, 0), *b = lives(11, NAME, "a", 1, 2, 0);

	(void)state;
	assert_int_equal(target_set_name_jobs(&set), 0);
	assert_string_equal(job_of(a), NAME);
	assert_string_equal(job_of(b), NAME);
}

/* torchrun's default name in two pods. */
static void two_jobs_of_one_name_are_told_apart(void **state)
{
	const struct proc_row *a = lives(10, NAME, "a", 0, 1, 0), *b = lives(20, NAME, "b", 0, 1, 0),
			      *child = lives(21, NAME, "b", 0, 1, 20), *other = lives(30, "run7", "c", 0, 1, 0);

	(void)state;
	assert_int_equal(target_set_name_jobs(&set), 0);
	assert_string_equal(job_of(a), NAME " (pod a)");
	assert_string_equal(job_of(b), NAME " (pod b)");
	assert_string_equal(job_of(child), NAME " (pod b)"); /* its rank's */
	assert_string_equal(job_of(other), "run7");
}

/* A data worker in another network is no job of its own, and no second rank 0. */
static void a_child_makes_no_job(void **state)
{
	const struct proc_row *a = lives(10, NAME, "a", 0, 1, 0), *child = lives(11, NAME, "b", 0, 1, 10);

	(void)state;
	assert_int_equal(target_set_name_jobs(&set), 0);
	assert_string_equal(job_of(a), NAME);
	assert_string_equal(job_of(child), NAME);
}

static void who_is_not_listed_is_not_named(void **state)
{
	struct proc_row *a = lives(10, NAME, "a", 0, 1, 0);

	(void)state;
	a->listed = false;
	assert_int_equal(target_set_name_jobs(&set), 0);
	assert_string_equal(job_of(a), "");
}

static void a_job_is_chosen_by_either_name(void **state)
{
	const struct proc_row *a = lives(10, NAME, "a", 0, 1, 0);

	(void)state;
	lives(20, NAME, "b", 0, 1, 0);
	assert_true(target_proc_of_job(&a->pub, NAME)); /* not named yet */
	assert_int_equal(target_set_name_jobs(&set), 0);
	assert_true(target_proc_of_job(&a->pub, NAME));
	assert_true(target_proc_of_job(&a->pub, NAME " (pod a)"));
	assert_false(target_proc_of_job(&a->pub, NAME " (pod b)"));
	assert_false(target_proc_of_job(&a->pub, "run7"));
}

/* Slurm's step is in its cgroup, also of a program whose environment was emptied; what the environment says holds. */
static void what_its_cgroup_says_is_taken(void **state)
{
	static const struct cgroup_names in_step = { "0123456789ab", "uid-7", "77.0", "/slurm/job_77/step_0" },
					 in_none = { "", "", "", "/" };
	struct proc_row *p = lives(10, "", "a", 0, 1, 0), *says = lives(11, "", "a", 1, 2, 0),
			*none = lives(12, "", "a", 0, 1, 0);

	(void)state;
	place_names_take(p, &in_step);
	assert_string_equal(p->env.job, "slurm-77.0");
	assert_string_equal(p->env.slurm_job, "77");
	assert_string_equal(p->env.slurm_step, "0");
	assert_string_equal(p->pub.container, "0123456789ab");
	assert_string_equal(p->pub.pod, "uid-7");
	assert_string_equal(p->place->cgroup, "/slurm/job_77/step_0");
	strcpy(says->env.job, "run7");
	strcpy(says->env.slurm_job, "5");
	place_names_take(says, &in_step);
	assert_string_equal(says->env.job, "run7");
	assert_string_equal(says->env.slurm_job, "5");
	assert_string_equal(says->env.slurm_step, "");
	place_names_take(none, &in_none);
	assert_string_equal(none->env.job, "");
	assert_string_equal(none->env.slurm_job, "");
}

/* Two users, one name: each is chosen by its user; the list is in the order of what the jobs are called now. */
static void users_are_told_apart(void **state)
{
	struct proc_row *b = lives(10, NAME, "b", 0, 1, 0), *a = lives(20, NAME, "a", 0, 1, 0);

	(void)state;
	a->pub.uid = 1000;
	b->pub.uid = 1001;
	*a->pub.pod = *b->pub.pod = *a->place->pod_name = *b->place->pod_name = '\0';
	assert_int_equal(target_set_name_jobs(&set), 0);
	assert_string_equal(job_of(a), NAME " (user 1000)");
	assert_true(target_proc_of_job(&a->pub, NAME " (user 1000)"));
	assert_false(target_proc_of_job(&b->pub, NAME " (user 1000)"));
	assert_ptr_equal(set.list[0], &a->pub);
}

/* What a process says of itself is shown with its place; what was never looked at has none. */
static void what_its_environment_says_is_shown(void **state)
{
	struct proc_row *p = lives(10, NAME, "a", 0, 1, 0), bare = { 0 };

	(void)state;
	strcpy(p->env.pod_name, "train-0");
	strcpy(p->env.namespace, "research");
	strcpy(p->env.slurm_job, "77");
	strcpy(p->env.slurm_step, "2");
	place_show(p);
	assert_string_equal(p->place->pod_name, "train-0");
	assert_string_equal(p->place->namespace, "research");
	assert_string_equal(p->place->slurm_job, "77");
	assert_string_equal(p->place->slurm_step, "2");
	place_show(&bare);
	assert_null(bare.place);
}

/* This process, as /proc has it. */
static void what_proc_says_is_read(void **state)
{
	struct proc_row *p = lives(getpid(), NAME, "a", 0, 1, 0);
	struct target_place *place = p->place;
	char link[64] = "", netns[64], cgroups[4096] = "", id[64] = "";
	FILE *f = fopen("/proc/self/cgroup", "r"), *boot = fopen("/proc/sys/kernel/random/boot_id", "r");

	(void)state;
	assert_true(f && boot && fread(cgroups, 1, sizeof(cgroups) - 1, f) > 0 && fgets(id, sizeof(id), boot));
	fclose(f);
	fclose(boot);
	assert_true(readlink("/proc/self/ns/net", link, sizeof(link) - 1) > 0);
	for (int again = 0; again < 2; again++) {
		place_read(p);
		assert_true(p->place == place && p->pub.place == place);
		snprintf(netns, sizeof(netns), "net:[%llu]", (unsigned long long)p->pub.netns);
		assert_string_equal(netns, link);
		assert_true(*place->cgroup && strstr(cgroups, place->cgroup));
		assert_int_equal(strlen(place->boot_id), 36);
		assert_int_equal(strncmp(place->boot_id, id, 36), 0);
	}
	free(p->place);
	p->place = NULL;
	place_read(p);
	assert_non_null(p->place);
	assert_string_equal(p->place->boot_id, p->pub.place->boot_id);
	p->pub.tgid = 0x7fffffff; /* nobody */
	place_read(p);
	assert_int_equal(p->pub.netns, 0);
	assert_string_equal(p->place->cgroup, "");
	p->pub.tgid = getpid();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(one_job_keeps_its_name),         TEST(two_jobs_of_one_name_are_told_apart),
		TEST(a_child_makes_no_job),           TEST(who_is_not_listed_is_not_named),
		TEST(a_job_is_chosen_by_either_name), TEST(what_its_environment_says_is_shown),
		TEST(what_proc_says_is_read),         TEST(users_are_told_apart),
		TEST(what_its_cgroup_says_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
