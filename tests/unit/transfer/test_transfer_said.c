/* SPDX-License-Identifier: Apache-2.0
 *
 * test_transfer_said.c - what is said of a transfer that is stalled, and of a progress thread that has no CPU, word for
 * word: by which side it is, who is named, and what another finding says of it already.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/finding_text.h"
#include "detect/hang/stalled_op.h"
#include "tests/unit/job/proxy_job.h"

/* Channel 1 from `r` to the next: sent, and not come. */
static void eat(int r)
{
	ranks[r].send[1] = sending(32, 32, 32);
	ranks[(r + 1) % RANKS].recv[1] = receiving(32, 24, 24, 24);
}

static void said(const char *as)
{
	assert_int_equal(list.n, 1);
	assert_string_equal(finding_text_of(&list.items[0]), as);
}

static void in_the_network(void **state)
{
	(void)state;
	eat(2);
	looks(2);
	said("hang inside_network network 0.8 AllReduce #20 in 160 since 100 w 0 c 0 by 0 ranks\n"
	     "waiting_s 0.5\nn_waiting 4\nside network\nsender 2\nreceiver 3\nchannel 1\n"
	     "sent posted 32, transmitted 32, done 32 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64\nn_links_held 1\n"
	     "proxy_op_count 40\nknown_from proxies");
}

static void at_the_sender(void **state)
{
	(void)state;
	ranks[3].send[0] = sending(24, 24, 24);
	looks(3);
	said("hang inside_network sender 0.8 AllReduce #20 in 160 since 100 w 0 c 0 by 0 ranks\n"
	     "waiting_s 1\nn_waiting 4\nside sender\nsender 3\nreceiver 0\nchannel 0\n"
	     "sent posted 24, transmitted 24, done 24 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64\nn_links_held 1\n"
	     "proxy_op_count 40\nknown_from proxies");
}

static void at_the_receiver(void **state)
{
	(void)state;
	ranks[1].recv[0] = receiving(32, 32, 24, 24);
	looks(3);
	said("hang inside_network receiver 0.8 AllReduce #20 in 160 since 100 w 0 c 0 by 0 ranks\n"
	     "waiting_s 1\nn_waiting 4\nside receiver\nsender 0\nreceiver 1\nchannel 0\n"
	     "sent posted 32, transmitted 24, done 24 of 64\n"
	     "received posted 32, received 32, transmitted 24, done 24 of 64\nn_links_held 1\n"
	     "proxy_op_count 40\nknown_from proxies");
}

static void asleep(void **state)
{
	(void)state;
	eat(0);
	ranks[1].proxy = TASK_SLEEP;
	ranks[1].wakes = false;
	ranks[1].run = ranks[1].wait = 0;
	looks(2);
	said("hang inside_network proxy_asleep 0.9 AllReduce #20 in 160 since 100 w 0 c 0 by 0 "
	     "ranks 1\nwaiting_s 0.5\nn_waiting 3\nside receiver\nsender 0\nreceiver 1\n"
	     "channel 1\nsent posted 32, transmitted 32, done 32 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64\nn_links_held 1\n"
	     "thread NCCL Progress 0\ntid 2100\nstate asleep\ncpu_share 0\nrunqueue_wait_share 0\n"
	     "proxy_op_count 40\nknown_from proxies");
}

static void a_sender_in_d_state(void **state)
{
	(void)state;
	ranks[3].proxy = TASK_DISK;
	ranks[3].wakes = false;
	ranks[3].run = ranks[3].wait = 0;
	ranks[3].send[0] = sending(24, 24, 24);
	looks(2);
	said("hang inside_network proxy_blocked 0.9 AllReduce #20 in 160 since 100 w 0 c 0 by 0 "
	     "ranks 3\nwaiting_s 0.5\nn_waiting 3\nside sender\nsender 3\nreceiver 0\nchannel 0\n"
	     "sent posted 24, transmitted 24, done 24 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64\nn_links_held 1\n"
	     "thread NCCL Progress 0\ntid 2300\nstate disk\ncpu_share 0\nrunqueue_wait_share 0\n"
	     "proxy_op_count 40\nknown_from proxies");
}

static void stopped(void **state)
{
	(void)state;
	ranks[3].proxy = TASK_STOPPED;
	ranks[3].wakes = false;
	ranks[3].run = ranks[3].wait = 0;
	ranks[3].send[0] = sending(24, 24, 24);
	looks(3);
	said("hang stopped stopped 0.9 AllReduce #20 in 160 since 100 w 0 c 0 by 0 ranks 3\n"
	     "waiting_s 1\nn_waiting 3\nside sender\nsender 3\nreceiver 0\nchannel 0\n"
	     "sent posted 24, transmitted 24, done 24 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64\nn_links_held 1\n"
	     "thread NCCL Progress 0\ntid 2300\nstate stopped\ncpu_share 0\n"
	     "runqueue_wait_share 0\nproxy_op_count 40\nknown_from proxies");
}

/* --- what another finding says of its rank already --- */

static uint64_t caused_by(enum finding_kind kind, int rank, uint64_t key, uint64_t cause)
{
	struct finding *f;

	list.n = 0;
	f = finding_list_add(&list);
	f->kind = kind;
	f->key = key;
	f->caused_by_key = cause;
	finding_add_rank(f, rank, proc_key(0, job_pid(rank)));
	assert_int_equal(stalled_op_report(&(struct stalled_ops){ 0 }, m, &(struct wait_roots){ 0 }, &list), 0);
	assert_int_equal(list.n, 2);
	return list.items[1].caused_by_key;
}

