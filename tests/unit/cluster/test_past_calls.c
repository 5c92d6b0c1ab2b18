/* SPDX-License-Identifier: Apache-2.0
 *
 * test_past_calls.c - ranks of several hosts whose past operations differ, by the hashes that their agents send: the
 * minority is named, of the communicator that differed first; nothing is said where hashes are absent, of other
 * operations, of another version, of another process or job, or old.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "command.h"
#include "hub/across/past_calls.h"

#define SEC 1000000000ull

enum { RANKS = 8, WORLD = 0xa0, PAIR = 0xb0 /* .. of ranks 2 i and 2 i + 1 */, PID = 100 };

static struct past_calls past;
static struct model *m;
static struct finding_list found;

static struct said {             /* by the agent of this rank, which is alone on its host; to 0: no hash */
	uint64_t to[2], hash[2]; /* of WORLD, of the pair */
	uint64_t start_ns;
	const char *program, *job;
	bool is_silent;
} said[RANKS];

static void member_fill(Cluster__Member *mb, uint64_t hash, const struct said *s, int k)
{
	*mb = (Cluster__Member)CLUSTER__MEMBER__INIT;
	mb->addr = mb->hash = hash;
	mb->nranks = hash == WORLD ? RANKS : 2;
	mb->has_signatures_to = mb->has_signatures_hash = s->to[k] != 0;
	mb->signatures_to = s->to[k];
	mb->signatures_hash = s->hash[k];
}

static void rank_reports(int rank)
{
	const struct said *s = &said[rank];
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	Cluster__Process p = CLUSTER__PROCESS__INIT, *processes[] = { &p };
	Cluster__Member members[2], *list[] = { &members[0], &members[1] };

	member_fill(&members[0], WORLD, s, 0);
	member_fill(&members[1], PAIR + rank / 2, s, 1);
	p.pid = PID;
	p.start_ns = s->start_ns;
	p.rank = rank;
	p.job = (char *)s->job;
	p.comms = list;
	p.n_comms = 2;
	r.program = (char *)s->program;
	r.processes = processes;
	r.n_processes = 1;
	assert_int_equal(past_calls_take(&past, (uint32_t)rank + 1, m->now_ns, &r, "train"), 0);
}

static int n_forgers, forged_nranks; /* processes that claim to be of WORLD, each on a host of its own */

static void forger_reports(int i)
{
	struct said s = { .to = { 128 }, .hash = { 99 } };
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	Cluster__Process p = CLUSTER__PROCESS__INIT, *processes[] = { &p };
	Cluster__Member mb, *list[] = { &mb };

	member_fill(&mb, WORLD, &s, 0);
	mb.nranks = forged_nranks;
	p.pid = PID;
	p.start_ns = 1;
	p.job = (char *)"train";
	p.comms = list;
	p.n_comms = 1;
	r.program = (char *)RANKTRACE_VERSION;
	r.processes = processes;
	r.n_processes = 1;
	assert_int_equal(past_calls_take(&past, (uint32_t)(RANKS + 1 + i), m->now_ns, &r, "train"), 0);
}

static void seconds(int n)
{
	while (n--) {
		m->now_ns += SEC;
		for (int i = 0; i < n_forgers; i++)
			forger_reports(i);
		for (int r = 0; r < RANKS; r++)
			if (!said[r].is_silent)
				rank_reports(r);
		found.n = 0;
		assert_int_equal(past_calls_find(&past, m, &found), 0);
	}
}

/* All called the same up to number `to`. */
static void all_say(uint64_t to)
{
	for (int r = 0; r < RANKS; r++)
		for (int k = 0; k < 2; k++) {
			said[r].to[k] = to;
			said[r].hash[k] = 7 * to + (uint64_t)k + 1;
		}
}

static int begin(void **state)
{
	(void)state;
	m = model_new();
	assert_non_null(m);
	m->now_ns = 1000 * SEC;
	n_forgers = 0;
	for (int r = 0; r < RANKS; r++)
		said[r] = (struct said){ .start_ns = 1, .program = RANKTRACE_VERSION, .job = "train" };
	all_say(64);
	return 0;
}

