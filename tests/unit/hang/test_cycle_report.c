/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cycle_report.c - cycles from tick to tick, and what is said of one, word for word: four ranks by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/deadlock.h"
#include "detect/hang/p2p.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 4

static struct model m, *empty;
static struct node node;
static struct job_id job = { .name = "j", .shown = "j" };
static struct steps steps;
static struct comm comms[2];
static struct member members[RANKS];
static struct proc procs[RANKS];
static struct op op;
static struct comm_init init, split;
static struct cycle_rank ranks[RANKS];
static struct wait_roots roots;
static struct wait_cycle *const cycle = &roots.cycles[0];
static struct deadlocks known;
static struct finding_list list;

static int fresh(void **state)
{
	static struct member *by_rank[RANKS];

	(void)state;
	empty = model_new();
	m = *empty;
	m.now_ns = 20 * SEC;
	m.hang_floor_ns = 2 * SEC;
	known = (struct deadlocks){ 0 };
	for (int i = 0; i < 2; i++)
		comms[i] = (struct comm){ .hash = 12 + i, .nranks = RANKS, .n_seen = RANKS, .by_rank = by_rank };
	for (int r = 0; r < RANKS; r++) {
		procs[r] = (struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = r, .steps = &steps };
		procs[r].job = &job;
		procs[r].leader = &procs[r];
		procs[r].members = by_rank[r] = &members[r];
		members[r] = (struct member){ .comm = &comms[0], .proc = &procs[r], .rank = r, .device = r };
	}
	op = (struct op){ .member = &members[0], .kind = OP_BROADCAST, .seq = 7, .peer = -1, .enqueue_ns = 16 * SEC };
	init = (struct comm_init){ .kind = COMM_INIT_RANK, .id_hash = 14 };
	split = (struct comm_init){ .kind = COMM_INIT_SPLIT, .parent = &comms[1] };
	for (int r = 0; r < RANKS; r++)
		ranks[r] = (struct cycle_rank){ .rank = { &procs[r], 0 }, .fingerprint = r == 2 ? 5 : 9 };
	*cycle = (struct wait_cycle){ .ranks = ranks, .n_ranks = RANKS, .n_hops = 2, .since_ns = 16 * SEC };
	cycle->hops[0] = (struct cycle_rank){ .rank = { &procs[0], 0 } };
	cycle->hops[0].in = (struct awaited){ .comm = &comms[0], .op = &op, .space = SEQ_COLL, .seq = 7 };
	cycle->hops[1] = (struct cycle_rank){ .rank = { &procs[2], 0 } };
	cycle->hops[1].in = (struct awaited){ .comm = &comms[1], .space = SEQ_GATHER, .seq = 3 };
	cycle->fingerprints[0] = 5;
	cycle->fingerprints[1] = 9;
	cycle->n_fingerprints = 2;
	roots.n_cycles = 1;
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	model_free(empty);
	return 0;
}

static size_t tick(uint64_t after_ns)
{
	m.now_ns += after_ns;
	list.n = 0;
	assert_int_equal(deadlocks_report(&known, &m, &roots, &list), 0);
	return list.n;
}

/* What is said of it now, as of one that stands for long. */
static const char *said(void)
{
	known = (struct deadlocks){ { { cycle->fingerprints[0], SEC, false } }, 1 };
	assert_int_equal(tick(0), 1);
	return finding_text_of(&list.items[0]);
}

#define SAYS(text) assert_string_equal(said(), text)

static const struct finding *found(void)
{
	said();
	return &list.items[0];
}

static void it_must_stand_for_the_floor(void **state)
{
	(void)state;
	assert_int_equal(tick(0), 0);
	assert_int_equal(tick(2 * SEC - 1), 0);
	assert_int_equal(tick(1), 1);
	roots.n_cycles = 0;
	assert_int_equal(tick(0), 0);
	assert_int_equal(known.n, 0);
	roots.n_cycles = 1;
	assert_int_equal(tick(0), 0); /* it is another one, now */
	assert_int_equal(tick(2 * SEC), 1);
	cycle->n_ranks = 0;
	assert_int_equal(tick(0), 0);
	cycle->n_ranks = RANKS;
	cycle->n_hops = 0;
	assert_int_equal(tick(0), 0);
}

