/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_stalled_op.c - all entered, and it does not end: made-up readings of NCCL's proxies and of their threads.
 * Who is named, which pair, and when nobody may be (detector proxy_starved, and the report of detector hang). The table
 * of single connections: test_detect_links.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/proxy_job.h"

static const struct finding *only(void)
{
	assert_int_equal(list.n, 1);
	return &list.items[0];
}

static double number_of(const struct finding *f, const char *name)
{
	assert_non_null(evidence_named(f, name));
	return number_named(f, name, 0);
}

static const char *text_of(const struct finding *f, const char *name)
{
	return text_named(f, name, "");
}

/* Channel 1 from `r` to the next: sent, and not come. */
static void eat(int r)
{
	ranks[r].send[1] = sending(32, 32, 32);
	ranks[(r + 1) % RANKS].recv[1] = receiving(32, 24, 24, 24);
}

static void check_pair(const struct finding *f, const char *side, int sender, int receiver, int channel)
{
	assert_int_equal(f->kind, FINDING_HANG);
	assert_string_equal(text_of(f, "side"), side);
	assert_int_equal(number_of(f, "sender"), sender);
	assert_int_equal(number_of(f, "receiver"), receiver);
	if (channel >= 0)
		assert_int_equal(number_of(f, "channel"), channel);
}

static void the_network_between_two(void **state)
{
	const struct finding *f;

	(void)state;
	eat(2);
	looks(2);
	f = only();
	assert_int_equal(f->class, HANG_INSIDE_NETWORK);
	assert_int_equal(f->n_ranks, 0);
	check_pair(f, "network", 2, 3, 1);
	assert_string_equal(cause_name(f->cause), "network");
	assert_int_equal(f->comm, WORLD);
	assert_int_equal(f->op, OP_ALLREDUCE);
	assert_int_equal(f->seq, 20);
	assert_string_equal(text_of(f, "sent"), "posted 32, transmitted 32, done 32 of 64");
	assert_string_equal(text_of(f, "received"), "posted 32, received 24, transmitted 24, done 24 of 64");
}

/* The sender is through with it, and one or two operations further: nobody lacks anything. */
static void the_sender_went_on(void **state)
{
	const struct finding *f;

	(void)state;
	ranks[2].op_count = OP + 2;
	ranks[2].n_entered = ranks[1].n_entered = 23;
	ranks[2].n_other = ranks[1].n_other = 9; /* in the other communicator 0 and 3 would look late */
	ranks[1].op_count = 0;
	for (int c = 0; c < CHANNELS; c++)
		ranks[2].send[c] = ranks[2].recv[c] = queued(false);
	ranks[2].send[0].flags = ranks[2].send[1].flags = PROXY_SEND;
	ranks[3].no_recv[0] = true;
	ranks[0].no_recv[0] = ranks[0].no_send[0] = ranks[0].no_send[1] = true;
	ranks[0].recv[1] = receiving(32, 24, 24, 24);
	ranks[3].no_send[0] = true;
	looks(2);
	f = only();
	check_pair(f, "network", 2, 3, 1);
	assert_int_equal(f->seq, 20);
}

static void die(int r, int signal)
{
	struct event e = job_event(EV_EXIT, r, 0);

	e.exit.last = true;
	e.exit.signal = signal;
	give(e);
	ranks[r].unread = true;
}

/* Everybody is in it, one is killed: no looks at that one any more, and the others wait for their transport to give up.
 */
static void killed_in_the_middle(void **state)
{
	const struct finding *f;

	(void)state;
	ranks[1].send[0] = ranks[1].send[1] = sending(32, 32, 24);
	looks(3);
	die(2, 9);
	looks(2);
	assert_int_equal(list.n, 1);
	f = only();
	assert_int_equal(f->class, HANG_PROCESS_DEAD);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], 2);
	assert_int_equal(f->seq, 20);
	looks(20);
	assert_int_equal(only()->class, HANG_PROCESS_DEAD);
}

/* Somebody ends the job: they go one after the other. */
static void asked_to_go(void **state)
{
	(void)state;
	looks(3);
	for (int r = 0; r < RANKS; r++) {
		die(r, 15);
		looks(2);
		assert_int_equal(list.n, 0);
	}
}

/* Hosts run ahead: what is queued behind the operation was entered, too. */
static void queued_ones_are_counted_off(void **state)
{
	(void)state;
	eat(0);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].queued = 3;
		ranks[r].n_entered = 24;
	}
	looks(2);
	assert_int_equal(only()->seq, 20);
}

