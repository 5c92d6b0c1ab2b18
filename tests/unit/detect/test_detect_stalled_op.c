/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_stalled_op.c - all entered, and it does not end: made-up readings of NCCL's proxies. Which
 * pair is named, and when no rank may be. Threads of proxies: test_detect_proxy_starved.c; the table of single
 * connections: test_detect_links.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/stalled_pair.h"

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
	struct event e = job_call_event(1, OP_ALLREDUCE, WORLD, 0, 1 << 20);

	(void)state;
	ranks[1].n_entered = 20;
	ranks[1].op_count = 0;
	ranks[2].send[0] = ranks[2].send[1] = sending(32, 32, 32);
	looks(8);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	e.op.dtype = 7;
	e.op.redop = 0;
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
	assert_int_equal(list.n, 1); /* either of two */
	assert_int_equal(list.items[0].class, HANG_UNKNOWN);
	assert_int_equal(list.items[0].n_ranks, 2);
}

static void an_unread_rank_leaves_it_open(void **state)
{
	(void)state;
	eat(2);
	ranks[0].unread = true;
	looks(4);
	assert_int_equal(list.n, 0);
}

static void a_rank_stopped_inside(void **state)
{
	const struct finding *f;

	(void)state;
	eat(0);
	ranks[1].main = ranks[1].proxy = TASK_STOPPED;
	ranks[1].run = ranks[1].wait = 0;
	ranks[1].wakes = false;
	for (int i = 0; i < 12; i++) { /* the stop is a finding of its own neither then nor later */
		looks(i ? 1 : 3);
		f = only();
		assert_int_equal(f->kind, FINDING_HANG);
		assert_int_equal(f->class, HANG_STOPPED);
		assert_int_equal(f->ranks[0], 1);
		check_pair(f, "receiver", 0, 1, 1);
		assert_int_equal(f->caused_by_key, 0);
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
		A_JOB(a_rank_stopped_inside),
		A_JOB(half_a_sample),
		A_JOB(a_port_of_the_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
