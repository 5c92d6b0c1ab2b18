/* SPDX-License-Identifier: Apache-2.0
 *
 * test_culprit_report.c - what is said of one rank that does not come, word for word: three ranks by hand, the second
 * of which is named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/p2p.h"
#include "detect/hang/report.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 3

static struct model m, *empty;
static struct node node;
static struct comm comm, second;
static struct member members[RANKS], own_second, peer_second;
static struct proc procs[RANKS];
static struct proc child, dead_child;
static struct steps steps;
static struct job_id job = { .name = "j", .shown = "j" };
static struct p2p_seq pairs[RANKS][RANKS];
static struct op newest;
static struct task sleeper;
static struct call waits, allocates;
static struct known_phase phase = { .job = "j", .site = "a.py:3 f", .wait = "", .n = 4, .longest_ns = 8 * SEC };
static struct finding_list list;
static struct culprit odd;

static void join(struct member *mb, struct comm *c, struct proc *p, int rank)
{
	*mb = (struct member){ .comm = c, .proc = p, .rank = rank, .seq_known = true, .from_init = true };
	mb->next_in_comm = c->members;
	mb->next_in_proc = p->members;
	c->members = p->members = mb;
}

static int fresh(void **state)
{
	static struct member *by_rank[RANKS];

	(void)state;
	empty = empty ? empty : model_new();
	m = *empty; /* its private part */
	m.now_ns = 20 * SEC;
	m.hang_floor_ns = SEC;
	m.procs = &procs[0];
	comm = (struct comm){ .hash = 12, .nranks = RANKS, .n_seen = RANKS, .by_rank = by_rank };
	second = (struct comm){ .hash = 13, .nranks = 2, .n_seen = 2 };
	for (int r = 0; r < RANKS; r++) {
		struct proc *p = &procs[r];

		*p = (struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = 4 + r, .steps = &steps };
		p->job = &job;
		p->leader = p;
		p->next = r + 1 < RANKS ? &procs[r + 1] : &child;
		join(&members[r], &comm, p, r);
		by_rank[r] = &members[r];
		by_rank[r]->entered_seq[SEQ_COLL] = r == 1 ? 7 : 8;
		by_rank[r]->p2p = pairs[r];
		by_rank[r]->n_p2p = RANKS;
	}
	child = dead_child = (struct proc){ .key = 70, .node = &node, .is_child = true, .leader = &procs[1] };
	child.next = &dead_child;
	dead_child.dead = true;
	newest = (struct op){ .member = &members[1], .kind = OP_BROADCAST, .seq = 6, .count = 5, .call_ns = 9 * SEC };
	sleeper =
		(struct task){ .tid = 51, .name = "python", .proc = &procs[1], .state = TASK_SLEEP, .syscall = "read" };
	sleeper.file = "/data";
	sleeper.wchan = "pipe_read";
	sleeper.kernel_stack = "io";
	sleeper.at_ns = 1;
	odd = (struct culprit){ .proc = &procs[1], .kind = FINDING_HANG, .class = HANG_MISSING_ENTER };
	odd.cause = CAUSE_ASLEEP;
	odd.confidence = 0.97;
	odd.pending = (struct pending){ .member = &members[1], .space = SEQ_COLL, .kind = OP_ALLREDUCE, .peer = -1 };
	odd.pending.seq = 7;
	odd.pending.since_ns = 10 * SEC;
	odd.pending.limit_ns = 2 * SEC;
	odd.pending.n_waiting = 2;
	odd.activity = (struct rank_activity){ ACTIVITY_ASLEEP, -1, 0, NULL };
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	model_free(empty);
	empty = NULL;
	return 0;
}

static const char *said(void)
{
	size_t n = list.n;

	assert_int_equal(culprit_report(&m, &odd, &list), 0);
	assert_int_equal(list.n, n + 1);
	return finding_text_of(&list.items[n]);
}

static const struct finding *found(void)
{
	said();
	return &list.items[list.n - 1];
}

#define SAYS(text) assert_string_equal(said(), text)

static void one_of_which_little_is_known(void **state)
{
	(void)state;
	SAYS("hang missing_enter asleep 0.97 AllReduce #7 in 12 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 4,6\nn_children 2\nn_children_dead 1\nlimit_s 2");
	child.leader = dead_child.leader = &procs[0];
	SAYS("hang missing_enter asleep 0.97 AllReduce #7 in 12 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 4,6\nlimit_s 2");
}

