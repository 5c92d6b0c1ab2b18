/* SPDX-License-Identifier: Apache-2.0
 *
 * test_unobserved_bounds.c - a rank whose memory cannot be read, and one without a process, by hand: when it is named,
 * and what is said, word for word. Four ranks of one host, by their counters; the third is not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/unobserved.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 4
#define ODD 2

static struct model m, *empty;
static struct node node;
static struct job_id job = { .name = "j", .shown = "j" };
static struct steps steps;
static struct comm comms[2];
static struct member members[2][RANKS], *by_rank[2][RANKS];
static struct proc procs[RANKS], *odd = &procs[ODD];
static struct task tasks[RANKS];
static struct wait_root root;
static struct wait_roots waits;
static struct finding_list list;

static void join(int c, int r, uint64_t since_ns)
{
	struct member *mb = by_rank[c][r] = &members[c][r];

	*mb = (struct member){ .comm = &comms[c], .proc = &procs[r], .rank = r, .seq_known = true };
	mb->samples = (struct samples){ .n = 2, .counted = true, .since_ns = since_ns, .seen_ns = 18 * SEC };
	mb->samples.counters[OP_ALLREDUCE] = mb->entered_seq[SEQ_COLL] = 8 - 3 * c;
	mb->next_in_comm = comms[c].members;
	mb->next_in_proc = procs[r].members;
	comms[c].members = procs[r].members = mb;
}

static int fresh(void **state)
{
	(void)state;
	empty = model_new();
	m = *empty;
	m.now_ns = 20 * SEC;
	m.hang_floor_ns = SEC / 4; /* an autopsy: at once; a session is in test_detect_absent */
	m.procs = &procs[0];
	m.comms = &comms[0];
	memset(by_rank, 0, sizeof(by_rank));
	for (int c = 0; c < 2; c++) {
		comms[c] = (struct comm){ .hash = 12 + c, .nranks = RANKS, .n_seen = RANKS - 1, .by_rank = by_rank[c] };
		comms[c].highest_seq[SEQ_COLL] = 8 - 3 * c;
	}
	for (int r = 0; r < RANKS; r++) {
		procs[r] = (struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = r, .steps = &steps };
		procs[r].local_rank = r;
		procs[r].world_size = RANKS;
		procs[r].job = &job;
		procs[r].leader = &procs[r];
		procs[r].next = r + 1 < RANKS ? &procs[r + 1] : NULL;
		tasks[r] = (struct task){ .tid = 50 + r, .tgid = 50 + r, .proc = &procs[r], .name = "python" };
		procs[r].tasks = &tasks[r];
		for (int c = 0; c < 2 && r != ODD; c++)
			join(c, r, (11 + r) * SEC);
	}
	tasks[ODD].blocked = tasks[ODD].mmap_lock_held = true;
	waits = (struct wait_roots){ .roots = &root };
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	model_free(empty);
	return 0;
}

/* --- a rank whose memory cannot be read --- */

static const struct finding *unread(void)
{
	list.n = 0;
	assert_int_equal(unread_report(&m, &waits, &list), 0);
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

/* Roots of another job say nothing of this one. */
static void one_whose_job_is_explained(void **state)
{
	static const struct job_id other = { .name = "k", .shown = "k" };
	struct proc of_other = { .job = &other };

	(void)state;
	waits.n_roots = 1;
	root.proc = &of_other;
	assert_non_null(unread());
	root.proc = &procs[0];
	assert_null(unread());
	waits.n_roots = 0;
}

static void one_that_is_not_read(void **state)
{
	(void)state;
	assert_string_equal(finding_text_of(unread()),
			    "hang host_blocked mmap_lock 0.7 AllReduce #7 in 12 since 14 w 0 c 0 by 0 ranks 2\n"
			    "waiting_s 6\nn_waiting 3\nwaiting_ranks 0,1,3\nknown_from counters\n"
			    "own_counters not readable: mmap_lock is held\n"
			    "seq_is the last that peers entered; it may lack earlier ones too");
	comms[0].next = &comms[1];
	comms[0].members->samples.counters[OP_BROADCAST] = 3;
	comms[0].members->samples.counters[OP_REDUCE] = 9;
	assert_string_equal(finding_text_of(unread()),
			    "hang host_blocked mmap_lock 0.7 Reduce #7 in 12 since 14 w 0 c 0 by 0 ranks 2\n"
			    "waiting_s 6\nn_waiting 3\nwaiting_ranks 0,1,3\nknown_from counters\n"
			    "own_counters not readable: mmap_lock is held\n"
			    "seq_is the last that peers entered; it may lack earlier ones too\n"
			    "op_one_of Broadcast,Reduce,AllReduce\n"
			    "comm_one_of 0x000000000000000c#7,0x000000000000000d#4");
	comms[1].highest_seq[SEQ_COLL] = 9; /* the one used most */
	assert_int_equal(unread()->comm, 13);
	members[1][0].samples.seen_ns = members[1][0].samples.since_ns; /* moves */
	assert_int_equal(unread()->comm, 12);
	assert_null(finding_text(unread(), EVIDENCE_COMM_ONE_OF));
}

static void where_its_host_is(void **state)
{
	(void)state;
	tasks[ODD].stack = (struct task_stack){ 17 * SEC, false, "", "", "", "", "a.py:3 f", "", "" };
	assert_string_equal(finding_text(unread(), EVIDENCE_PYTHON), "a.py:3 f");
	tasks[0].stack = tasks[1].stack = tasks[ODD].stack;
	assert_non_null(finding_text(unread(), EVIDENCE_WAITING_IN));
}

static void when_it_is_not_named(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++) {
		fresh(NULL);
		odd->dead = i == 1;
		odd->is_child = i == 2;
		odd->rank = i == 3 ? -1 : ODD;
		odd->members = i == 4 ? &members[0][0] : NULL;
		tasks[ODD].blocked = i != 5;
		tasks[ODD].mmap_lock_held = i != 6;
		comms[0].n_seen = i == 7 ? RANKS : i == 8 ? RANKS - 2 : RANKS - 1;
		comms[0].highest_seq[SEQ_COLL] = i == 9 ? 0 : 8;
		members[0][1].entered_seq[SEQ_COLL] = i == 10 ? 7 : 8;
		comms[0].by_rank = i == 11 ? NULL : by_rank[0];
		assert_int_equal(unread() != NULL, i == 0);
		done(NULL);
	}
	fresh(NULL);
	tasks[3].blocked = tasks[3].mmap_lock_held = true;
	assert_non_null(unread()); /* that one was read */
	procs[3].members = NULL;
	assert_null(unread()); /* two: which belongs where? */
}

