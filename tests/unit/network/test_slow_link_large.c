/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slow_link_large.c - detector slow_link on a ring of a thousand ranks: the slow way is found among a thousand
 * others, and a healthy ring stays silent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PROXY_RANKS 1024
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/proxy_job.h"

enum { SLOW = 777 };

static unsigned int nth;

/* A device whose users are not known: data may go over RDMA. */
static void port_new(void)
{
	struct event e = { .kind = EV_PORT };

	e.port.id.number = 1;
	e.port.device = "rxe0";
	e.port.netdev = e.port.pci = "";
	e.port.kind = "rxe";
	e.port.layer = "Ethernet";
	give(e);
}

/* One sample in ten finds something on its way; of the slow one nine. */
static void go(double seconds, int slow)
{
	for (int i = 0; i < seconds / (sample_ns * 1e-9); i++, nth++) {
		for (int r = 0; r < RANKS; r++) {
			bool tenth = (nth + 3 * r) % 10 == 0;

			ranks[r].n_entered++;
			ranks[r].send[0] = sending(32, 24, (r == slow ? !tenth : tenth) ? 20 : 24);
		}
		look();
	}
}

static void test_one_of_a_thousand(void **state)
{
	(void)state;
	port_new();
	go(14, -1);
	assert_int_equal(list.n, 0);
	go(12, SLOW);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, FINDING_LINK);
	assert_string_equal(cause_name(list.items[0].cause), "slow_path");
	assert_int_equal(number_named(&list.items[0], "sender", -1), SLOW);
	assert_int_equal(number_named(&list.items[0], "receiver", -1), SLOW + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_of_a_thousand, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