static void what_its_host_does(void **state)
{
	(void)state;
	odd.activity = (struct rank_activity){ ACTIVITY_ASLEEP, 0.25, 100, &sleeper };
	odd.habit = (struct habit){ &phase, 3 * SEC, 40 * SEC, 0 };
	procs[1].last_op = &newest;
	waits = (struct call){ .tid = 51, .is_sync = true, .begin_ns = 15 * SEC, .name = "", .next = &allocates };
	allocates = (struct call){ .tid = 52, .begin_ns = 14 * SEC, .name = "cuMemAlloc" };
	procs[1].calls = &waits;
	procs[1].cuda_error = 2;
	procs[1].cuda_error_name = "out of memory";
	procs[1].cuda_error_call = "cuMemAlloc";
	SAYS("hang missing_enter asleep 0.97 AllReduce #7 in 12 since 10 w 3 c 40 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 4,6\nknown_phase a.py:3 f: 0.0 s, 4 times before\npauses_before 4\n"
	     "longest_pause_s 8\nin_call cuMemAlloc\nin_call_s 6\ncuda_error out of memory\n"
	     "cuda_error_call cuMemAlloc\nstate asleep\nthread python\ntid 51\nwchan pipe_read\nsyscall read\n"
	     "file /data\ncpu_share 0.25\nio_bytes_per_s 100\nlast_op Broadcast\nlast_op_seq 6\n"
	     "last_op_count 5\nlast_op_s_ago 11\nn_children 2\nn_children_dead 1\nlimit_s 2\n"
	     "critical_after_s 40");
	odd.habit.phase = NULL;
	sleeper.at_ns = 0;
	waits.begin_ns = 13 * SEC;
	odd.kind = FINDING_OBSERVATION;
	SAYS("observation missing_enter asleep 0.97 AllReduce #7 in 12 since 10 w 3 c 40 by 0 ranks 5\n"
	     "waiting_s 10\nn_waiting 2\nwaiting_ranks 4,6\nin_call wait for the GPU\nin_call_s 7\n"
	     "cuda_error out of memory\ncuda_error_call cuMemAlloc\nstate asleep\n"
	     "thread python\ntid 51\ncpu_share 0.25\nio_bytes_per_s 100\nlast_op Broadcast\n"
	     "last_op_seq 6\nlast_op_count 5\nlast_op_s_ago 11\nn_children 2\nn_children_dead 1\nlimit_s 2");
	sleeper.blocked = true;
	waits.is_sync = false;
	SAYS("observation missing_enter asleep 0.97 AllReduce #7 in 12 since 10 w 3 c 40 by 0 ranks 5\n"
	     "waiting_s 10\nn_waiting 2\nwaiting_ranks 4,6\nin_call_s 7\n"
	     "cuda_error out of memory\ncuda_error_call cuMemAlloc\nstate asleep\nthread python\ntid 51\n"
	     "wchan pipe_read\nkernel_stack io\ncpu_share 0.25\nio_bytes_per_s 100\nlast_op Broadcast\n"
	     "last_op_seq 6\nlast_op_count 5\nlast_op_s_ago 11\nn_children 2\nn_children_dead 1\nlimit_s 2");
}

static void one_that_died(void **state)
{
	(void)state;
	odd.class = HANG_PROCESS_DEAD;
	odd.cause = CAUSE_DEAD;
	odd.activity.what = ACTIVITY_DEAD;
	odd.pending.kinds = 1u << OP_ALLREDUCE;
	procs[1].dead = true;
	procs[1].exit_code = 1;
	procs[1].exit_signal = 9;
	procs[1].exit_ns = 12 * SEC;
	SAYS("hang process_dead dead 0.97 AllReduce #7 in 12 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 4,6\nknown_from counters\n"
	     "seq_is the last that peers entered; the dead rank may lack earlier ones too, or have entered it\n"
	     "exit_code 1\nexit_signal 9\ndead_s 8\nn_children 2\nn_children_dead 1\nlimit_s 2");
	odd.pending.kinds |= 1u << OP_BROADCAST | 1u << OP_REDUCE;
	SAYS("hang process_dead dead 0.97 AllReduce #7 in 12 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 4,6\nknown_from counters\nop_one_of Broadcast,Reduce,AllReduce\n"
	     "seq_is the last that peers entered; the dead rank may lack earlier ones too, or have entered it\n"
	     "exit_code 1\nexit_signal 9\ndead_s 8\nn_children 2\nn_children_dead 1\nlimit_s 2");
}