static void why_it_does_not_move(void **state)
{
	for (int is_stopped = 0; is_stopped < 2; is_stopped++) {
		enum finding_kind says = is_stopped ? FINDING_STOPPED : FINDING_D_STATE;

		if (is_stopped)
			stopped(state);
		else
			a_sender_in_d_state(state);
		/* Of a stop detect/host/stopped.c says what it causes. */
		assert_int_equal(caused_by(says, 3, 77, 0), is_stopped ? 0 : 77);
		assert_int_equal(caused_by(says, 3, 77, 66), is_stopped ? 0 : 66); /* that one's cause */
		assert_int_equal(caused_by(says, 2, 77, 0), 0);
		assert_int_equal(caused_by(is_stopped ? FINDING_D_STATE : FINDING_STOPPED, 3, 77, 0), 0);
		end(state);
		start(state);
	}
}

/* Roots that are proven to wait for a transfer go; so do cycles. */
static void roots_that_wait(void **state)
{
	struct wait_root roots[2] = { { .proc = model_proc(m, job_pid(0)) }, { .proc = model_proc(m, job_pid(1)) } };
	struct wait_roots found = { .roots = roots, .n_roots = 2, .n_cycles = 1 };

	(void)state;
	eat(2);
	looks(3);
	roots_filter_inside(m, &found);
	assert_true(found.n_roots == 0 && found.n_cycles == 0);
	found.n_roots = 2;
	((struct proc *)roots[1].proc)->dead = true; /* that is a reason of its own */
	roots_filter_inside(m, &found);
	assert_true(found.n_roots == 1 && found.roots[0].proc->rank == 1);
}

/* For as long as transfers take to be sampled twice. */
static void while_it_is_not_decided(void **state)
{
	uint64_t longest;

	(void)state;
	eat(2);
	looks(2);
	for (longest = 0; roots_undecided(m, m->now_ns - longest) && longest < 100 * SEC; longest += 50 * MSEC)
		;
	assert_true(longest >= SEC / 2 && longest < 20 * SEC);
	for (int r = 0; r < RANKS; r++) {
		assert_true(roots_undecided(m, m->now_ns));
		((struct proc *)model_proc(m, job_pid(r)))->dead = true;
	}
	assert_false(roots_undecided(m, m->now_ns));
}

static void starved(int r)
{
	ranks[r].proxy = TASK_RUNNABLE;
	ranks[r].run = 0.003;
	ranks[r].wait = 0.97;
}

static void starved_and_still(void **state)
{
	(void)state;
	starved(2);
	looks(6);
	said("hang inside_network proxy_starved 0.85 AllReduce #20 in 160 since 100 w 0 c 0 by 0 "
	     "ranks 2\nn_waiting 3\nthread NCCL Progress 0\ntid 2200\nstate runnable\n"
	     "cpu_share 0.003\nrunqueue_wait_share 0.97\npeers_wait_share 0.05\nn_scans 5\n"
	     "side sender\nsender 2\nreceiver 3\nchannel 0\n"
	     "sent posted 32, transmitted 24, done 24 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64");
}

static void starved_and_creeping(void **state)
{
	(void)state;
	starved(2);
	for (int i = 0; i < 6; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		look();
	}
	said("cpu_starved  proxy_thread 0.85 #0 in 160 since 100 w 0 c 0 by 0 ranks 2\n"
	     "thread NCCL Progress 0\ntid 2200\nstate runnable\ncpu_share 0.003\n"
	     "runqueue_wait_share 0.97\npeers_wait_share 0.05\nn_scans 5\nside sender\nsender 2\n"
	     "receiver 3\nchannel 0\nsent posted 32, transmitted 24, done 24 of 64\n"
	     "received posted 32, received 24, transmitted 24, done 24 of 64");
}

/* --- what is reported of its rank already --- */

extern const struct detector detector_proxy_starved;

static size_t starved_beside(void *state, enum finding_kind kind, int rank)
{
	static struct finding_list beside;
	struct finding *f;
	size_t n;

	beside.n = 0;
	f = finding_list_add(&beside);
	f->kind = kind;
	finding_add_rank(f, rank, proc_key(0, job_pid(rank)));
	assert_int_equal(detector_proxy_starved.tick(state, m, &beside), 0);
	n = beside.n - 1;
	finding_list_free(&beside);
	beside = (struct finding_list){ 0 };
	return n;
}

/* That its thread has no CPU is said once: not of a rank that hangs or is starved anyway. */
static void starved_and_reported(void **state)
{
	void *own = calloc(1, detector_proxy_starved.state_bytes);

	(void)state;
	starved(2);
	for (int i = 0; i < 7; i++) {
		look();
		starved_beside(own, FINDING_LINK, 0);
	}
	assert_int_equal(starved_beside(own, FINDING_LINK, 2), 1);
	assert_int_equal(starved_beside(own, FINDING_HANG, 1), 1);
	assert_int_equal(starved_beside(own, FINDING_HANG, 2), 0);
	assert_int_equal(starved_beside(own, FINDING_CPU_STARVED, 2), 0);
	detector_proxy_starved.release(own);
	free(own);
}

#define A_JOB(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_JOB(in_the_network),          A_JOB(at_the_sender),
		A_JOB(at_the_receiver),         A_JOB(asleep),
		A_JOB(a_sender_in_d_state),     A_JOB(stopped),
		A_JOB(why_it_does_not_move),    A_JOB(roots_that_wait),
		A_JOB(while_it_is_not_decided), A_JOB(starved_and_still),
		A_JOB(starved_and_creeping),    A_JOB(starved_and_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
