/* SPDX-License-Identifier: Apache-2.0
 *
 * test_jobs.c - which ranks are one job: pods with torchrun's default name, a container for each rank, several hosts,
 * restarts, elastic sizes, and what communicators prove. Once through job/jobs.h alone, once through the model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_scopes.h"
#include "tests/unit/job/job_script.h"

static void two_pods_with_the_default_name(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b = scope(NAME, 0, 12, "b");

	(void)state;
	lives(a, 0, 3, 4);
	settle();
	assert_string_equal(a->job->shown, NAME);
	lives(b, 0, 3, 4);
	settle();
	assert_true(a->job != b->job);
	assert_string_equal(a->job->shown, NAME " (pod a)");
	assert_string_equal(b->job->shown, NAME " (pod b)");
	dies(b, -1);
	settle();
	assert_string_equal(a->job->shown, NAME " (pod a)"); /* what was reported under it is found again */
}

static void shuffle(uint64_t *rng)
{
	for (int i = n_living - 1; i > 0; i--) {
		int k = random_next(rng) % (i + 1);
		typeof(living[0]) one = living[i];

		living[i] = living[k];
		living[k] = one;
	}
}

/* Ranks in any order: one that lives in both makes two jobs of them, also of what was one before. */
static void one_rank_in_two_places(void **state)
{
	static const int ranks[2][5] = { { 0, 7, 5, 3, 9 }, { 1, 4, 5, 8, 6 } };
	uint64_t rng = test_seed();

	for (int i = 0; i < 60; i++) {
		struct job_scope *s[2];
		int twice = i % 3;

		teardown(state);
		setup(state);
		s[0] = scope(NAME, 0, 11, "a");
		s[1] = scope(NAME, 0, 12, "b");
		for (int k = 0; k < 2; k++)
			for (int r = 0; r < 5; r++)
				if (twice == 1 || !k || ranks[k][r] != 5)
					lives(s[k], ranks[k][r], ranks[k][r], 10);
		if (twice == 2) {
			tied(s[0], s[1]);
			settle();
			assert_true(s[0]->job == s[1]->job);
			n_ties = 0;
			lives(s[1], 5, 5, 10);
		}
		shuffle(&rng);
		settle();
		assert_int_equal(s[0]->job == s[1]->job, !twice);
	}
}

/* Of two jobs of its name a process without a rank is of neither. */
static void without_a_rank_beside_two_jobs(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b = scope(NAME, 0, 12, "b"), *c = scope(NAME, 0, 13, "c");

	(void)state;
	lives(a, 0, 1, 2);
	lives(c, -1, -1, -1);
	settle();
	assert_true(c->job == a->job); /* there is one */
	teardown(state);
	setup(state);
	a = scope(NAME, 0, 11, "a");
	b = scope(NAME, 0, 12, "b");
	c = scope(NAME, 0, 13, "c");
	lives(a, 0, 1, 2);
	lives(c, -1, -1, -1);
	lives(b, 0, 1, 2);
	settle();
	assert_true(a->job != b->job && c->job != a->job && c->job != b->job);
}

/* One starts later, or is of another size: whose rank is first seen says nothing. */
static void pods_that_start_apart(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b = scope(NAME, 0, 12, "b");
	const struct job_id *job;

	(void)state;
	lives(a, 0, 0, 2);
	lives(b, 1, 1, 2);
	settle();
	assert_true(a->job == b->job); /* as ranks in a container each look */
	job = a->job;
	lives(b, 0, 0, 2);
	settle();
	assert_true(a->job == job && b->job != job);
	dies(b, 0);
	settle();
	assert_true(a->job == job && b->job != job); /* rivals once: a death makes them no friends */
}

/* gcc's assembler, with its rank's environment, ended before anybody could look where it lives. */
static void a_short_process_is_no_second_rank(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *gone = scope(NAME, 0, 0, NULL);
	const struct job_id *job;

	(void)state;
	for (int r = 0; r < 4; r++)
		lives(a, r, r, 4);
	settle();
	job = a->job;
	lives(gone, 3, 3, 4);
	settle();
	assert_true(a->job == job);
	assert_string_equal(a->job->shown, NAME);
	dies(gone, -1);
	lives(a, 0, 0, 4);
	settle();
	assert_true(a->job == job);
	assert_string_equal(a->job->shown, NAME);
}

static void jobs_of_two_sizes(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b = scope(NAME, 0, 12, "b");

	(void)state;
	lives(a, 0, 1, 2);
	lives(b, 2, 3, 4);
	settle();
	assert_true(a->job != b->job);
}

