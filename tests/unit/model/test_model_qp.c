/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_qp.c - queue pairs: what probes and the kernel say of one is joined, far ends on this host are found by
 * address and not where a namesake of another host would fit as well, numbers used again are others, and their number
 * is bounded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

static uint64_t now_ns;

static const uint8_t gid_a[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, gid_b[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
		     gid_far[16] = { [10] = 0xff, 0xff, 10, 0, 0, 3 };

static void give(struct model *m, struct event e)
{
	e.ts_ns = now_ns += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static void tick(struct model *m)
{
	give(m, (struct event){ .kind = EV_TICK });
}

static void proc(struct model *m, uint32_t tgid, int rank)
{
	struct event e = { .kind = EV_PROC, .tgid = tgid };

	e.proc = (typeof(e.proc)){ .start_ns = 1,
				   .rank = rank,
				   .local_rank = rank,
				   .world_size = 4,
				   .job = "job",
				   .name = "train",
				   .container = "",
				   .pod = "" };
	give(m, e);
}

static void own(struct model *m, const char *device, const uint8_t gid[16])
{
	struct event e = { .kind = EV_GIDS };
	uint8_t gids[1][16];

	memcpy(gids[0], gid, 16);
	e.qp.device = device;
	e.qp.own.port = e.qp.own.n = 1;
	e.qp.own.gids = (const uint8_t(*)[16])gids;
	give(m, e);
}

static struct event qp(uint32_t tgid, uint64_t context, const char *device, uint32_t qpn, enum qp_change change)
{
	struct event e = { .kind = EV_QP, .tgid = tgid };

	e.qp.context = context;
	e.qp.device = device;
	e.qp.qpn = qpn;
	e.qp.now.change = change;
	e.qp.now.state = QP_STATE_UNKNOWN;
	return e;
}

/* Ready to receive from (gid, dest). */
static void rtr(struct model *m, uint32_t tgid, uint64_t context, const char *device, uint32_t qpn, const uint8_t *gid,
		uint32_t dest)
{
	struct event e = qp(tgid, context, device, qpn, QP_CHANGED);

	e.qp.now.state = QP_RTR;
	e.qp.now.dest_qpn = dest;
	e.qp.now.has_gid = gid != NULL;
	if (gid)
		memcpy(e.qp.now.gid, gid, 16);
	give(m, e);
}

static struct model *two_ranks(void)
{
	struct model *m = model_new();

	assert_non_null(m);
	now_ns = JOB_T0;
	proc(m, 100, 0);
	proc(m, 101, 1);
	own(m, "mlx5_0", gid_a);
	own(m, "mlx5_1", gid_b);
	return m;
}

static const struct qp *get(const struct model *m, uint32_t tgid, uint32_t qpn)
{
	const struct qp *q = qp_find(m, model_proc(m, tgid), 0, qpn);

	assert_non_null(q);
	return q;
}

static void test_far_ends_by_address(void **state)
{
	struct model *m = two_ranks();

	(void)state;
	give(m, qp(100, 0x10, "mlx5_0", 17, QP_MADE));
	give(m, qp(101, 0x20, "mlx5_1", 17, QP_MADE));
	rtr(m, 100, 0x10, "mlx5_0", 17, gid_b, 17);
	rtr(m, 101, 0x20, "mlx5_1", 17, gid_a, 17);
	give(m, qp(100, 0x10, "mlx5_0", 18, QP_MADE)); /* to another host, whose numbers are the same */
	rtr(m, 100, 0x10, "mlx5_0", 18, gid_far, 17);
	tick(m);
	assert_ptr_equal(get(m, 100, 17)->peer, get(m, 101, 17));
	assert_int_equal(get(m, 100, 17)->peer_how, QP_PEER_BY_ADDRESS);
	assert_int_equal(proc_rank(qp_peer_proc(get(m, 101, 17))), 0);
	assert_null(get(m, 100, 18)->peer);
	assert_null(qp_peer_proc(get(m, 100, 18)));
	assert_int_equal(m->qps.n, 3);
	model_free(m);
}

/* Two jobs of two hosts number alike: an address, where there is one, says that it is not the one of this host. */
static void test_far_ends_by_numbers(void **state)
{
	struct model *m = two_ranks();

	(void)state;
	rtr(m, 100, 0, "mlx5_0", 30, NULL, 31);
	rtr(m, 101, 0, "mlx5_1", 31, NULL, 30);
	rtr(m, 100, 0, "mlx5_0", 40, NULL, 41);
	rtr(m, 101, 0x20, "mlx5_1", 41, gid_far, 40);
	tick(m);
	assert_ptr_equal(get(m, 100, 30)->peer, get(m, 101, 31));
	assert_int_equal(get(m, 100, 30)->peer_how, QP_PEER_BY_NUMBERS);
	assert_null(get(m, 100, 40)->peer);
	assert_null(get(m, 101, 41)->peer);
	proc(m, 102, 2);
	rtr(m, 102, 0, "mlx5_2", 31, NULL, 30); /* a second one fits */
	tick(m);
	assert_null(get(m, 100, 30)->peer);
	assert_int_equal(get(m, 100, 30)->peer_how, QP_PEER_NONE);
	model_free(m);
}

static void test_sources_are_joined(void **state)
{
	struct event e = qp(100, 0, "mlx5_0", 50, QP_FOUND);
	struct model *m = two_ranks();
	const struct qp *q;

	(void)state;
	e.qp.now.by_kernel = true;
	e.qp.now.dest_qpn = 51;
	e.qp.now.state = QP_RTS;
	give(m, e);
	give(m, qp(100, 0x10, "mlx5_0", 50, QP_FOUND)); /* in its memory */
	e = (struct event){ .kind = EV_QP_TOTALS, .tgid = 100 };
	e.qp.context = 0x10;
	e.qp.qpn = 50;
	e.qp.device = "";
	e.qp.totals.n.posts = 7;
	give(m, e);
	e.qp.context = 0x99; /* another device's, of which nothing else is known */
	e.qp.totals.n.posts = 8;
	give(m, e);
	assert_int_equal(m->qps.n, 2);
	q = qp_find(m, model_proc(m, 100), 0x10, 50);
	assert_non_null(q);
	assert_true(q->totals.n.posts == 7 && q->dest_qpn == 51 && q->state == QP_RTS && q->context == 0x10);
	assert_int_equal(qp_find(m, model_proc(m, 100), 0x99, 50)->totals.n.posts, 8);
	model_free(m);
}

static void test_numbers_are_used_again(void **state)
{
	struct model *m = two_ranks();
	const struct qp *first, *second;
	struct event e;

	(void)state;
	give(m, qp(100, 0x10, "mlx5_0", 60, QP_MADE));
	first = get(m, 100, 60);
	give(m, qp(100, 0x10, "mlx5_0", 60, QP_GONE));
	assert_false(qp_alive(first));
	e = (struct event){ .kind = EV_QP_ERROR, .tgid = 100 }; /* read late */
	e.qp.context = 0x10;
	e.qp.qpn = 60;
	e.qp.device = "";
	e.qp.error.status = 12;
	e.qp.error.name = "transport retry exceeded";
	give(m, e);
	assert_int_equal(first->error_status, 12);
	give(m, qp(100, 0x10, "mlx5_0", 60, QP_MADE));
	second = get(m, 100, 60);
	assert_ptr_not_equal(first, second);
	assert_true(qp_alive(second) && !second->error_ns);
	now_ns += 61 * SEC;
	tick(m);
	assert_int_equal(m->qps.n, 1);
	e = (struct event){ .kind = EV_EXIT, .tgid = 100, .tid = 100 };
	e.exit.last = true;
	give(m, e);
	assert_false(qp_alive(second));
	model_free(m);
}

static void test_number_is_bounded(void **state)
{
	struct model *m = two_ranks();

	(void)state;
	for (uint32_t i = 0; i < QPS_KEPT + 10; i++)
		give(m, qp(100, 0x10, "mlx5_0", i + 1, QP_MADE));
	assert_int_equal(m->qps.n, QPS_KEPT);
	assert_int_equal(m->qps.cut, 10);
	give(m, qp(100, 0x10, "mlx5_0", 1, QP_GONE));
	give(m, qp(100, 0x10, "mlx5_0", QPS_KEPT + 100, QP_MADE)); /* one that is gone makes room */
	assert_int_equal(m->qps.n, QPS_KEPT);
	assert_int_equal(m->qps.cut, 10);
	model_free(m);
}

static void test_snapshot(void **state)
{
	struct event e = { .kind = EV_QP_TOTALS, .tgid = 100 };
	struct model *m = two_ranks();
	struct model_copy copy;
	const struct qp *q;

	(void)state;
	e.qp.context = 0x10;
	e.qp.qpn = 150;
	e.qp.device = "";
	e.qp.totals = (struct qp_totals){ .n = { 1, 2, 3, .first_post_ns = 4 }, .first_status = 5, .cut = true };
	give(m, qp(100, 0x10, "mlx5_0", 17, QP_MADE));
	give(m, qp(100, 0x10, "mlx5_0", 17, QP_GONE));
	for (uint32_t i = 17; i < 200; i++) {
		give(m, qp(100, 0x10, "mlx5_0", i, QP_MADE));
		give(m, qp(101, 0x20, "mlx5_1", i, QP_MADE));
		rtr(m, 100, 0x10, "mlx5_0", i, gid_b, i);
		rtr(m, 101, 0x20, "mlx5_1", i, gid_a, i);
	}
	e.qp.totals.n.in_flight_bytes = 7;
	give(m, e);
	tick(m);
	model_copy(m, &copy);
	own(copy.m, "mlx5_0", gid_a); /* records that are kept */
	own(copy.m, "mlx5_1", gid_b);
	tick(copy.m);
	assert_int_equal(copy.m->qps.n, m->qps.n);
	q = get(copy.m, 100, 150);
	assert_ptr_equal(q->peer, get(copy.m, 101, 150));
	assert_true(q->state == QP_RTR && q->has_gid && !memcmp(q->gid, gid_b, 16) && !strcmp(q->device, "mlx5_0"));
	assert_memory_equal(&q->totals.n, &e.qp.totals.n, sizeof(q->totals.n));
	assert_true(q->totals.first_status == 5 && q->totals.cut && !q->totals.from_start);
	assert_true(qp_alive(get(copy.m, 100, 17)));
	model_free(m);
	model_free(copy.m);
	model_copy_free(&copy);
}

static void burst_of(struct model *m, uint32_t qpn, uint64_t first_ns, uint64_t last_ns)
{
	struct event e = { .kind = EV_QP_BURST, .tgid = 100 };

	e.qp.context = 0x10;
	e.qp.qpn = qpn;
	e.qp.device = "";
	e.qp.burst.posts = 3;
	e.qp.burst.bytes = 300;
	e.qp.burst.first_ns = first_ns;
	e.qp.burst.last_ns = last_ns;
	give(m, e);
}

static void burst(struct model *m, uint64_t first_ns, uint64_t last_ns)
{
	burst_of(m, 17, first_ns, last_ns);
}

static const struct op *op_call_of(struct model *m, uint64_t comm)
{
	struct event e = { .kind = EV_OP, .tgid = 100, .tid = 100 };

	e.op.addr = comm;
	e.op.stream = 0x5;
	e.op.count = 8;
	e.op.op = OP_ALLREDUCE;
	e.op.dtype = e.op.redop = e.op.root = e.op.peer = -1;
	give(m, e);
	return model_proc(m, 100)->last_op;
}

static const struct op *op_call(struct model *m)
{
	return op_call_of(m, 0x1000);
}

static void all_over(struct model *m)
{
	struct event e = { .kind = EV_SYNC_END, .tgid = 100, .tid = 100 };

	e.sync.kind = SYNC_CONTEXT;
	e.sync.begin_ns = now_ns;
	give(m, e);
	while (model_next_ended(m))
		;
}

/* NCCL makes queue pairs for each communicator: beside an operation of another one it is known whose a post was. */
static void test_posts_beside_another_communicator(void **state)
{
	struct model *m = two_ranks();
	const struct op *one, *other;

	(void)state;
	rtr(m, 100, 0x10, "mlx5_0", 17, gid_b, 27);
	rtr(m, 100, 0x10, "mlx5_0", 18, gid_b, 28);
	rtr(m, 100, 0x10, "mlx5_0", 19, gid_b, 29);
	for (int i = 0; i < 2; i++) {
		op_call_of(m, 0x1000);
		burst_of(m, 17, now_ns + 1, now_ns + 2);
		burst_of(m, 19, now_ns + 1, now_ns + 2);
		all_over(m);
		op_call_of(m, 0x2000);
		burst_of(m, 18, now_ns + 1, now_ns + 2);
		burst_of(m, 19, now_ns + 1, now_ns + 2); /* somebody else's: of both */
		all_over(m);
	}
	one = op_call_of(m, 0x1000);
	other = op_call_of(m, 0x2000);
	burst_of(m, 17, now_ns + 1, now_ns + 2);
	burst_of(m, 18, now_ns + 3, now_ns + 4);
	assert_true(one->net.posts == 3 && !one->net.shared);
	assert_true(other->net.posts == 3 && !other->net.shared);
	burst_of(m, 19, now_ns + 5, now_ns + 6);
	assert_true(one->net.posts == 3 && one->net.shared && other->net.posts == 3 && other->net.shared);
	model_free(m);
}

/* A burst is an operation's where it can be no other's. */
static void test_posts_of_an_operation(void **state)
{
	struct event e = { .kind = EV_SYNC_END, .tgid = 100, .tid = 100 };
	struct model *m = two_ranks();
	const struct op *first, *second, *third;
	uint64_t called_ns;

	(void)state;
	burst(m, now_ns - 2, now_ns - 1); /* of none */
	first = op_call(m);
	called_ns = now_ns;
	burst(m, called_ns - 10, called_ns + 10); /* began before it: not only its own */
	assert_true(first->net.posts == 0 && first->net.shared);
	burst(m, called_ns + 100, called_ns + 200);
	burst(m, called_ns + 50, called_ns + 150); /* of another queue pair */
	assert_true(first->net.posts == 6 && first->net.bytes == 600 && first->net.first_ns == called_ns + 50 &&
		    first->net.last_ns == called_ns + 200 && first->net.done_ns == now_ns);
	second = op_call(m); /* while the first may run: which of the two is not known */
	burst(m, now_ns + 1, now_ns + 2);
	assert_int_equal(second->net.posts, 0);
	assert_int_equal(first->net.posts, 6);
	e.sync.kind = SYNC_CONTEXT;
	e.sync.begin_ns = now_ns;
	give(m, e);
	assert_true(first->end_ns && second->end_ns);
	while (model_next_ended(m))
		;
	third = op_call(m);
	burst(m, now_ns + 1, now_ns + 2);
	assert_true(third->net.posts == 3 && !third->net.shared);
	model_free(m);
}

static void test_names(void **state)
{
	static const uint8_t v6[16] = { 0xfe, 0x80, [15] = 1 };
	char text[QP_GID_TEXT];

	(void)state;
	assert_string_equal(qp_gid_text(gid_b, text), "10.0.0.2");
	assert_string_equal(qp_gid_text(v6, text), "fe80::1");
	assert_string_equal(qp_state_name(QP_ERR), "error");
	assert_string_equal(qp_state_name(QP_STATE_UNKNOWN), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_far_ends_by_address),
		cmocka_unit_test(test_far_ends_by_numbers),
		cmocka_unit_test(test_sources_are_joined),
		cmocka_unit_test(test_numbers_are_used_again),
		cmocka_unit_test(test_number_is_bounded),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_posts_of_an_operation),
		cmocka_unit_test(test_posts_beside_another_communicator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