/* Nothing is concluded while anything moves, or from one sample. */
static void moving_is_not_stuck(void **state)
{
	(void)state;
	eat(2);
	look();
	assert_int_equal(list.n, 0);
	for (int i = 0; i < 5; i++) {
		ranks[0].recv[0].done = ranks[0].recv[0].transmitted = ranks[0].recv[0].received = 25 + i;
		look();
		assert_int_equal(list.n, 0);
	}
	for (int i = 0; i < 5; i++) {
		ranks[0].n_entered++; /* a host goes on */
		look();
		assert_int_equal(list.n, 0);
	}
}

static void quiet_links_accuse_nobody(void **state)
{
	(void)state;
	looks(5);
	assert_int_equal(list.n, 0);
}

/* Somebody has not entered: that is another story, and not the network's. */
static void a_late_rank_is_late(void **state)
{
	const struct finding *f;

	(void)state;
	ranks[1].n_entered = 20;
	ranks[1].n_other = 5;
	ranks[1].op_count = 0;
	ranks[0].send[0] = ranks[0].send[1] = sending(32, 32, 32);
	looks(3);
	f = only();
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->ranks[0], 1);
}

/* It enters at last, seen by a probe; what was read of its proxy and of its peers' is from before. Seen in a real job
 * whose rank 0 had waited 40 s for an object store. */
static void what_was_read_before_it_came_proves_nothing(void **state)
{
	struct event e = job_event(EV_OP, 1, 0);

	(void)state;
	ranks[1].n_entered = 20;
	ranks[1].op_count = 0;
	ranks[2].send[0] = ranks[2].send[1] = sending(32, 32, 32);
	looks(8);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	e.op.addr = WORLD;
	e.op.op = OP_ALLREDUCE;
	e.op.dtype = 7;
	e.op.count = 1 << 20;
	e.op.redop = 0;
	e.op.root = e.op.peer = -1;
	e.op.counters_valid = true;
	e.op.counters_sum = 20;
	give(e);
	e = (struct event){ .kind = EV_TICK };
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
	assert_int_equal(list.n, 0);
}

/* The same of one that is at an operation still: its data come late, and of one of its peers nothing is known. */
static void who_is_still_at_it_is_not_late(void **state)
{
	(void)state;
	ranks[0].no_proxy = true;
	for (int r = 0; r < 3; r++) {
		ranks[r].n_entered = 22;
		ranks[r].op_count = OP + 2;
	}
	looks(8);
	assert_int_equal(list.n, 0);
	ranks[3].op_count = 0; /* it is through, and does not go on */
	looks(4);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	assert_int_equal(only()->ranks[0], 3);
}

/* Who only seem to be late, sitting where the others sit, are reported when transfers had time to prove that they stand
 * still. */
static void doubtful_roots_wait_for_proof(void **state)
{
	(void)state;
	ranks[3].no_proxy = true;
	for (int r = 0; r < RANKS; r++)
		ranks[r].run = ranks[r].wait = 0.01;
	looks(1);
	ranks[2].n_other++;
	ranks[3].n_other++;
	looks(2);
	assert_int_equal(list.n, 0);
	looks(2);
	assert_int_equal(list.n, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(list.items[i].class, HANG_UNKNOWN);
}

static void an_unread_rank_leaves_it_open(void **state)
{
	(void)state;
	eat(2);
	ranks[0].unread = true;
	looks(4);
	assert_int_equal(list.n, 0);
}

static void check_culprit(int rank, const char *cause)
{
	const struct finding *f = only();

	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_INSIDE_NETWORK);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal(f->pids[0], job_pid(rank));
	assert_string_equal(cause_name(f->cause), cause);
}

/* What is sent to it lies there: by the counters alone that would be the network. */
static void a_proxy_asleep(void **state)
{
	(void)state;
	eat(0);
	ranks[1].proxy = TASK_SLEEP;
	ranks[1].wakes = false;
	ranks[1].run = ranks[1].wait = 0;
	looks(2);
	check_culprit(1, "proxy_asleep");
	check_pair(only(), "receiver", 0, 1, 1);
}

static void a_proxy_in_d_state(void **state)
{
	(void)state;
	ranks[3].proxy = TASK_DISK;
	ranks[3].wakes = false;
	ranks[3].run = ranks[3].wait = 0;
	ranks[3].send[0] = sending(24, 24, 24); /* could post */
	looks(2);
	check_culprit(3, "proxy_blocked");
	check_pair(only(), "sender", 3, 0, 0);
}

static void idle_rank(int r)
{
	eat(2);
	ranks[r].op_count = 0;
	ranks[r].proxy = TASK_SLEEP;
	ranks[r].wakes = false;
	ranks[r].run = ranks[r].wait = 0;
	looks(2);
	assert_int_equal(only()->n_ranks, 0);
}