/* One operation of it is enough, as long as it is the same. */
static void it_is_known_by_its_operations(void **state)
{
	uint64_t key;

	(void)state;
	tick(0);
	assert_int_equal(tick(3 * SEC), 1);
	key = list.items[0].key;
	cycle->fingerprints[0] = 4;
	cycle->fingerprints[1] = 5;
	assert_int_equal(tick(0), 1);
	assert_true(list.items[0].key == key);
	cycle->fingerprints[1] = 6;
	assert_int_equal(tick(0), 0);
	assert_int_equal(tick(2 * SEC), 1);
	assert_true(list.items[0].key != key);
	cycle->n_fingerprints = 0;
	assert_int_equal(tick(9 * SEC), 0);
	assert_int_equal(known.n, 0);
}

static void as_many_as_are_kept(void **state)
{
	(void)state;
	for (int i = 0; i < CYCLES_MAX; i++) {
		roots.cycles[i] = *cycle;
		roots.cycles[i].fingerprints[0] = 100 + i;
		roots.cycles[i].n_fingerprints = 1;
	}
	roots.n_cycles = CYCLES_MAX;
	assert_int_equal(tick(0), 0);
	assert_int_equal(known.n, CYCLES_MAX);
	assert_int_equal(tick(2 * SEC), CYCLES_MAX);
	for (int i = 0; i < CYCLES_MAX; i++)
		roots.cycles[i].fingerprints[0] = 200 + i;
	assert_int_equal(tick(0), 0); /* no room: those before go at the end of this tick */
	assert_int_equal(known.n, 0);
}

/* By counters it stands since before it was first seen. */
static void it_stood_before(void **state)
{
	(void)state;
	cycle->hops[0].in = cycle->hops[1].in = (struct awaited){ .init = &init, .space = SPACE_INIT };
	cycle->stood_ns = 18 * SEC + 1;
	assert_int_equal(tick(0), 0);
	assert_int_equal(tick(1), 1);
	cycle->stood_ns = 30 * SEC; /* after it was first seen: then counts */
	assert_int_equal(tick(2 * SEC - 2), 0);
	assert_int_equal(tick(1), 1);
}

/* A file that begins while it stands has no tick of before. */
static void it_stands_where_the_stream_begins(void **state)
{
	struct op last = op;

	(void)state;
	last.enqueue_ns = 18 * SEC;
	for (int r = 0; r < RANKS; r++)
		ranks[r].in = (struct awaited){ .comm = &comms[0], .op = r == 2 ? &last : &op, .space = SEQ_COLL };
	m.resumed_ns = m.now_ns;
	assert_int_equal(tick(0), 1);
	known.n = 0;
	last.enqueue_ns++;
	assert_int_equal(tick(0), 0);
	assert_int_equal(tick(1), 1);
	known.n = 0;
	assert_int_equal(tick(0), 0); /* seen at a later tick: from then on */
	known.n = 0;
	ranks[3].in.op = NULL; /* nothing says since when */
	m.resumed_ns = m.now_ns;
	assert_int_equal(tick(0), 0);
	assert_int_equal(tick(2 * SEC), 1);
}

static void in_words(void **state)
{
	(void)state;
	SAYS("hang deadlock order 0.95 Broadcast #7 in 12 since 16 w 0 c 0 by 0 ranks 2,0,1,3\n"
	     "cycle rank 0 waits in Broadcast #7 of 0x000000000000000c for rank 2\n"
	     "rank 2 waits in operation #3 of 0x000000000000000d for rank 0\n"
	     "comms 0x000000000000000c,0x000000000000000d\nn_comms 2\nother_order_ranks 2\nn_in_cycle 4\n"
	     "waiting_s 4");
	cycle->n_hops = 3;
	cycle->hops[1].in = (struct awaited){ .comm = &comms[1], .init = &split, .space = SPACE_INIT };
	cycle->hops[2] = (struct cycle_rank){ { &procs[3], 0 }, { .init = &init, .space = SPACE_INIT }, 0 };
	cycle->n_comms = 2;
	cycle->comms[0] = 14;
	cycle->comms[1] = 15;
	SAYS("hang deadlock order 0.95 Broadcast #7 in 12 since 16 w 0 c 0 by 0 ranks 2,0,1,3\n"
	     "cycle rank 0 waits in Broadcast #7 of 0x000000000000000c for rank 2\n"
	     "rank 2 waits in Split of parent 0x000000000000000d for rank 3\n"
	     "rank 3 waits in InitRank of 0x000000000000000e for rank 0\n"
	     "comms 0x000000000000000c,0x000000000000000d,0x000000000000000e,0x000000000000000f\nn_comms 4\n"
	     "other_order_ranks 2\nn_in_cycle 4\nwaiting_s 4");
	cycle->hops[0].in = cycle->hops[2].in;
	SAYS("hang deadlock order 0.95 #0 in 14 since 16 w 0 c 0 by 0 ranks 2,0,1,3\n"
	     "cycle rank 0 waits in InitRank of 0x000000000000000e for rank 2\n"
	     "rank 2 waits in Split of parent 0x000000000000000d for rank 3\n"
	     "rank 3 waits in InitRank of 0x000000000000000e for rank 0\n"
	     "comms 0x000000000000000e,0x000000000000000d,0x000000000000000f\nn_comms 3\nother_order_ranks 2\n"
	     "n_in_cycle 4\nwaiting_s 4");
	cycle->hops[0].in = (struct awaited){ .comm = &comms[0], .space = SEQ_COLL, .seq = 8 };
	assert_true(found()->confidence == 0.8);
	assert_false(found()->has_op);
	assert_int_equal(found()->seq, 0);
}