static void what_explains_it(void **state)
{
	(void)state;
	for (uint64_t by = 0; by < 2; by++) {
		struct finding *f;

		list.n = 0;
		f = finding_list_add(&list);
		f->kind = FINDING_D_STATE;
		f->key = 91;
		f->caused_by_key = by ? 92 : 0;
		finding_add_rank(f, ODD, odd->key);
		assert_int_equal(unread_report(&m, &waits, &list), 0);
		assert_int_equal(list.items[1].caused_by_key, 91 + by);
	}
}

/* --- a rank without a process --- */

static void goes(int r)
{
	for (int i = 0; i < RANKS; i++)
		if (procs[i].next == &procs[r])
			procs[i].next = procs[r].next;
}

static const struct finding *absent(void)
{
	list.n = 0;
	assert_int_equal(absent_report(&m, &waits, &list), 0);
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static void one_that_is_not_there(void **state)
{
	(void)state;
	assert_null(absent()); /* it has a process */
	goes(ODD);
	waits.n_roots = 1;
	root.confidence = 0.59;
	assert_string_equal(finding_text_of(absent()),
			    "hang process_dead not_there 0.85 AllReduce #7 in 12 since 14 w 0 c 0 by 0 ranks 2\n"
			    "comm_size 4\nn_missing 1\nwaiting_s 6\nn_waiting 3\nwaiting_ranks 0,1,3\n"
			    "known_from counters\n"
			    "seq_is the last that peers entered; it may lack earlier ones too");
	assert_int_equal(waits.n_roots, 0);
	waits.n_roots = 1;
	root.confidence = 0.6; /* a sure root stays */
	assert_null(absent());
	assert_int_equal(waits.n_roots, 1);
	waits.n_roots = 0;
	waits.n_cycles = 1;
	assert_null(absent());
}

/* Of a rank that has neighbours on this host it is surer than of one of which others just are all here. */
static void how_sure_it_is(void **state)
{
	(void)state;
	goes(ODD);
	assert_true(absent()->confidence == 0.85);
	procs[3].local_rank = 0; /* rank 3 begins another host */
	assert_true(absent()->confidence == 0.6);
	procs[3].local_rank = 1;
	assert_true(absent()->confidence == 0.85);
	by_rank[0][1] = NULL; /* two of four are too many to die unseen */
	goes(1);
	assert_null(absent());
}

/* --pid left it out, alive or not. */
static void one_that_was_not_asked_for(void **state)
{
	(void)state;
	goes(ODD);
	node.partial = true;
	assert_null(absent());
	procs[3].local_rank = 0; /* nor as the only one that is missing */
	assert_null(absent());
	m.merged = true;
	assert_string_equal(finding_text_of(absent()),
			    "hang unknown no_host_told 0.4 #0 in 12 since 14 w 0 c 0 by 0 ranks 2\n"
			    "comm_size 4\nn_missing 1\nn_waiting 3\nwaiting_ranks 0,1,3\nknown_from counters");
	node.partial = false;
}

static void when_nobody_is_absent(void **state)
{
	(void)state;
	for (int i = 0; i < 11; i++) {
		fresh(NULL);
		goes(ODD);
		comms[0].n_seen += i == 1;
		comms[0].highest_seq[SEQ_COLL] = i == 2 ? 0 : 8;
		comms[0].by_rank = i == 3 ? NULL : by_rank[0];
		comms[0].members->samples.n = i != 4;
		members[0][1].samples.seen_ns = i == 5 ? members[0][1].samples.since_ns : 18 * SEC;
		procs[0].world_size = i == 6 ? RANKS + 1 : RANKS;
		procs[0].is_child = i == 7 || i == 8;
		procs[0].world_size += i == 7;
		procs[0].rank = i == 8 ? ODD : 0;
		members[1][0].samples.since_ns = i == 9 ? 18 * SEC : 11 * SEC;
		members[1][0].gone = i == 10;
		members[1][0].samples.since_ns = i == 10 ? 18 * SEC : members[1][0].samples.since_ns;
		assert_int_equal(absent() != NULL, i == 0 || i == 7 || i == 8 || i == 10);
		done(NULL);
	}
	fresh(NULL);
}

/* Where hosts' recordings are merged no host told of it, unless it is between two ranks of one host. */
static void one_that_no_host_told_of(void **state)
{
	(void)state;
	goes(ODD);
	m.merged = true;
	assert_string_equal(finding_text_of(absent()),
			    "hang process_dead not_there 0.85 AllReduce #7 in 12 since 14 w 0 c 0 by 0 ranks 2\n"
			    "comm_size 4\nn_missing 1\nwaiting_s 6\nn_waiting 3\nwaiting_ranks 0,1,3\n"
			    "known_from counters\n"
			    "seq_is the last that peers entered; it may lack earlier ones too");
	assert_true(waits.missing == &job && waits.missing_waited_for);
	assert_true(wait_roots_explain(&waits, &job));
	assert_int_equal(list.items[0].node, node.number);
	for (int r = 0; r < RANKS; r++)
		procs[r].local_rank = -1;
	assert_string_equal(finding_text_of(absent()),
			    "hang unknown no_host_told 0.4 #0 in 12 since 14 w 0 c 0 by 0 ranks 2\n"
			    "comm_size 4\nn_missing 1\nn_waiting 3\nwaiting_ranks 0,1,3\nknown_from counters");
	waits.n_cycles = 1;
	assert_string_equal(finding_text_of(absent()),
			    "unobserved  no_host_told 1 #0 in 12 since 20 w 0 c 0 by 0 ranks 2\ncomm_size 4\n"
			    "n_missing 1");
	assert_int_equal(waits.n_cycles, 1);
	assert_true(waits.missing == &job && !waits.missing_waited_for);
	waits.n_cycles = 0;
	assert_false(wait_roots_explain(&waits, &job));
}

/* A job that has ended waits for nobody. */
static void when_all_others_are_dead(void **state)
{
	(void)state;
	goes(ODD);
	for (int merged = 0; merged < 2; merged++) {
		m.merged = merged;
		procs[0].dead = procs[1].dead = true;
		assert_non_null(absent());
		procs[3].dead = true;
		assert_null(absent());
		procs[3].dead = false;
	}
}

/* Hosts that fall silent one after the other are one matter, whichever ranks come first. */
static void the_first_may_be_another(void **state)
{
	uint64_t key;

	(void)state;
	m.merged = true;
	by_rank[0][1] = NULL;
	goes(1);
	goes(ODD);
	assert_int_equal(absent()->n_ranks, 2);
	assert_int_equal(list.items[0].ranks[0], 1);
	key = list.items[0].key;
	done(NULL);
	fresh(NULL);
	m.merged = true;
	by_rank[0][3] = NULL;
	goes(ODD);
	goes(3);
	assert_int_equal(absent()->n_ranks, 2);
	assert_int_equal(list.items[0].ranks[0], ODD);
	assert_true(list.items[0].key == key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_is_not_read, fresh, done),
		cmocka_unit_test_setup_teardown(one_whose_job_is_explained, fresh, done),
		cmocka_unit_test_setup_teardown(where_its_host_is, fresh, done),
		cmocka_unit_test_setup_teardown(when_it_is_not_named, NULL, done),
		cmocka_unit_test_setup_teardown(what_explains_it, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_is_not_there, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_was_not_asked_for, fresh, done),
		cmocka_unit_test_setup_teardown(how_sure_it_is, fresh, done),
		cmocka_unit_test_setup_teardown(when_nobody_is_absent, NULL, done),
		cmocka_unit_test_setup_teardown(one_that_no_host_told_of, fresh, done),
		cmocka_unit_test_setup_teardown(when_all_others_are_dead, fresh, done),
		cmocka_unit_test_setup_teardown(the_first_may_be_another, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