/* It has no operation active, and so it may sleep; also the one that is through with what its peer waits for. */
static void an_idle_proxy_may_sleep(void **state)
{
	(void)state;
	idle_rank(0);
}

static void the_sender_is_idle(void **state)
{
	(void)state;
	idle_rank(2);
	check_pair(only(), "network", 2, 3, -1);
}

/* It is through and fell asleep before its peers came to a stand: that it sleeps was reported then, and is not again.
 */
static void the_sender_was_idle_before(void **state)
{
	(void)state;
	ranks[2].op_count = 0;
	ranks[2].proxy = TASK_SLEEP;
	ranks[2].wakes = false;
	ranks[2].run = ranks[2].wait = 0;
	for (int i = 0; i < 4; i++) {
		ranks[2].at_rest = i == 3;
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		look();
	}
	eat(2);
	looks(3);
	check_pair(only(), "network", 2, 3, -1);
}

static void starve(int r)
{
	ranks[r].proxy = TASK_RUNNABLE;
	ranks[r].run = 0.003;
	ranks[r].wait = 0.97;
}

/* Others sleep between their polls, or spin: either way they have what they want. */
static void a_starved_proxy(void **state)
{
	(void)state;
	starve(2);
	ranks[1].run = 0.01;
	ranks[1].proxy = TASK_SLEEP;
	looks(4);
	assert_int_equal(list.n, 0);
	looks(2);
	check_culprit(2, "proxy_starved");
}

/* Not once did it get the CPU: the kernel has not counted its wait yet. */
static void a_proxy_that_never_ran(void **state)
{
	(void)state;
	starve(2);
	ranks[2].run = ranks[2].wait = 0;
	ranks[2].wakes = false;
	looks(6);
	check_culprit(2, "proxy_starved");
	assert_true(number_of(only(), "runqueue_wait_share") == 1);
}

/* It creeps, so its counters move; the hosts stand. */
static void a_starved_proxy_creeps(void **state)
{
	(void)state;
	starve(2);
	for (int i = 0; i < 6; i++) {
		ranks[3].recv[0].posted++;
		look();
	}
	check_culprit(2, "proxy_starved");
}

/* A machine on which all wait for CPUs: no rank is at fault for that. */
static void all_proxies_wait(void **state)
{
	(void)state;
	eat(2);
	for (int r = 0; r < RANKS; r++) {
		starve(r);
		ranks[r].wait = 0.9 - 0.05 * r;
		ranks[r].run = 0.003 * (r + 1);
	}
	looks(6);
	check_pair(only(), "network", 2, 3, 1); /* they did look, late */
	assert_int_equal(only()->n_ranks, 0);
}

/* The receiver had no CPU to look: what is in front of it proves nothing. When it has looked at last, after some more
 * looks. */
static void a_receiver_that_could_not_be_sampled(void **state)
{
	(void)state;
	eat(2);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].proxy = TASK_RUNNABLE;
		ranks[r].wait = 0.6;
		ranks[r].run = r == 3 ? 0.0002 : 0.0006;
	}
	looks(6);
	assert_int_equal(list.n, 0);
	ranks[3].run = 0.001;
	looks(2);
	check_pair(only(), "network", 2, 3, 1);
}

static void starved_by_chance(void **state)
{
	(void)state;
	eat(2);
	ranks[0].wait = 0.7;
	ranks[0].run = 0.01;
	ranks[0].proxy = TASK_RUNNABLE;
	looks(2);
	check_pair(only(), "network", 2, 3, 1);
	assert_int_equal(only()->n_ranks, 0);
}

static void of_two_nobody(void **state)
{
	(void)state;
	eat(0);
	for (int r = 1; r < 3; r++) {
		ranks[r].proxy = TASK_SLEEP;
		ranks[r].wakes = false;
	}
	looks(3);
	assert_int_equal(list.n, 0);
}

static void a_rank_stopped_inside(void **state)
{
	const struct finding *f = NULL, *stopped;

	(void)state;
	eat(0);
	ranks[1].main = ranks[1].proxy = TASK_STOPPED;
	ranks[1].run = ranks[1].wait = 0;
	ranks[1].wakes = false;
	looks(3);
	for (size_t i = 0; i < list.n; i++)
		f = list.items[i].kind == FINDING_HANG ? &list.items[i] : f;
	stopped = finding_list_of(&list, FINDING_STOPPED, job_pid(1));
	assert_non_null(f);
	assert_int_equal(f->class, HANG_STOPPED);
	assert_int_equal(f->ranks[0], 1);
	check_pair(f, "receiver", 0, 1, 1);
	assert_int_equal(f->caused_by_key, stopped ? stopped->key : 0);
}