/* Those in the operation that fewer are in come first; of equals the one that is first. */
static void who_comes_first(void **state)
{
	static const struct {
		uint64_t in[RANKS];
		const char *first, *few;
	} cases[] = {
		{ { 9, 9, 5, 9 }, " 2,0,1,3\n", "\nother_order_ranks 2\n" },
		{ { 5, 9, 5, 5 }, " 1,0,2,3\n", "\nother_order_ranks 1\n" },
		{ { 9, 9, 5, 5 }, " 0,1,2,3\n", NULL },
		{ { 5, 9, 9, 5 }, " 0,3,1,2\n", NULL },
		{ { 4, 4, 5, 9 }, " 2,0,1,3\n", "\nother_order_ranks 2\n" },
		{ { 4, 9, 8, 7 }, " 0,1,2,3\n", "\nother_order_ranks 0\n" },
		{ { 6, 6, 6, 6 }, " 0,1,2,3\n", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].fingerprint = cases[i].in[r];
		said();
		assert_non_null(strstr(finding_words, cases[i].first));
		assert_int_equal(strstr(finding_words, "other_order_ranks") != NULL, cases[i].few != NULL);
		assert_true(!cases[i].few || strstr(finding_words, cases[i].few));
	}
}

static void other(enum finding_kind kind, uint64_t key, uint64_t comm_hash)
{
	struct finding *f = finding_list_add(&list);

	f->kind = kind;
	f->key = key;
	f->comm = comm_hash;
}

static uint64_t cause(enum finding_kind kind, uint64_t comm_hash)
{
	known = (struct deadlocks){ { { cycle->fingerprints[0], SEC, false } }, 1 };
	list.n = 0;
	other(kind, 91, comm_hash);
	assert_int_equal(deadlocks_report(&known, &m, &roots, &list), 0);
	assert_int_equal(list.n, 2);
	return list.items[1].caused_by_key;
}

static void a_mismatch_explains_it(void **state)
{
	(void)state;
	assert_int_equal(cause(FINDING_MISMATCH, 12), 91);
	assert_int_equal(cause(FINDING_MISMATCH, 13), 91);
	assert_int_equal(cause(FINDING_MISMATCH, 14), 0);
	assert_int_equal(cause(FINDING_HANG, 12), 0);
}

static void what_was_lost_makes_it_unsure(void **state)
{
	(void)state;
	m.last_loss_ns = 6 * SEC;
	assert_int_equal(found()->class, HANG_DEADLOCK);
	assert_true(found()->confidence == 0.95);
	m.last_loss_ns++;
	assert_int_equal(found()->class, HANG_UNKNOWN);
	assert_true(found()->confidence == 0.4);
	m.last_loss_ns = 0;
	cycle->since_ns = 9 * SEC;
	assert_int_equal(found()->class, HANG_DEADLOCK);
}