static void a_container_for_each_rank(void **state)
{
	struct job_scope *s[4];
	char names[4][2] = { "0", "1", "2", "3" };

	(void)state;
	for (int r = 0; r < 4; r++) {
		s[r] = scope("head-0:29500", 0, 21 + r, names[r]);
		lives(s[r], r, r, 4);
	}
	settle();
	for (int r = 1; r < 4; r++)
		assert_true(s[r]->job == s[0]->job);
	assert_string_equal(s[0]->job->shown, "head-0:29500");
}

/* Two such jobs of one name: only communicators say whose rank is whose, and what they said stays true. */
static void containers_of_two_jobs(void **state)
{
	struct job_scope *a[2], *b[2];
	char names[4][3] = { "a0", "a1", "b0", "b1" };

	(void)state;
	for (int r = 0; r < 2; r++) {
		a[r] = scope(NAME, 0, 31 + r, names[r]);
		b[r] = scope(NAME, 0, 41 + r, names[2 + r]);
	}
	lives(a[0], 0, 0, 2);
	lives(b[1], 1, 1, 2);
	lives(a[1], 1, 1, 2);
	lives(b[0], 0, 0, 2);
	settle();
	assert_true(a[0]->job != b[0]->job && a[1]->job != b[1]->job && a[0]->job != b[1]->job);
	tied(a[0], a[1]);
	tied(b[0], b[1]);
	settle();
	assert_true(a[0]->job == a[1]->job && b[0]->job == b[1]->job && a[0]->job != b[0]->job);
	n_ties = 0; /* their communicators are being made anew */
	settle();
	assert_true(a[0]->job == a[1]->job && b[0]->job == b[1]->job && a[0]->job != b[0]->job);
}

/* What was tied and then says one rank twice is tied no more: each container runs a job of its own now. */
static void a_tie_ends_when_ranks_collide(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b = scope(NAME, 0, 12, "b");

	(void)state;
	lives(a, 0, 0, 2);
	lives(b, 1, 1, 2);
	tied(a, b);
	settle();
	assert_true(a->job == b->job);
	n_ties = 0;
	lives(a, 1, 1, 2);
	lives(b, 0, 0, 2);
	settle();
	assert_true(a->job != b->job);
}

static void one_job_on_three_hosts(void **state)
{
	struct job_scope *s[3];

	(void)state;
	for (int h = 0; h < 3; h++) {
		s[h] = scope("node-1:29500", h, 11 + h, "");
		lives(s[h], 8 * h, 8 * h + 7, 24);
	}
	settle();
	assert_true(s[0]->job == s[1]->job && s[0]->job == s[2]->job);
}

/* Each host has a job of torchrun's default name. */
static void a_job_on_each_host(void **state)
{
	struct job_scope *s[3];

	(void)state;
	for (int h = 0; h < 3; h++) {
		s[h] = scope(NAME, h, 4026531840, "");
		lives(s[h], 0, 7, 8);
	}
	settle();
	assert_true(s[0]->job != s[1]->job && s[0]->job != s[2]->job && s[1]->job != s[2]->job);
	assert_string_equal(s[1]->job->shown, NAME " (host host-b)");
}

static void a_restart_in_its_place(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a");
	const struct job_id *job;

	(void)state;
	lives(a, 0, 3, 4);
	settle();
	job = a->job;
	dies(a, -1);
	settle();
	lives(a, 0, 2, 3); /* elastic: one less */
	settle();
	assert_true(a->job == job);
	assert_string_equal(a->job->shown, NAME);
}

static void a_restart_in_another_pod(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b;

	(void)state;
	lives(a, 0, 3, 4);
	settle();
	dies(a, -1);
	settle();
	b = scope(NAME, 0, 12, "b");
	lives(b, 0, 3, 4);
	settle();
	assert_true(a->job != b->job);
	assert_string_equal(b->job->shown, NAME); /* nothing that lives has it */
}

