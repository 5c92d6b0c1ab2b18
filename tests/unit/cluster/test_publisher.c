/* SPDX-License-Identifier: Apache-2.0
 *
 * test_publisher.c - reports on their way to the bus: in order, over a cut, once each; what has no room goes from the
 * front. And the parts of subjects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "cluster/publisher.h"
#include "cluster/spool.h"

static struct bus bus;
static char stored[4096];
static int n_calls, fails_from, fails_upto, fails_with;

/* Fails in calls [fails_from, fails_upto). */
static int publish(struct bus *b, const char *token, const void *data, size_t len, const char *id)
{
	int nth = n_calls++;
	size_t at = strlen(stored);

	assert_ptr_equal(b, &bus);
	if (nth >= fails_from && nth < fails_upto)
		return fails_with;
	snprintf(stored + at, sizeof(stored) - at, "%s %s %.*s\n", token, id, (int)len, (const char *)data);
	return 0;
}

static const struct bus_class class = { .publish = publish };

static void messages_publish(int n, size_t room)
{
	struct spool *s = spool_new(room);
	int pair[2];

	bus.class = &class;
	log_quiet = true;
	*stored = 0;
	n_calls = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	for (int i = 1; i <= n; i++) {
		struct {
			struct publisher_frame frame;
			char text[8];
		} one = { { 0xa, i }, "" };

		snprintf(one.text, sizeof(one.text), "m%d", i);
		assert_true(send(pair[0], &one, sizeof(one.frame) + strlen(one.text), 0) > 0);
	}
	close(pair[0]);
	publisher_run(&bus, "node-a", pair[1], s);
	close(pair[1]);
	spool_free(s);
}

static void in_order_with_their_numbers(void **state)
{
	(void)state;
	fails_from = fails_upto = 0;
	messages_publish(3, 1000);
	assert_string_equal(stored, "node-a node-a-a-1 m1\nnode-a node-a-a-2 m2\nnode-a node-a-a-3 m3\n");
}

/* The second is not taken twice; then it comes, and nothing before it or twice. */
static void over_a_cut_in_order(void **state)
{
	(void)state;
	fails_from = 1;
	fails_upto = 3;
	fails_with = -ENOTCONN;
	messages_publish(3, 1000);
	assert_int_equal(n_calls, 5);
	assert_string_equal(stored, "node-a node-a-a-1 m1\nnode-a node-a-a-2 m2\nnode-a node-a-a-3 m3\n");
}

/* The server's limit is below it: no second try will help, and the next one must not wait for it. */
static void what_no_server_takes_is_dropped(void **state)
{
	(void)state;
	fails_from = 0;
	fails_upto = 1;
	fails_with = -EMSGSIZE;
	messages_publish(2, 1000);
	assert_string_equal(stored, "node-a node-a-a-2 m2\n");
}

static void the_oldest_go_where_room_ends(void **state)
{
	(void)state;
	fails_from = fails_upto = 0;
	messages_publish(9, 100); /* of two */
	assert_string_equal(stored, "node-a node-a-a-8 m8\nnode-a node-a-a-9 m9\n");
}

static void a_server_that_never_takes_it_ends_with_the_tracer(void **state)
{
	(void)state;
	fails_from = 0;
	fails_upto = 1000;
	fails_with = -ETIMEDOUT;
	messages_publish(1, 1000);
	assert_string_equal(stored, "");
	assert_in_range(n_calls, 3, 6); /* two seconds, twice a second */
}

static void spool_is_bounded(void **state)
{
	struct spool *s = spool_new(200);
	char big[300] = "";
	size_t len;

	(void)state;
	assert_null(spool_first(s, &len));
	spool_drop(s);
	assert_int_equal(spool_put(s, big, sizeof(big)), 1);
	assert_int_equal(spool_count(s), 0);
	assert_int_equal(spool_put(s, "abc", 3), 0);
	assert_int_equal(spool_put(s, big, 170), 1);
	assert_int_equal(spool_count(s), 1);
	spool_first(s, &len);
	assert_int_equal(len, 170);
	spool_drop(s);
	assert_int_equal(spool_put(s, "d", 1), 0);
	assert_int_equal(spool_count(s), 1);
	spool_free(s);
}

static void tokens_are_plain_and_differ(void **state)
{
	char a[BUS_TOKEN_MAX], b[BUS_TOKEN_MAX], name[300];

	(void)state;
	bus_token("node-17", a);
	assert_string_equal(a, "node-17");
	bus_token("a.b*", a);
	assert_true(!strncmp(a, "a_b__h", 6));
	assert_null(strpbrk(a, ".*> "));
	bus_token("a.b>", b);
	assert_string_not_equal(a, b);
	bus_token("", a);
	assert_true(*a);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	bus_token(name, a);
	name[sizeof(name) - 2] = 'y';
	bus_token(name, b);
	assert_string_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order_with_their_numbers),
		cmocka_unit_test(over_a_cut_in_order),
		cmocka_unit_test(what_no_server_takes_is_dropped),
		cmocka_unit_test(the_oldest_go_where_room_ends),
		cmocka_unit_test(a_server_that_never_takes_it_ends_with_the_tracer),
		cmocka_unit_test(spool_is_bounded),
		cmocka_unit_test(tokens_are_plain_and_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