static int end(void **state)
{
	(void)state;
	past_calls_free(&past);
	past = (struct past_calls){ 0 };
	finding_list_free(&found);
	model_free(m);
	return 0;
}

static void assert_named(uint64_t comm, uint64_t from, int n, int first)
{
	const struct finding *f = &found.items[0];

	assert_int_equal(found.n, 1);
	assert_int_equal(f->kind, FINDING_MISMATCH);
	assert_int_equal(f->cause, CAUSE_PAST_CALLS);
	assert_int_equal(f->comm, comm);
	assert_int_equal(f->seq, from);
	assert_false(f->has_op);
	assert_int_equal(f->n_ranks, n);
	for (int i = 0; i < n; i++)
		assert_true(f->ranks[i] >= first && f->ranks[i] < first + n);
	assert_int_equal(finding_proc(f, 0), proc_key((uint32_t)f->ranks[0] + 1, PID));
}

static void test_ordinary(void **state)
{
	(void)state;
	for (uint64_t to = 64; to <= 64 * 40; to += 64) {
		all_say(to);
		seconds(1);
		assert_int_equal(found.n, 0);
	}
}

/* Each is at another place at any time, some by several spans, and says so for seconds. */
static void test_not_at_one_place(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 60; i++) {
		for (int r = 0; r < RANKS; r++) {
			uint64_t to = 64 * (i + (uint64_t)(r * 7 + i) % 5);

			said[r].to[0] = to;
			said[r].hash[0] = 7 * to + 1;
		}
		seconds(1 + (int)i % 3);
		assert_int_equal(found.n, 0);
	}
}

static void test_minority_is_named(void **state)
{
	(void)state;
	seconds(2);
	all_say(128);
	said[5].hash[0] = 99;
	seconds(2);
	assert_int_equal(found.n, 0); /* others may say the same yet */
	seconds(2);
	assert_named(WORLD, 64, 1, 5);
	assert_true(found.items[0].confidence > 0.8);
	for (uint64_t i = 3; i < 20; i++) { /* the job goes on, and all call the same again */
		all_say(64 * i);
		seconds(1);
		assert_named(WORLD, 64, 1, 5);
	}
	seconds(30);
	assert_int_equal(found.n, 0);
}

/* Any user's process can claim a communicator: however many do, and of whatever size, none of its ranks is named. */
static void test_claims_name_no_rank(void **state)
{
	static const int many[] = { 1, 6, 20 }, sizes[] = { 1, RANKS, 1000 };

	for (int i = 0; i < 9; i++) {
		end(state);
		begin(state);
		seconds(2);
		n_forgers = many[i % 3];
		forged_nranks = sizes[i / 3];
		all_say(128);
		for (int k = 0; k < 6; k++) {
			seconds(1);
			assert_int_equal(found.n, 0);
		}
	}
}

/* The first report that differs may come from one of the many. */
static void test_many_after_the_one(void **state)
{
	(void)state;
	for (int r = 1; r < RANKS; r++)
		said[r].is_silent = true;
	all_say(128);
	said[0].hash[0] = 99;
	seconds(1);
	for (int r = 1; r < RANKS; r++)
		said[r].is_silent = false;
	seconds(5);
	assert_named(WORLD, 64, 1, 0);
}

static void test_even(void **state)
{
	(void)state;
	all_say(128);
	said[3].hash[1] = 99;
	seconds(5);
	assert_named(PAIR + 1, 64, 2, 2);
	assert_true(found.items[0].confidence <= 0.5);
}

/* What differs in one leads to others. */
static void test_first_communicator(void **state)
{
	(void)state;
	all_say(128);
	said[6].hash[1] = 99;
	seconds(2);
	said[6].to[0] = 192;
	said[6].hash[0] = 98;
	said[2].to[0] = 192;
	said[2].hash[0] = 97;
	seconds(10);
	assert_named(PAIR + 3, 64, 2, 6);
}

