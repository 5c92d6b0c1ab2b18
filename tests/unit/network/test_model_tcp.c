/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_tcp.c - TCP connections in the model, rule by rule: where one stands, which is whose other end, which
 * samples are kept, what a counter grew by, and what is left when one is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_model.h"

#define EINVAL_IS (-22)

struct side {
	const char *local, *remote;
	int local_port, remote_port;
	uint64_t netns;
};

static const struct side A = { "10.0.0.1", "10.0.0.2", 4000, 5000, 1 }, B = { "10.0.0.2", "10.0.0.1", 5000, 4000, 1 };

static struct event opened(uint32_t node, uint32_t index, const struct side *s)
{
	struct event e = { .kind = EV_TCP, .node = node, .tgid = 100 + index, .ts_ns = now };

	e.tcp.index = index;
	e.tcp.local = s->local;
	e.tcp.remote = s->remote;
	e.tcp.netdev = "eth0";
	e.tcp.id.local_port = s->local_port;
	e.tcp.id.remote_port = s->remote_port;
	e.tcp.id.netns = s->netns;
	return e;
}

static const struct tcp_connection *opens(uint32_t node, uint32_t index, const struct side *s)
{
	give(opened(node, index, s));
	return tcp_connection_of(m, node, index);
}

static void sampled(uint32_t node, uint32_t index, uint32_t n, const uint64_t *counters, uint8_t flags)
{
	struct event e = { .kind = EV_TCP_SAMPLE, .node = node, .tgid = 100 + index };

	e.tcp.index = index;
	e.tcp.sample.flags = flags;
	e.tcp.sample.n_counters = n;
	e.tcp.sample.taken_ns = now - 1;
	e.tcp.counters = counters;
	give(e);
}

static void closes(uint32_t node, uint32_t index)
{
	sampled(node, index, 0, NULL, TCP_GONE);
}

/* --- where it stands --- */

static void of_the_session_s_host(void **state)
{
	const struct tcp_connection *c;
	struct event e;

	(void)state;
	assert_null(tcp_connection_at(m, 0));
	assert_null(tcp_connection_of(m, 0, 0));
	assert_null(tcp_connection_of(m, 7, 0));
	c = opens(0, TCP_CONNECTIONS_MAX - 1, &A);
	assert_true(c && c == tcp_connection_at(m, TCP_CONNECTIONS_MAX - 1) && c->index == TCP_CONNECTIONS_MAX - 1);
	assert_int_equal(m->tcp.n, TCP_CONNECTIONS_MAX);
	assert_null(tcp_connection_of(m, 0, TCP_CONNECTIONS_MAX));
	assert_null(tcp_connection_at(m, TCP_CONNECTIONS_MAX));
	e = opened(0, TCP_CONNECTIONS_MAX, &A);
	assert_int_equal(model_apply(m, &e), EINVAL_IS);
	assert_true(c->proc == proc_key(0, 100 + TCP_CONNECTIONS_MAX - 1) && c->netns == 1 && c->local_port == 4000 &&
		    c->remote_port == 5000);
	assert_string_equal(c->local, "10.0.0.1");
	assert_string_equal(c->remote, "10.0.0.2");
	assert_string_equal(c->netdev, "eth0");
	opens(0, 3, &B);
	closes(0, TCP_CONNECTIONS_MAX - 1);
	assert_int_equal(m->tcp.n, 4);
	closes(0, 3);
	assert_int_equal(m->tcp.n, 0);
}

/* Other hosts' stand behind, each in the first place that is free. */
static void of_other_hosts(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(opens(2, 10 + i, &A)->index, TCP_CONNECTIONS_MAX + i);
	assert_int_equal(opens(3, 11, &A)->index, TCP_CONNECTIONS_MAX + 3);
	closes(2, 11);
	closes(2, 10);
	assert_null(tcp_connection_of(m, 2, 10));
	assert_int_equal(opens(3, 12, &A)->index, TCP_CONNECTIONS_MAX);
	assert_int_equal(opens(3, 13, &A)->index, TCP_CONNECTIONS_MAX + 1);
	assert_int_equal(opens(3, 14, &A)->index, TCP_CONNECTIONS_MAX + 4);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(opens(4 + i / 1000, i % 1000, &A)->index, TCP_CONNECTIONS_MAX + 5 + i);
	assert_true(tcp_connection_of(m, 5, 999)->proc == proc_key(5, 100 + 999));
	assert_int_equal(opens(0, 0, &A)->index, 0);
}

/* A place that is given again is another connection. */
static void given_again(void **state)
{
	const uint64_t counters[TCP_COUNTERS] = { 1 };
	uint64_t id = opens(0, 5, &A)->id;

	(void)state;
	sampled(0, 5, TCP_COUNTERS, counters, 0);
	assert_int_equal(tcp_connection_of(m, 0, 5)->n_samples, 1);
	assert_int_equal(opens(0, 5, &B)->n_samples, 0);
	assert_true(tcp_connection_of(m, 0, 5)->id != id);
	assert_int_equal(tcp_connection_of(m, 0, 5)->local_port, 5000);
	sampled(0, 6, TCP_COUNTERS, counters, 0); /* its identity was before the recording */
	assert_null(tcp_connection_of(m, 0, 6));
}

