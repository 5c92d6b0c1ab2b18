/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_qp_rules.c - queue pairs, rule by rule: what makes one the far end of another, what a report changes, and
 * until when one that is gone is kept. Stories: test_model_qp.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_model.h"

enum { OURS = 17, FAR = 27 };

static const uint8_t gid_a[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, gid_b[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
		     gid_x[16] = { [10] = 0xff, 0xff, 10, 0, 0, 99 };

static void port_of(uint32_t node, const char *device, const uint8_t gid[16], uint32_t lid)
{
	struct event e = { .kind = EV_GIDS, .node = node };
	uint8_t gids[2][16] = { { 0xfe, 0x80 } };

	memcpy(gids[1], gid, 16);
	e.qp.device = device;
	e.qp.own.port = 1;
	e.qp.own.n = 2;
	e.qp.own.lid = lid;
	e.qp.own.gids = (const uint8_t(*)[16])gids;
	give(e);
}

struct end {
	uint32_t node, tgid;
	const char *device;
	uint32_t qpn, dest;
	const uint8_t *gid;
	uint16_t dlid;
};

static void told(const struct end *q)
{
	struct event e = { .kind = EV_QP, .tgid = q->tgid, .node = q->node };

	e.qp.context = 0x10;
	e.qp.device = q->device;
	e.qp.qpn = q->qpn;
	e.qp.now.change = QP_CHANGED;
	e.qp.now.state = QP_RTS;
	e.qp.now.dest_qpn = q->dest;
	e.qp.now.dlid = q->dlid;
	e.qp.now.has_gid = q->gid != NULL;
	if (q->gid)
		memcpy(e.qp.now.gid, q->gid, 16);
	give(e);
}

static const struct qp *ours(void)
{
	return qp_find(m, model_proc(m, 100), 0, OURS);
}

/* What ours says of its far end, and what the far end says of itself. */
static void far_ends(void **state)
{
	static const struct {
		const char *what;
		const uint8_t *to;
		uint16_t dlid;
		struct end far;
		enum qp_peer_how how;
	} cases[] = {
		{ "its address, and nothing of the other",
		  gid_b,
		  0,
		  { 0, 101, "b", FAR, 0, NULL, 0 },
		  QP_PEER_BY_ADDRESS },
		{ "another's address", gid_x, 0, { 0, 101, "b", FAR, OURS, NULL, 0 }, QP_PEER_NONE },
		{ "the other sends to ours", NULL, 0, { 0, 101, "b", FAR, OURS, gid_a, 0 }, QP_PEER_BY_ADDRESS },
		{ "the other sends to ours, to which is not known",
		  NULL,
		  0,
		  { 0, 101, "b", FAR, 0, gid_a, 0 },
		  QP_PEER_NONE },
		{ "the other sends elsewhere", NULL, 0, { 0, 101, "b", FAR, OURS, gid_x, 0 }, QP_PEER_NONE },
		{ "ours to it, and it elsewhere", gid_b, 0, { 0, 101, "b", FAR, OURS, gid_x, 0 }, QP_PEER_NONE },
		{ "the other names a third", gid_b, 0, { 0, 101, "b", FAR, 99, NULL, 0 }, QP_PEER_NONE },
		{ "both numbers", NULL, 0, { 0, 101, "b", FAR, OURS, NULL, 0 }, QP_PEER_BY_NUMBERS },
		{ "one number", NULL, 0, { 0, 101, "b", FAR, 0, NULL, 0 }, QP_PEER_NONE },
		{ "both numbers, on another host", NULL, 0, { 1, 101, "b", FAR, OURS, NULL, 0 }, QP_PEER_NONE },
		{ "its address, on another host", gid_b, 0, { 1, 101, "b", FAR, 0, NULL, 0 }, QP_PEER_BY_ADDRESS },
		{ "a device without addresses", gid_b, 0, { 0, 101, "c", FAR, OURS, NULL, 0 }, QP_PEER_BY_NUMBERS },
		{ "the same, and one number", gid_b, 0, { 0, 101, "c", FAR, 0, NULL, 0 }, QP_PEER_NONE },
		{ "its lid", NULL, 6, { 0, 101, "b", FAR, 0, NULL, 0 }, QP_PEER_BY_ADDRESS },
		{ "another lid", NULL, 7, { 0, 101, "b", FAR, OURS, NULL, 0 }, QP_PEER_NONE },
		{ "a gid counts before a lid", gid_x, 6, { 0, 101, "b", FAR, OURS, NULL, 0 }, QP_PEER_NONE },
		{ "the other by our lid", NULL, 0, { 0, 101, "b", FAR, OURS, NULL, 5 }, QP_PEER_BY_ADDRESS },
		{ "another number", gid_b, 0, { 0, 101, "b", FAR + 1, OURS, NULL, 0 }, QP_PEER_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct end here = { 0, 100, "a", OURS, FAR, cases[i].to, cases[i].dlid };
		const struct end beside = { 0, 102, "b", 40, 41, NULL, 0 };

		model_free(m);
		fresh(NULL);
		port_of(0, "a", gid_a, 5);
		port_of(0, "b", gid_b, 6);
		port_of(1, "b", gid_b, 6);
		told(&beside);
		told(&here);
		told(&cases[i].far);
		tick();
		if (ours()->peer_how != cases[i].how || (ours()->peer != NULL) != (cases[i].how != QP_PEER_NONE))
			fail_msg("%s: %d", cases[i].what, ours()->peer_how);
		if (ours()->peer)
			assert_int_equal(qp_peer_proc(ours())->tgid, 101);
	}
}

/* Of two that fit equally well it is neither; an address beats a number. */
static void several_fit(void **state)
{
	const struct end here = { 0, 100, "a", OURS, FAR, gid_b, 0 }, one = { 0, 101, "b", FAR, 0, NULL, 0 },
			 two = { 0, 102, "b", FAR, 0, NULL, 0 }, number = { 0, 103, "c", FAR, OURS, NULL, 0 };

	(void)state;
	port_of(0, "b", gid_b, 6);
	told(&here);
	told(&number);
	tick();
	assert_int_equal(ours()->peer_how, QP_PEER_BY_NUMBERS);
	told(&one);
	tick();
	assert_true(ours()->peer_how == QP_PEER_BY_ADDRESS && ours()->peer->proc->tgid == 101);
	told(&two);
	tick();
	assert_true(ours()->peer_how == QP_PEER_NONE && !ours()->peer);
	give((struct event){ .kind = EV_EXEC, .tgid = 102, .tid = 102 }); /* another program: its are gone */
	tick();
	assert_true(ours()->peer && ours()->peer->proc->tgid == 101);
}

static struct event event_of(enum event_kind kind, uint32_t tgid, uint64_t context, uint32_t qpn)
{
	struct event e = { .kind = kind, .tgid = tgid };

	e.qp.context = context;
	e.qp.device = "";
	e.qp.qpn = qpn;
	if (kind == EV_QP) {
		e.qp.now.change = QP_CHANGED;
		e.qp.now.state = QP_STATE_UNKNOWN;
	}
	return e;
}

/* What is not said stays as it was. */
static void what_a_report_changes(void **state)
{
	struct event e = event_of(EV_QP, 100, 0x10, OURS);
	uint64_t first = now;

	(void)state;
	e.qp.now.state = QP_INIT;
	e.qp.now.type = 2;
	e.qp.now.port = 1;
	e.qp.now.dest_qpn = FAR;
	e.qp.now.dlid = 9;
	give(e);
	now += SEC;
	give(event_of(EV_QP, 100, 0x10, OURS));
	assert_true(ours()->state == QP_INIT && ours()->state_ns == first && ours()->type == 2 && ours()->port == 1 &&
		    ours()->dest_qpn == FAR && ours()->dlid == 9);
	give(e); /* the same again: since then */
	assert_int_equal(ours()->state_ns, first);
	e.qp.now.state = QP_ERR;
	give(e);
	assert_true(ours()->state == QP_ERR && ours()->state_ns == now);
	e = event_of(EV_QP_ERROR, 100, 0x10, OURS);
	e.qp.error.status = 12;
	e.qp.error.name = "first";
	give(e);
	now += SEC;
	e.qp.error.status = 13;
	e.qp.error.name = "second";
	give(e);
	assert_true(ours()->error_status == 12 && ours()->error_ns == now - SEC);
	assert_string_equal(ours()->error_name, "first");
	e = event_of(EV_QP_ASYNC, 100, 0x10, OURS);
	e.qp.async.name = "event";
	give(e);
	assert_true(ours()->async_ns == now && !strcmp(ours()->async_name, "event"));
	e.qp.qpn = 0;
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), -22);
	e = event_of(EV_QP, 100, 0x10, 77); /* it is gone, and was never told of */
	e.qp.now.change = QP_GONE;
	give(e);
	assert_null(qp_find(m, model_proc(m, 100), 0, 77));
	assert_int_equal(m->qps.n, 1);
}

/* By context where it is known; what the kernel reports has none. */
static void contexts(void **state)
{
	struct event e = event_of(EV_QP, 100, 0x10, OURS);

	(void)state;
	e.qp.device = "a";
	give(e);
	e.qp.context = 0x20;
	e.qp.device = "b";
	give(e);
	assert_int_equal(m->qps.n, 2);
	assert_string_equal(qp_find(m, model_proc(m, 100), 0x10, OURS)->device, "a");
	assert_string_equal(qp_find(m, model_proc(m, 100), 0x20, OURS)->device, "b");
	assert_string_equal(ours()->device, "b"); /* the newest */
	assert_null(qp_find(m, model_proc(m, 100), 0x30, OURS));
	give(event_of(EV_QP, 100, 0x10, 50)); /* its device is known by its context */
	assert_string_equal(qp_find(m, model_proc(m, 100), 0, 50)->device, "a");
	e = event_of(EV_QP, 100, 0, OURS);
	e.qp.device = "a";
	e.qp.now.dest_qpn = 5;
	give(e);
	assert_int_equal(m->qps.n, 3);
	assert_int_equal(qp_find(m, model_proc(m, 100), 0x10, OURS)->dest_qpn, 5);
	assert_int_equal(qp_find(m, model_proc(m, 100), 0x20, OURS)->dest_qpn, 0);
	give(event_of(EV_QP, 101, 0x10, 50)); /* another process' context of that address */
	assert_string_equal(qp_find(m, model_proc(m, 101), 0, 50)->device, "");
	e = event_of(EV_QP_TOTALS, 101, 0, 50);
	e.qp.device = "c"; /* now it is known, and stays so */
	give(e);
	give(event_of(EV_QP, 101, 0x10, 50));
	assert_string_equal(qp_find(m, model_proc(m, 101), 0, 50)->device, "c");
	give((struct event){ .kind = EV_EXEC, .tgid = 100, .tid = 100 });
	give(event_of(EV_QP, 100, 0x10, 51));
	assert_string_equal(qp_find(m, model_proc(m, 100), 0, 51)->device, "");
	assert_false(qp_alive(qp_find(m, model_proc(m, 100), 0x10, OURS)));
	assert_true(qp_alive(qp_find(m, model_proc(m, 101), 0, 50)));
}

/* A number that is made again is another one; totals that come late are of the one that is gone. */
static void made_again(void **state)
{
	struct event e = event_of(EV_QP, 100, 0x10, OURS), totals = event_of(EV_QP_TOTALS, 100, 0x10, OURS);
	const struct qp *first;

	(void)state;
	e.qp.now.change = QP_MADE;
	give(e);
	first = ours();
	now += SEC;
	give(e);
	assert_true(ours() != first && first->gone && first->gone_ns == now && !ours()->gone);
	e.qp.now.change = QP_GONE;
	now += SEC;
	give(e);
	assert_true(ours()->gone && ours()->gone_ns == now);
	totals.qp.totals.n.posts = 7;
	give(totals);
	assert_true(ours()->totals.n.posts == 7 && ours()->totals_ns == now && first->totals.n.posts == 0);
	assert_int_equal(m->qps.n, 2);
}

/* A minute, as all that is over, at a sweep a second. */
static void kept_for_a_minute(void **state)
{
	struct event e = event_of(EV_QP, 100, 0x10, OURS);

	(void)state;
	give(e);
	told(&(struct end){ 0, 101, "b", FAR, 0, NULL, 0 });
	tick();
	now += SEC;
	e.qp.now.change = QP_GONE;
	give(e);
	now += 60 * SEC;
	tick();
	assert_int_equal(m->qps.n, 2);
	now += SEC - 1;
	tick();
	assert_int_equal(m->qps.n, 2);
	now += 1;
	tick();
	assert_int_equal(m->qps.n, 1);
	assert_null(ours());
	assert_non_null(qp_find(m, model_proc(m, 101), 0, FAR));
}

/* A process that is forgotten takes its queue pairs along: whose peers these were have none. */
static void of_a_process_that_is_forgotten(void **state)
{
	const struct end far = { 0, 101, "b", FAR, OURS, NULL, 0 }, here = { 0, 100, "a", OURS, FAR, NULL, 0 };

	(void)state;
	told(&far);
	told(&here);
	told(&(struct end){ 0, 102, "c", 40, 41, NULL, 0 });
	tick();
	assert_true(ours()->peer && ours()->peer->qpn == FAR);
	assert_int_equal(qp_peer_proc(ours())->tgid, 101);
	exits(0, 101);
	now += 61 * SEC;
	tick();
	assert_null(model_proc(m, 101));
	assert_null(ours()->peer);
	assert_int_equal(ours()->peer_how, QP_PEER_NONE);
	assert_null(qp_peer_proc(ours()));
	assert_int_equal(m->qps.n, 2);
	assert_int_equal(m->qps.newest->qpn, 40);
	assert_int_equal(m->qps.newest->next->qpn, OURS);
	assert_null(m->qps.newest->next->next);
}

static struct event totals_of(uint64_t posts)
{
	struct event e = event_of(EV_QP_TOTALS, 100, 0x10, OURS);

	e.qp.totals.n.posts = posts;
	return e;
}

/* As many as are kept: those that are gone make room, the oldest first; what is more is counted. */
static void so_many_are_kept(void **state)
{
	struct event gone = event_of(EV_QP, 100, 0x10, 5);

	(void)state;
	for (uint32_t i = 1; i <= QPS_KEPT; i++)
		give(event_of(EV_QP, 100, 0x10, i));
	assert_true(m->qps.n == QPS_KEPT && m->qps.cut == 0);
	give(event_of(EV_QP, 100, 0x10, QPS_KEPT + 1));
	assert_true(m->qps.n == QPS_KEPT && m->qps.cut == 1);
	gone.qp.now.change = QP_GONE;
	give(gone);
	gone.qp.qpn = 9;
	give(gone);
	give(event_of(EV_QP, 100, 0x10, QPS_KEPT + 2));
	assert_true(m->qps.n == QPS_KEPT && m->qps.cut == 1);
	assert_null(qp_find(m, model_proc(m, 100), 0, 5));
	assert_non_null(qp_find(m, model_proc(m, 100), 0, 9));
	give(totals_of(7)); /* of one that is there */
	assert_int_equal(ours()->totals.n.posts, 7);
	assert_int_equal(m->qps.cut, 1);
}

/* The addresses of each port: the newest that was reported of it. */
static void ports_of_a_device(void **state)
{
	const struct end here = { 0, 100, "a", OURS, FAR, gid_b, 0 }, far = { 0, 101, "b", FAR, 0, NULL, 0 };
	struct event e = { .kind = EV_GIDS };

	(void)state;
	told(&here);
	told(&far);
	e.qp.device = "b";
	for (uint32_t port = 1; port < 4; port++) {
		e.qp.own.port = port;
		e.qp.own.n = 1;
		e.qp.own.gids = port == 2 ? &gid_b : &gid_x;
		give(e);
	}
	tick();
	assert_int_equal(ours()->peer_how, QP_PEER_BY_ADDRESS);
	e.qp.own.port = 2;
	e.qp.own.gids = &gid_x;
	give(e);
	tick();
	assert_int_equal(ours()->peer_how, QP_PEER_NONE);
	e.qp.own.port = 1;
	e.qp.own.gids = &gid_b;
	give(e);
	tick();
	assert_int_equal(ours()->peer_how, QP_PEER_BY_ADDRESS);
}

static void how_it_reads(void **state)
{
	static const uint8_t six[16] = { 0xfe, 0x80, [15] = 1 };
	char text[QP_GID_TEXT];

	(void)state;
	assert_string_equal(qp_gid_text(gid_b, text), "10.0.0.2");
	assert_string_equal(qp_gid_text(six, text), "fe80::1");
	assert_string_equal(qp_state_name(QP_RESET), "reset");
	assert_string_equal(qp_state_name(QP_ERR), "error");
	assert_string_equal(qp_state_name(QP_ERR + 1), "unknown");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(far_ends),
		TEST(several_fit),
		TEST(what_a_report_changes),
		TEST(contexts),
		TEST(made_again),
		TEST(kept_for_a_minute),
		TEST(of_a_process_that_is_forgotten),
		TEST(so_many_are_kept),
		TEST(ports_of_a_device),
		TEST(how_it_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