/* One pod of a job is replaced: it is the job's as soon as the old rank is dead, or a communicator has both. */
static void a_rank_in_a_new_pod(void **state)
{
	struct job_scope *s[3], *again;

	(void)state;
	for (int r = 0; r < 3; r++) {
		s[r] = scope("head-0:29500", 0, 21 + r, "");
		lives(s[r], r, r, 3);
	}
	settle();
	dies(s[1], -1);
	again = scope("head-0:29500", 0, 31, "");
	lives(again, 1, 1, 3);
	settle();
	assert_true(again->job == s[0]->job);
	dies(again, -1);
	lives(s[1], 1, 1, 3);
	lives(again, 1, 1, 3); /* both for a moment */
	settle();
	assert_true(again->job != s[0]->job);
	dies(s[1], -1);
	tied(again, s[0]);
	tied(s[2], s[0]);
	settle();
	assert_true(again->job == s[0]->job && s[2]->job == s[0]->job);
}

static void elastic_on_two_hosts(void **state)
{
	struct job_scope *a = scope("node-1:29500", 0, 11, ""), *b = scope("node-1:29500", 1, 12, "");
	const struct job_id *job;

	(void)state;
	lives(a, 0, 3, 8);
	lives(b, 4, 7, 8);
	tied(a, b);
	settle();
	job = a->job;
	assert_true(b->job == job);
	n_ties = 0;
	dies(b, 7);
	dies(a, -1);
	lives(a, 0, 3, 7); /* the other host's are restarted later */
	settle();
	assert_true(a->job == job && b->job == job);
}

static void without_names_or_ranks(void **state)
{
	struct job_scope *a = scope("", 0, 11, "a"), *b = scope("", 0, 12, "b"), *old = scope("", 0, 0, ""),
			 *older = scope("", 1, 0, "");

	(void)state;
	lives(a, -1, -1, -1);
	lives(b, -1, -1, -1);
	lives(old, -1, -1, -1);
	lives(older, -1, -1, -1);
	settle();
	assert_true(a->job != b->job && a->job != old->job);
	assert_true(old->job == older->job); /* nothing says their place, as in old recordings */
	assert_string_equal(b->job->shown, "");
	tied(a, b);
	settle();
	assert_true(a->job == b->job);
}

/* A process that maps the libraries and has no rank yet. */
static void no_rank_yet(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a"), *b = scope(NAME, 0, 12, "b");

	(void)state;
	lives(a, 0, 1, 2);
	lives(b, -1, -1, -1);
	settle();
	assert_true(a->job == b->job);
}

/* Anybody can write another's job, rank and size into an environment. */
static void another_user_is_another_job(void **state)
{
	struct job_place at = { .netns = 11, .cgroup = "/", .user = 1001 }, other = at, unknown = at;
	struct job_scope *a, *b, *c, *in, *out;

	(void)state;
	other.user = 65535;
	unknown.user = 0;
	a = jobs_scope(jobs, NAME, &at);
	b = jobs_scope(jobs, NAME, &other);
	a->n_procs = b->n_procs = 1;
	assert_true(a->job != b->job); /* before anything is settled, too */
	lives(a, 0, 2, 4);
	lives(b, 3, 3, 4); /* the rank that is missing there */
	ties[n_ties][0] = a;
	ties[n_ties++][1] = b;
	settle();
	assert_true(a->job != b->job);
	assert_string_equal(a->job->shown, NAME " (user 1000)");
	assert_string_equal(b->job->shown, NAME " (user 65534)");
	assert_true(job_selected(NAME " (user 65534)", NAME, &other) && !job_selected(NAME " (user 65534)", NAME, &at));
	c = jobs_scope(jobs, "old", &unknown);
	assert_true(c && c->job != a->job);
	at.container = other.container = "c1"; /* a border that the kernel keeps */
	in = jobs_scope(jobs, NAME, &at);
	out = jobs_scope(jobs, NAME, &other);
	assert_true(in == out);
}

static void the_first_difference_distinguishes(void **state)
{
	struct job_place at = { .netns = 11, .container = "c1", .pod_name = "train-0" }, other = at;
	struct job_scope *a, *b, *c;

	(void)state;
	other.container = "c2";
	a = jobs_scope(jobs, NAME, &at);
	b = jobs_scope(jobs, NAME, &other);
	a->n_procs = b->n_procs = 1;
	lives(a, 0, 1, 2);
	lives(b, 0, 1, 2);
	settle();
	assert_string_equal(a->job->shown, NAME " (container c1)");
	assert_string_equal(b->job->shown, NAME " (container c2)");
	other.netns = 12; /* same names, and a cgroup that says nothing */
	c = jobs_scope(jobs, NAME, &other);
	c->n_procs = 1;
	lives(c, 0, 1, 2);
	settle();
	assert_string_equal(c->job->shown, NAME " (netns 12)");
	at.cgroup = "/";
	c = jobs_scope(jobs, NAME, &at);
	c->n_procs = 1;
	lives(c, 0, 1, 2);
	settle();
	assert_string_equal(c->job->shown, NAME " #4");
}