/* Ranks of one process, by the thread that calls for them. */
static void threads_of_one_process(void **state)
{
	static struct task thread = { .tid = 61, .name = "gpu_0" };
	static struct op last[RANKS];

	(void)state;
	for (int r = 0; r < RANKS; r++) {
		last[r] = (struct op){ .tid = r < 3 ? 61 : 64, .call_ns = SEC };
		members[r].proc = &procs[0];
		members[r].ops_tail = &last[r];
		members[r].next_in_proc = r + 1 < RANKS ? &members[r + 1] : NULL;
	}
	procs[0].shared = true;
	procs[0].tasks = &thread;
	cycle->hops[0].rank = ranks[0].rank = (struct rank_node){ &procs[0], 61 };
	cycle->hops[1].rank = ranks[1].rank = (struct rank_node){ &procs[0], 64 };
	cycle->n_ranks = 2;
	ranks[0].fingerprint = 9;
	ranks[1].fingerprint = 5;
	SAYS("hang deadlock order 0.95 Broadcast #7 in 12 since 16 w 0 c 0 by 0 ranks 0,1,2,3\n"
	     "cycle ranks 0,1,2 (gpu_0, tid 61) wait in Broadcast #7 of 0x000000000000000c for rank 3 (tid 64)\n"
	     "rank 3 (tid 64) waits in operation #3 of 0x000000000000000d for ranks 0,1,2 (gpu_0, tid 61)\n"
	     "comms 0x000000000000000c,0x000000000000000d\nn_comms 2\nn_in_cycle 4\nwaiting_s 4");
	thread.name = "";
	ranks[0].fingerprint = 5;
	said();
	assert_non_null(strstr(finding_words, "ranks 0,1,2 (tid 61) wait in Broadcast #7"));
}

static void where_its_hosts_are(void **state)
{
	static struct task at[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		at[i] = (struct task){ .tid = 50 + 2 * i, .tgid = 50 + 2 * i, .name = "python", .proc = &procs[2 * i] };
		at[i].stack = (struct task_stack){ 17 * SEC, false, "", "", "", "", "", "", "" };
		at[i].stack.python = i ? "a.py:3 f" : "b.py:4 g";
		procs[2 * i].tasks = &at[i];
	}
	said();
	assert_string_equal(finding_text(&list.items[0], EVIDENCE_WAITING_IN), "rank 0 in b.py:4 g\n"
									       "rank 2 in a.py:3 f");
	procs[0].tasks = NULL;
	said();
	assert_string_equal(finding_text(&list.items[0], EVIDENCE_WAITING_IN), "rank 2 in a.py:3 f");
}

/* One that left out its side of a transfer is named alone. */
static void one_that_went_on(void **state)
{
	(void)state;
	cycle->skipped = (struct rank_node){ &procs[1], 0 };
	cycle->pending = (struct pending){ .member = &members[1], .space = SPACE_P2P, .peer = 2, .kind = OP_RECV };
	cycle->pending.since_ns = 16 * SEC;
	cycle->pending.seq = 4;
	SAYS("hang p2p_unmatched went_on 0.95 Recv #4 in 12 peer 2 since 16 w 0 c 0 by 0 ranks 1\nwaiting_s 4\n"
	     "n_waiting 0\nwaiting_ranks 2\nnot_called Recv\nsender 2\nreceiver 1\nn_sends 0\nn_recvs 0\n"
	     "cpu_share 0\nio_bytes_per_s 0\nlimit_s 2");
	cycle->skipped.tid = 71;
	SAYS("hang p2p_unmatched went_on 0.95 Recv #4 in 12 peer 2 since 16 w 0 c 0 by 0 ranks 1\n"
	     "member pid 51, GPU 1, rank 1 of 4 in 0x000000000000000c\ngpu 1\ncomm_rank 1\nwaiting_s 4\n"
	     "n_waiting 0\nwaiting_ranks 2\nnot_called Recv\nsender 2\nreceiver 1\nn_sends 0\nn_recvs 0\n"
	     "cpu_share 0\nio_bytes_per_s 0\nlimit_s 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_must_stand_for_the_floor, fresh, done),
		cmocka_unit_test_setup_teardown(it_is_known_by_its_operations, fresh, done),
		cmocka_unit_test_setup_teardown(as_many_as_are_kept, fresh, done),
		cmocka_unit_test_setup_teardown(it_stood_before, fresh, done),
		cmocka_unit_test_setup_teardown(it_stands_where_the_stream_begins, fresh, done),
		cmocka_unit_test_setup_teardown(in_words, fresh, done),
		cmocka_unit_test_setup_teardown(who_comes_first, fresh, done),
		cmocka_unit_test_setup_teardown(a_mismatch_explains_it, fresh, done),
		cmocka_unit_test_setup_teardown(what_was_lost_makes_it_unsure, fresh, done),
		cmocka_unit_test_setup_teardown(threads_of_one_process, fresh, done),
		cmocka_unit_test_setup_teardown(where_its_hosts_are, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_went_on, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