static void test_reported_by_a_detector(void **state)
{
	struct finding *f;

	(void)state;
	all_say(128);
	said[5].hash[0] = 99;
	seconds(5);
	assert_int_equal(found.n, 1);
	found.n = 0;
	f = finding_list_add(&found);
	assert_non_null(f);
	f->kind = FINDING_MISMATCH;
	f->comm = WORLD;
	assert_int_equal(past_calls_find(&past, m, &found), 0);
	assert_int_equal(found.n, 1);
	f->comm = WORLD + 1; /* of another communicator: no word of this one */
	assert_int_equal(past_calls_find(&past, m, &found), 0);
	assert_int_equal(found.n, 2);
}

static void assert_silent(void)
{
	for (int i = 0; i < 10; i++) {
		seconds(1);
		assert_int_equal(found.n, 0);
	}
}

/* Most have not said theirs: the two may be the minority. */
static void test_few_have_said(void **state)
{
	(void)state;
	for (int r = 3; r < RANKS; r++)
		said[r].is_silent = true;
	all_say(128);
	said[1].hash[0] = 99;
	assert_silent();
	for (int r = 3; r < RANKS; r++)
		said[r].is_silent = false;
	said[1].to[0] = 192; /* it goes on, and what differs is not said again: the next time */
	said[1].hash[0] = 7 * 192 + 1;
	assert_silent();
	all_say(192 + 64);
	said[1].hash[0] = 99;
	seconds(5);
	assert_named(WORLD, 192, 1, 1);
}

static void test_absent(void **state)
{
	(void)state;
	all_say(128);
	said[4].to[0] = 0; /* attached later, or it lost a record */
	said[4].hash[0] = 99;
	assert_silent();
}

static void test_not_of_one_span(void **state)
{
	(void)state;
	all_say(128);
	said[4].to[0] = 64; /* the same number of places back as another hash */
	said[4].hash[0] = 7 * 64 + 1;
	said[5].to[0] = 128 + 64 * 8;
	said[5].hash[0] = 99;
	said[6].to[0] = 100; /* no agent's */
	said[6].hash[0] = 98;
	said[7].to[0] = 100;
	said[7].hash[0] = 97;
	assert_silent();
}

static void test_other_version(void **state)
{
	(void)state;
	all_say(128);
	said[4].program = "0.0.9";
	said[5].program = NULL;
	said[4].hash[0] = said[5].hash[0] = 99;
	assert_silent();
}

static void test_other_job(void **state)
{
	(void)state;
	all_say(128);
	said[4].job = "another";
	said[4].hash[0] = 99;
	assert_silent();
}

/* What differs comes when nobody remembers what the others said. */
static void test_old(void **state)
{
	(void)state;
	said[4].is_silent = true;
	for (uint64_t to = 64; to <= 64 * 20; to += 64) {
		all_say(to);
		seconds(1);
	}
	said[4].is_silent = false;
	said[4].to[0] = 64 * 4;
	said[4].hash[0] = 99;
	assert_silent();
}

/* A new process of that pid counts from the begin. */
static void test_restart(void **state)
{
	(void)state;
	all_say(64 * 20);
	seconds(3);
	for (int r = 0; r < RANKS; r++)
		said[r].is_silent = true;
	seconds(130);
	for (int r = 0; r < RANKS; r++) {
		said[r].is_silent = false;
		said[r].start_ns = 2;
		said[r].to[0] = 64 * 20;
		said[r].hash[0] = 99;
	}
	assert_silent();
	for (int r = 0; r < RANKS; r++) {
		said[r].to[0] = 64 * 21;
		said[r].hash[0] = r == 2 ? 97 : 98;
	}
	seconds(5);
	assert_named(WORLD, 64 * 20, 1, 2);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		CASE(test_ordinary),
		CASE(test_not_at_one_place),
		CASE(test_minority_is_named),
		CASE(test_claims_name_no_rank),
		CASE(test_many_after_the_one),
		CASE(test_even),
		CASE(test_first_communicator),
		CASE(test_reported_by_a_detector),
		CASE(test_few_have_said),
		CASE(test_absent),
		CASE(test_not_of_one_span),
		CASE(test_other_version),
		CASE(test_other_job),
		CASE(test_old),
		CASE(test_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