/* A scope without a process is forgotten, and what comes there later is a new one. */
static void forgets_places(void **state)
{
	struct job_scope *a = scope(NAME, 0, 11, "a");
	const struct job_id *job;

	(void)state;
	lives(a, 0, 1, 2);
	settle();
	job = a->job;
	dies(a, -1);
	a->n_procs = 0;
	settle();
	a = scope(NAME, 0, 11, "a");
	lives(a, 0, 1, 2);
	settle();
	assert_true(a->job != job && a->job->nth == 2);
}

/* --- the model --- */

static struct model *m;

static void apply(struct event e)
{
	assert_int_equal(model_apply(m, &e), 0);
}

static void given(uint32_t tgid, int rank, uint64_t netns, bool is_child)
{
	struct event e = { .kind = EV_PROC, .tgid = tgid, .tid = tgid, .ts_ns = SEC };

	e.proc.start_ns = 1;
	e.proc.rank = rank;
	e.proc.world_size = 2;
	e.proc.job = NAME;
	e.proc.netns = netns;
	e.proc.is_child = is_child;
	e.proc.pod_name = netns == 11 ? "a" : "b";
	e.proc.boot_id = "boot";
	apply(e);
}

static void tick(void)
{
	apply((struct event){ .kind = EV_TICK, .ts_ns = 2 * SEC });
}

static void sampled(uint32_t tgid, uint64_t hash, int rank)
{
	struct event e = { .kind = EV_COMM_SAMPLE, .tgid = tgid, .tid = tgid, .ts_ns = SEC };

	e.comm_sample.comm = 0x1000;
	e.comm_sample.hash = hash;
	e.comm_sample.rank = rank;
	e.comm_sample.nranks = 2;
	apply(e);
}

static const struct job_id *job_of(uint32_t tgid)
{
	return model_proc(m, tgid)->job;
}

static void the_model_settles_at_ticks(void **state)
{
	(void)state;
	m = model_new();
	for (int r = 0; r < 2; r++) {
		given(10 + r, r, 11, false);
		given(20 + r, r, 12, false);
	}
	tick();
	assert_true(job_of(10) == job_of(11) && job_of(20) == job_of(21) && job_of(10) != job_of(20));
	assert_string_equal(job_of(20)->shown, NAME " (pod b)");
	assert_true(model_rank(m, job_of(20), 1) == model_proc(m, 21));
	assert_string_equal(model_next_node(m, NULL)->boot_id, "boot");
	given(30, 1, 12, true); /* its parent is not known: the rank in its place leads it */
	assert_true(model_proc(m, 30)->leader == model_proc(m, 21) && job_of(30) == job_of(21));
	model_free(m);
}

static void communicators_tie_in_the_model(void **state)
{
	(void)state;
	m = model_new();
	given(10, 0, 11, false);
	given(11, 1, 12, false);
	given(20, 0, 13, false);
	given(21, 1, 14, false);
	tick();
	assert_true(job_of(10) != job_of(11) && job_of(20) != job_of(21));
	sampled(10, 7, 0);
	sampled(20, 8, 0);
	sampled(11, 7, 1);
	sampled(21, 8, 1);
	tick();
	assert_true(job_of(10) == job_of(11) && job_of(20) == job_of(21) && job_of(10) != job_of(20));
	model_free(m);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(two_pods_with_the_default_name),
		TEST(pods_that_start_apart),
		TEST(one_rank_in_two_places),
		TEST(without_a_rank_beside_two_jobs),
		TEST(a_short_process_is_no_second_rank),
		TEST(jobs_of_two_sizes),
		TEST(a_container_for_each_rank),
		TEST(containers_of_two_jobs),
		TEST(a_tie_ends_when_ranks_collide),
		TEST(one_job_on_three_hosts),
		TEST(a_job_on_each_host),
		TEST(a_restart_in_its_place),
		TEST(a_restart_in_another_pod),
		TEST(a_rank_in_a_new_pod),
		TEST(elastic_on_two_hosts),
		TEST(without_names_or_ranks),
		TEST(no_rank_yet),
		TEST(another_user_is_another_job),
		TEST(the_first_difference_distinguishes),
		TEST(forgets_places),
		TEST(the_model_settles_at_ticks),
		TEST(communicators_tie_in_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