/* The hosts go on, slowly: after four scans that is cpu_starved, and before them nothing. */
static void a_job_that_creeps(void **state)
{
	const struct finding *f;

	(void)state;
	starve(2);
	for (int i = 0; i < 6; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		look();
		assert_true(i >= 4 || list.n == 0);
	}
	f = only();
	assert_int_equal(f->kind, FINDING_CPU_STARVED);
	assert_string_equal(cause_name(f->cause), "proxy_thread");
	assert_int_equal(f->ranks[0], 2);
	assert_true(number_of(f, "runqueue_wait_share") > 0.9);
	assert_true(number_of(f, "peers_wait_share") < 0.1);
	assert_string_equal(text_of(f, "side"), "sender");
}

static void a_scan_without_a_cpu(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		ranks[2].wait = i % 3 ? 0.97 : 0.02;
		ranks[2].run = i % 3 ? 0.003 : 0.9;
		look();
		assert_int_equal(list.n, 0);
	}
}

static void half_a_sample(void **state)
{
	struct event e = job_event(EV_PROXY, 0, 0);

	(void)state;
	look();
	e.proxy.comm = WORLD;
	e.proxy.flags = PROXY_SAMPLE;
	e.proxy.n = 5;
	give(e);
	part_give(0, true, 0);
	for (const struct member *mb = m->procs->members; mb; mb = mb->next_in_proc)
		assert_int_equal(mb->proxies.n_samples, mb->comm->hash == WORLD);
}

static void port_sample_give(uint8_t state)
{
	struct event e = { .kind = EV_PORT_SAMPLE };

	e.port.sample.taken_ns = now;
	e.port.sample.state = state;
	give(e);
}

/* A port that rank `r` has open goes down, a second before its transfers are seen to stop. */
static void port_down_at(int r)
{
	const uint32_t pids[] = { job_pid(r) };
	struct event e = { .kind = EV_PORT };

	e.port.id.number = 1;
	e.port.device = "mlx5_0";
	e.port.netdev = e.port.pci = e.port.kind = e.port.layer = "";
	give(e);
	e.kind = EV_PORT_USERS;
	e.port.users.known = true;
	e.port.users.n = 1;
	memcpy(e.port.users.pids, pids, e.port.users.n * sizeof(pids[0]));
	give(e);
	port_sample_give(PORT_STATE_ACTIVE);
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(detectors_tick(d, m, &list), 0);
	now += SEC;
	port_sample_give(PORT_STATE_DOWN);
	now += SEC;
}

/* The receiver's port, or the sender's, is why; that of a third is not. */
static void a_port_of_the_pair(void **state)
{
	const struct finding *hang = NULL, *port = NULL;

	for (int r = 1; r <= 3; r++) {
		if (r > 1)
			start(state);
		port_down_at(r);
		eat(2);
		looks(3);
		assert_int_equal(list.n, 2);
		for (size_t i = 0; i < 2; i++)
			*(list.items[i].kind == FINDING_LINK ? &port : &hang) = &list.items[i];
		assert_string_equal(cause_name(port->cause), "port_down");
		assert_int_equal(port->n_ranks, 0);
		check_pair(hang, "network", 2, 3, 1);
		assert_int_equal(hang->caused_by_key, r == 1 ? 0 : port->key);
		if (r < 3)
			end(state);
		memset(&list, 0, r < 3 ? sizeof(list) : 0);
	}
}

#define A_JOB(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_JOB(the_network_between_two),
		A_JOB(the_sender_went_on),
		A_JOB(killed_in_the_middle),
		A_JOB(asked_to_go),
		A_JOB(queued_ones_are_counted_off),
		A_JOB(moving_is_not_stuck),
		A_JOB(quiet_links_accuse_nobody),
		A_JOB(a_late_rank_is_late),
		A_JOB(what_was_read_before_it_came_proves_nothing),
		A_JOB(who_is_still_at_it_is_not_late),
		A_JOB(doubtful_roots_wait_for_proof),
		A_JOB(an_unread_rank_leaves_it_open),
		A_JOB(a_proxy_asleep),
		A_JOB(a_proxy_in_d_state),
		A_JOB(an_idle_proxy_may_sleep),
		A_JOB(the_sender_is_idle),
		A_JOB(the_sender_was_idle_before),
		A_JOB(a_starved_proxy),
		A_JOB(a_proxy_that_never_ran),
		A_JOB(a_starved_proxy_creeps),
		A_JOB(all_proxies_wait),
		A_JOB(a_receiver_that_could_not_be_sampled),
		A_JOB(starved_by_chance),
		A_JOB(of_two_nobody),
		A_JOB(a_rank_stopped_inside),
		A_JOB(a_job_that_creeps),
		A_JOB(a_scan_without_a_cpu),
		A_JOB(half_a_sample),
		A_JOB(a_port_of_the_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