static void a_transfer(void **state)
{
	(void)state;
	odd.pending.space = SPACE_P2P;
	odd.pending.peer = 2;
	odd.pending.kind = OP_RECV;
	odd.class = HANG_P2P_UNMATCHED;
	pairs[1][2] = (struct p2p_seq){ .entered = { 21, 22 } };
	pairs[2][1] = (struct p2p_seq){ .entered = { 31, 32 } };
	SAYS("hang p2p_unmatched asleep 0.97 Recv #7 in 12 peer 6 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 6\nnot_called Recv\nsender 6\nreceiver 5\nn_sends 31\nn_recvs 22\n"
	     "n_children 2\nn_children_dead 1\nlimit_s 2");
	odd.pending.kind = OP_SEND;
	SAYS("hang p2p_unmatched asleep 0.97 Send #7 in 12 peer 6 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 6\nnot_called Send\nsender 5\nreceiver 6\nn_sends 21\nn_recvs 32\n"
	     "n_children 2\nn_children_dead 1\nlimit_s 2");
	members[1].n_p2p = 2;
	members[2].n_p2p = 1;
	SAYS("hang p2p_unmatched asleep 0.97 Send #7 in 12 peer 6 since 10 w 0 c 0 by 0 ranks 5\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 6\nnot_called Send\nsender 5\nreceiver 6\nn_sends 0\nn_recvs 0\n"
	     "n_children 2\nn_children_dead 1\nlimit_s 2");
}

static void what_was_lost_makes_it_unsure(void **state)
{
	struct finding f;

	(void)state;
	odd.pending.since_ns = 9 * SEC;
	assert_true(found()->confidence == 0.97); /* none was lost */
	odd.pending.since_ns = 11 * SEC;
	m.last_loss_ns = SEC; /* too long ago */
	assert_true(found()->confidence == 0.97);
	m.last_loss_ns++;
	f = *found();
	assert_true(f.confidence > 0.38 && f.confidence < 0.39);
	assert_int_equal(f.class, HANG_UNKNOWN);
	assert_int_equal(f.warning_after_ns, 10 * SEC);
	odd.habit.warning_after_ns = 11 * SEC;
	assert_int_equal(found()->warning_after_ns, 11 * SEC);
	odd.pending.usual_ns = 6 * SEC;
	assert_int_equal(found()->warning_after_ns, 12 * SEC);
	odd.habit.moved_for_ns = 5 * SEC;
	assert_int_equal(found()->warning_after_ns, 17 * SEC);
	odd.habit.warning_after_ns = 0;
	m.hang_floor_ns--; /* an autopsy */
	assert_int_equal(found()->warning_after_ns, 0);
	odd.class = HANG_P2P_UNMATCHED;
	assert_true(found()->confidence < 0.39);
	odd.class = HANG_STOPPED;
	assert_true(found()->confidence == 0.97);
	comm.n_seen--;
	assert_true(found()->confidence == 0.97 * 0.9);
	odd.confidence = 0.5 / 0.9;
	assert_int_equal(found()->class, HANG_STOPPED);
	odd.confidence = 0.55;
	assert_int_equal(found()->class, HANG_UNKNOWN);
}

static uint64_t cause(void)
{
	return found()->caused_by_key;
}

static struct finding *other(enum finding_kind kind, uint64_t key, uint64_t comm_hash, uint64_t proc)
{
	struct finding *f = finding_list_add(&list);

	f->kind = kind;
	f->key = key;
	f->comm = comm_hash;
	if (proc)
		finding_add_rank(f, 0, proc);
	return f;
}

static void what_explains_it(void **state)
{
	(void)state;
	other(FINDING_D_STATE, 91, 0, 51);
	other(FINDING_XID, 92, 0, 51)->cause = CAUSE_APPLICATION;
	sleeper.blocked = true;
	odd.activity.task = &sleeper;
	assert_int_equal(cause(), 92);
	odd.activity.what = ACTIVITY_STOPPED;
	assert_int_equal(cause(), 92);
	odd.activity.what = ACTIVITY_BLOCKED;
	assert_int_equal(cause(), 91);
	list.items[0].caused_by_key = 93;
	assert_int_equal(cause(), 93);
	other(FINDING_MISMATCH, 94, 77, 0);
	other(FINDING_SLOW_STEP, 95, 12, 0);
	assert_int_equal(cause(), 93);
	other(FINDING_MISMATCH, 96, 12, 0);
	assert_int_equal(cause(), 96);
	members[1].gone = true;
	assert_int_equal(cause(), 93);
	members[1].gone = false;
	odd.kind = FINDING_OBSERVATION;
	assert_int_equal(cause(), 0);
}

static void sampled(struct member *mb, uint64_t since, uint64_t n)
{
	mb->samples = (struct samples){ .n = 2, .counted = true, .since_ns = since, .seen_ns = since + SEC };
	mb->samples.counters[OP_ALLREDUCE] = mb->entered_seq[SEQ_COLL] = n;
	mb->from_init = false;
}

/* By counters alone: it lacks as much of the second communicator, whose peers stopped a second after those of the
 * first at the most. */
