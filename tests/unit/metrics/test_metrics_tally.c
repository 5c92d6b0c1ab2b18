/* SPDX-License-Identifier: Apache-2.0
 *
 * test_metrics_tally.c - what is counted from page to page never falls while its rank lives: communicators come and go,
 * a count is corrected downwards, a rank is there twice for a moment. What was before the session is not counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metrics/tally.h"
#include "model/state.h"

static const struct job_id job = { .name = "j", .shown = "j", .nth = 1 };
static struct model m;
static struct node node;
static struct proc procs[2];
static struct comm comms[2];
static struct member members[2];
static struct tally tally;

static void setup_job(void)
{
	tally_free(&tally);
	tally = (struct tally){ 0 };
	m = (struct model){ .procs = &procs[0] };
	procs[0] = (struct proc){
		.node = &node, .key = 10, .tgid = 10, .rank = 3, .job = &job, .start_ns = 1, .members = &members[0]
	};
	procs[1] = (struct proc){ .node = &node, .key = 11, .tgid = 11, .rank = 3, .job = &job, .start_ns = 2 };
	for (int i = 0; i < 2; i++) {
		comms[i] = (struct comm){ .hash = 77 + i, .nranks = 2, .n_seen = 2, .parallelism = PARALLEL_DATA };
		members[i] =
			(struct member){ .comm = &comms[i], .proc = &procs[0], .addr = 1000 + i, .seq_known = true };
		members[i].samples.n = 1;
		members[i].samples.counted = true;
	}
	comms[1].parallelism = PARALLEL_TENSOR;
	members[0].next_in_proc = &members[1];
}

static const struct tally_rank *turn(uint64_t a, uint64_t b)
{
	members[0].entered_seq[SEQ_COLL] = a;
	members[1].entered_seq[SEQ_COLL] = b;
	assert_int_equal(tally_turn(&tally, &m), 0);
	return tally_next(&tally, NULL);
}

static void collectives_never_fall(void **state)
{
	const struct tally_rank *r;

	(void)state;
	setup_job();
	r = turn(1000, 50);
	assert_int_equal(r->rank, 3);
	assert_true(r->seen);
	assert_int_equal(r->of[TALLY_DATA].collectives, 0);
	r = turn(1010, 57);
	assert_int_equal(r->of[TALLY_DATA].collectives, 10);
	assert_int_equal(r->of[TALLY_TENSOR].collectives, 7);
	r = turn(1005, 57); /* corrected */
	assert_int_equal(r->of[TALLY_DATA].collectives, 10);
	r = turn(1012, 57);
	assert_int_equal(r->of[TALLY_DATA].collectives, 12);
	members[0].next_in_proc = NULL; /* destroyed */
	r = turn(1013, 0);
	assert_int_equal(r->of[TALLY_TENSOR].collectives, 7);
	assert_false(r->of[TALLY_TENSOR].any);
	assert_int_equal(tally.members.n, 1);
}

static void created_here_counts_from_zero(void **state)
{
	(void)state;
	setup_job();
	members[1].from_init = true;
	assert_int_equal(turn(1000, 4)->of[TALLY_TENSOR].collectives, 4);
}

static void lag_is_to_the_first(void **state)
{
	(void)state;
	setup_job();
	comms[0].highest_seq[SEQ_COLL] = 1003;
	assert_int_equal(turn(1000, 0)->of[TALLY_DATA].lag, 3);
	assert_int_equal(turn(1003, 0)->of[TALLY_DATA].lag, 0);
	members[0].seq_known = false;
	assert_int_equal(turn(1000, 0)->of[TALLY_DATA].lag, 0);
}

static void each_rank_is_there_once(void **state)
{
	const struct tally_rank *r;

	(void)state;
	setup_job();
	procs[0].next = &procs[1];
	r = turn(1, 1);
	assert_ptr_equal(r->proc, &procs[1]);
	assert_null(tally_next(&tally, r));
	procs[1].dead = true;
	r = turn(1, 1);
	assert_ptr_equal(r->proc, &procs[0]);
	procs[0].dead = true;
	assert_null(turn(1, 1));
	assert_int_equal(tally.ranks.n, 0);
}

static void child_is_no_rank(void **state)
{
	(void)state;
	setup_job();
	procs[0].is_child = true;
	assert_null(turn(1, 1));
	setup_job();
	procs[0].rank = -1;
	members[0].rank = members[1].rank = -1;
	assert_null(turn(1, 1));
}

/* Of a collective that waits for all: behind who was first, whatever the order in which they end. */
static void lateness_is_behind_the_first(void **state)
{
	struct entries ring[ENTRY_RING] = {
		[7] = { .used = true, .seq = 7, .first_ns = 1000000000, .last_ns = 1020000000 }
	};
	struct comm_own own;
	struct op op = { .member = &members[0], .kind = OP_ALLREDUCE, .seq = 7, .enqueue_ns = 1020000000, .end_ns = 2 };
	const struct tally_rank *r;

	(void)state;
	setup_job();
	own = (struct comm_own){ .c = comms[0], .ring = { [SEQ_COLL] = ring } };
	members[0].comm = &own.c;
	assert_int_equal(tally_op(&tally, &op), 0);
	op.enqueue_ns = 1000000000;
	assert_int_equal(tally_op(&tally, &op), 0);
	op.seq = 8; /* the others' entries are not known any more */
	assert_int_equal(tally_op(&tally, &op), 0);
	op = (struct op){ .member = &members[0], .kind = OP_SEND, .seq = 7, .enqueue_ns = 1020000000, .end_ns = 2 };
	assert_int_equal(tally_op(&tally, &op), 0);
	r = turn(0, 0);
	assert_int_equal(histogram_n(&r->lateness), 2);
	assert_int_equal(r->lateness.sum_ns, 20000000);
	assert_int_equal(r->lateness.counts[0], 1); /* the first */
	assert_int_equal(r->lateness.counts[4], 1); /* over 0.01, up to 0.03 */
	assert_int_equal(r->of[TALLY_DATA].last, 1);
}

static void say(uint64_t number, enum finding_phase phase, enum severity s)
{
	struct incident i = { .number = number, .phase = phase, .f = { .kind = FINDING_HANG, .severity = s } };

	assert_int_equal(tally_incident(&tally.findings, &i), 0);
}

static void findings_count_once_a_severity(void **state)
{
	(void)state;
	setup_job();
	say(1, PHASE_OPEN, SEVERITY_WARNING);
	say(1, PHASE_UPDATE, SEVERITY_WARNING);
	say(1, PHASE_UPDATE, SEVERITY_CRITICAL);
	say(1, PHASE_UPDATE, SEVERITY_WARNING);
	say(1, PHASE_CLOSE, SEVERITY_CRITICAL);
	say(2, PHASE_OPEN, SEVERITY_WARNING);
	assert_int_equal(tally.findings.n[FINDING_HANG][SEVERITY_WARNING], 2);
	assert_int_equal(tally.findings.n[FINDING_HANG][SEVERITY_CRITICAL], 1);
	turn(0, 0);
	assert_int_equal(tally.findings.incidents.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_never_fall),
		cmocka_unit_test(created_here_counts_from_zero),
		cmocka_unit_test(lag_is_to_the_first),
		cmocka_unit_test(each_rank_is_there_once),
		cmocka_unit_test(child_is_no_rank),
		cmocka_unit_test(findings_count_once_a_severity),
		cmocka_unit_test(lateness_is_behind_the_first),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	tally_free(&tally);
	return failed;
}