/* --- whose other end --- */

static void the_two_ends(void **state)
{
	static const struct side others[] = {
		{ "10.0.0.3", "10.0.0.1", 5000, 4000, 1 }, { "10.0.0.2", "10.0.0.3", 5000, 4000, 1 },
		{ "10.0.0.2", "10.0.0.1", 5001, 4000, 1 }, { "10.0.0.2", "10.0.0.1", 5000, 4001, 1 },
		{ "10.0.0.1", "10.0.0.2", 4000, 5000, 1 },
	};
	const struct tcp_connection *a = opens(0, 0, &A), *b;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_null(opens(0, 1 + i, &others[i])->peer);
	assert_null(a->peer);
	closes(0, 5);
	b = opens(0, 6, &B);
	assert_true(a->peer == b && b->peer == a);
	closes(0, 6);
	assert_null(a->peer);
	assert_true(opens(1, 6, &B)->peer == a);
	assert_true(a->peer == tcp_connection_of(m, 1, 6));
}

/* Two containers may use the same addresses: the end in one's own namespace counts, else none. */
static void ends_of_one_name(void **state)
{
	const struct side far = { "10.0.0.2", "10.0.0.1", 5000, 4000, 2 },
			  third = { "10.0.0.2", "10.0.0.1", 5000, 4000, 3 };
	const struct tcp_connection *a = opens(0, 0, &A), *x = opens(0, 1, &far), *y;

	(void)state;
	assert_true(a->peer == x && x->peer == a);
	y = opens(0, 2, &third);
	assert_null(a->peer); /* several could be it */
	assert_true(x->peer == a && y->peer == a);
	closes(0, 2);
	assert_true(a->peer == x);
	y = opens(0, 3, &B);
	assert_true(a->peer == y);
	x = opens(0, 9, &B); /* two of its namespace: the one that came at the higher place */
	assert_true(a->peer == x);
	y = opens(0, 4, &B);
	assert_true(a->peer == x);
	closes(0, 9);
	assert_true(a->peer == y);
	closes(0, 4);
	closes(0, 3);
	assert_true(a->peer == tcp_connection_of(m, 0, 1));
}

/* To itself. */
static void a_connection_to_itself(void **state)
{
	const struct side self = { "127.0.0.1", "127.0.0.1", 4000, 4000, 1 };

	(void)state;
	assert_null(opens(0, 0, &self)->peer);
	assert_true(opens(0, 1, &self)->peer == tcp_connection_of(m, 0, 0));
}

/* --- samples --- */

static void the_newest_samples(void **state)
{
	const struct tcp_connection *c = opens(0, 0, &A);
	uint64_t counters[TCP_COUNTERS];

	(void)state;
	assert_null(tcp_sample_at(c, 0));
	for (uint64_t i = 1; i <= TCP_SAMPLES_KEPT + 2; i++) {
		for (int k = 0; k < TCP_COUNTERS; k++)
			counters[k] = 100 * i + k;
		now += SEC;
		sampled(0, 0, 3, counters, 0);
	}
	for (uint64_t i = 0; i < TCP_SAMPLES_KEPT; i++) {
		const struct tcp_sample *l = tcp_sample_at(c, i);

		assert_true(l->ts_ns == now - i * SEC && l->now.taken_ns == l->ts_ns - 1);
		for (uint64_t k = 0; k < TCP_COUNTERS; k++)
			assert_true(l->counters[k] == (k < 3 ? 100 * (TCP_SAMPLES_KEPT + 2 - i) + k : TCP_NO_VALUE));
	}
	assert_null(tcp_sample_at(c, TCP_SAMPLES_KEPT));
}

static void what_it_grew_by(void **state)
{
	struct tcp_sample before = { .counters = { 5, 5, 5, TCP_NO_VALUE, TCP_NO_VALUE } },
			  after = { .counters = { 9, 5, 4, 7, TCP_NO_VALUE } };
	static const uint64_t grown[] = { 4, 0, 0, 0, 0 };

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(tcp_grown(&after, &before, i), grown[i]);
	before.counters[5] = 7;
	after.counters[5] = TCP_NO_VALUE;
	assert_int_equal(tcp_grown(&after, &before, 5), 0);
	assert_int_equal(tcp_value(&after, 0, 77), 9);
	assert_int_equal(tcp_value(&after, 4, 77), 77);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(of_the_session_s_host), TEST(of_other_hosts),   TEST(given_again),
		TEST(the_two_ends),          TEST(ends_of_one_name), TEST(a_connection_to_itself),
		TEST(the_newest_samples),    TEST(what_it_grew_by),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