static void one_of_several_communicators(void **state)
{
	static const struct {
		uint64_t since_ns, device, entered;
		bool told;
	} cases[] = { { 11 * SEC, 0, 4, true },
		      { 11 * SEC + SEC / 10, 0, 4, true },
		      { 11 * SEC + SEC / 10 + 1, 0, 4, false },
		      { 11 * SEC, 1, 4, false },
		      { 11 * SEC, 0, 5, false } };

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		fresh(NULL);
		for (int r = 0; r < RANKS; r++)
			sampled(&members[r], 10 * SEC, r == 1 ? 7 : 8);
		join(&own_second, &second, &procs[1], 0);
		join(&peer_second, &second, &procs[2], 1);
		sampled(&own_second, 10 * SEC, cases[i].entered);
		sampled(&peer_second, cases[i].since_ns, 5);
		own_second.device = cases[i].device;
		odd.pending.kinds = 1u << OP_ALLREDUCE;
		said();
		assert_int_equal(strstr(finding_words, "\ncomm_one_of 0x000000000000000c#7,0x000000000000000d#4\n") !=
					 NULL,
				 cases[i].told);
		assert_int_equal(strstr(finding_words, "comm_one_of") != NULL, cases[i].told);
		odd.pending.kinds = 0;
		said();
		assert_null(strstr(finding_words, "comm_one_of"));
	}
}

/* Ranks of one process: told apart by their numbers, and of the host only what is their thread's. */
static void ranks_of_one_process(void **state)
{
	static struct seats seats;
	uint64_t key;

	(void)state;
	seats = (struct seats){ { &members[1] }, 1 };
	procs[1].shared = true;
	procs[1].calls = &waits;
	procs[1].last_op = &newest;
	odd.seats = &seats;
	SAYS("hang missing_enter asleep 0.97 AllReduce #7 in 12 since 10 w 0 c 0 by 0 ranks 1\n"
	     "member pid 51, GPU 0, rank 1 of 3 in 0x000000000000000c\ngpu 0\ncomm_rank 1\nwaiting_s 10\n"
	     "n_waiting 2\nwaiting_ranks 4,6\nn_children 2\nn_children_dead 1\nlimit_s 2");
	key = list.items[0].key;
	assert_int_equal(found()->key, key);
	odd.pending.seq++;
	assert_true(found()->key != key);
	odd.pending.seq--;
	seats.all[0] = &members[0];
	assert_true(found()->key != key);
}

static uint64_t key_of(int space, enum op_kind kind, int peer)
{
	odd.pending.space = space;
	odd.pending.kind = kind;
	odd.pending.peer = peer;
	return found()->key;
}

static void each_pending_operation_has_a_key(void **state)
{
	uint64_t keys[6];

	(void)state;
	keys[0] = key_of(SEQ_COLL, OP_ALLREDUCE, -1);
	keys[1] = key_of(SEQ_ALLTOALL, OP_ALLTOALL, -1);
	keys[2] = key_of(SPACE_P2P, OP_RECV, 0);
	keys[3] = key_of(SPACE_P2P, OP_SEND, 0);
	keys[4] = key_of(SPACE_P2P, OP_RECV, 2);
	keys[5] = key_of(SPACE_P2P, OP_SEND, 2);
	for (int i = 0; i < 6; i++)
		for (int k = 0; k < i; k++)
			assert_true(keys[i] != keys[k]);
	assert_true(key_of(SEQ_COLL, OP_BROADCAST, -1) == keys[0]);
}

/* Of a communicator whose members are known by counters: who is here. */
static void who_waits_by_counters(void **state)
{
	struct finding f = { .peer = -1 };

	(void)state;
	comm.by_rank[1] = NULL;
	comm.n_seen = 2;
	comm_waiting_note(&f, &list, &comm);
	assert_string_equal(finding_text_of(&f), "hang   0 #0 in 0 since 0 w 0 c 0 by 0 ranks\n"
						 "n_waiting 2\nwaiting_ranks 4,6\nknown_from counters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_of_which_little_is_known, fresh, done),
		cmocka_unit_test_setup_teardown(what_its_host_does, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_died, fresh, done),
		cmocka_unit_test_setup_teardown(a_transfer, fresh, done),
		cmocka_unit_test_setup_teardown(what_was_lost_makes_it_unsure, fresh, done),
		cmocka_unit_test_setup_teardown(what_explains_it, fresh, done),
		cmocka_unit_test_setup_teardown(one_of_several_communicators, fresh, done),
		cmocka_unit_test_setup_teardown(ranks_of_one_process, fresh, done),
		cmocka_unit_test_setup_teardown(each_pending_operation_has_a_key, fresh, done),
		cmocka_unit_test_setup_teardown(who_waits_by_counters, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
