/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tcp_places.c - where a fault is by the pairs of addresses that show it: at a host, on a path, all over. Pairs
 * are written as "AB": from A to B.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/network/tcp_places.h"

static struct tcp_pairs pairs;
static struct tcp_place places[TCP_PLACES_MAX];
static char names[26][2];

static struct tcp_pair *pair(const char *ends)
{
	struct tcp_pair *p = keyed_get(&pairs.table, ends[0], ends[1], sizeof(*p));

	names[ends[0] - 'A'][0] = ends[0];
	names[ends[1] - 'A'][0] = ends[1];
	p->a = names[ends[0] - 'A'];
	p->b = names[ends[1] - 'A'];
	return p;
}

static int begin(void **state)
{
	(void)state;
	pairs = (struct tcp_pairs){ .n_of = 0 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	keyed_free(&pairs.table);
	return 0;
}

/* " A2@5": host A, two pairs, since 5; " AB@5": a path; " *3@5": all over. In the order in which they were found. */
static const char *found(enum tcp_fault f)
{
	static char text[256];
	int n = tcp_places_find(&pairs, f, places);

	text[0] = 0;
	for (int i = 0; i < n; i++) {
		const struct tcp_place *p = &places[i];
		char *to = text + strlen(text);

		assert_non_null(p->pair);
		assert_true(!p->everywhere || !p->address);
		if (p->everywhere)
			sprintf(to, " *%d@%d", p->n_pairs, (int)p->since_ns);
		else if (p->address)
			sprintf(to, " %s%d@%d", p->address, p->n_pairs, (int)p->since_ns);
		else
			sprintf(to, " %s%s@%d", p->pair->a, p->pair->b, (int)p->since_ns);
	}
	return text;
}

/* " AB5" is so since 5, " AB+" well, " AB-" idle. */
static const char *of(const char *what, enum tcp_fault f)
{
	for (; *what; what += strcspn(what + 1, " ") + 1) {
		struct tcp_pair *p = pair(what + 1);

		p->n_moving = what[3] == '+' && f != TCP_FAULT_SLOW;
		p->rtt_us = what[3] == '+' && f == TCP_FAULT_SLOW;
		p->since_ns[f] = what[3] == '+' || what[3] == '-' ? 0 : what[3] - '0';
	}
	return found(f);
}

static void where_it_is(void **state)
{
	static const struct {
		const char *pairs, *places;
	} cases[] = {
		{ " AB+", "" },
		{ " AB-", "" },
		{ " AB5", " AB@5" },
		{ " AB5 CD4", " CD@4 AB@5" },
		{ " AB5 CD4 EF+", " CD@4 AB@5" },
		{ " AB5 AC4", " A2@4" },
		{ " AB4 AC5", " A2@4" },
		{ " AB4 CB5", " B2@4" },
		{ " AB5 CA4", " A2@4" },
		{ " AB5 AC4 AD-", " A2@4" },
		{ " AB5 AC4 AD+", " AC@4 AB@5" },
		{ " AB5 AC4 AD6", " A3@4" },
		{ " AB5 BC4 CA6", " *3@4" },
		{ " AB5 BC4 CA6 DE+", " C2@4 AB@5" },
		{ " AB5 CD4 EF6", " *3@4" },
		{ " AB5 CD4 EF6 GH+", " EF@6 CD@4 AB@5" },
		{ " AB5 AC4 AD6 EF7", " *4@4" },
		{ " AB5 AC4 AD6 EF7 GH+", " A3@4 EF@7" },
		{ " AB5 AC4 DE6 DF7 DG8 HI+", " D3@6 A2@4" },
		{ " AB1 CD2 EF3 GH4 IJ5 KL6 MN7 OP8 QR9 ST+", " QR@9 OP@8 MN@7 KL@6 IJ@5 GH@4 EF@3 CD@2" },
	};
	static const enum tcp_fault faults[] = { TCP_FAULT_STALL, TCP_FAULT_SLOW, TCP_FAULT_LOSS };

	for (int f = 0; f < 3; f++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			const char *is = of(cases[i].pairs, faults[f]);

			if (strcmp(is, cases[i].places))
				fail_msg("%s:%s", cases[i].pairs, is);
			end(state);
			begin(state);
		}
}

/* What flows says that a path is no stall; of its round trips it says something only where there were some. */
static void what_is_well(void **state)
{
	struct tcp_pair *p;

	(void)state;
	of(" AB5 AC4 AD-", TCP_FAULT_SLOW);
	p = pair("AD");
	p->n_moving = 3;
	assert_string_equal(found(TCP_FAULT_SLOW), " A2@4");
	p->rtt_us = 1;
	assert_string_equal(found(TCP_FAULT_SLOW), " AC@4 AB@5");
	assert_string_equal(found(TCP_FAULT_STALL), ""); /* each fault has its own */
}

/* What has no carrier is known without counting. */
static void a_netdev_that_is_down(void **state)
{
	(void)state;
	of(" AB5 CD+", TCP_FAULT_NETDEV);
	pair("AB")->netdev_down[0] = true;
	assert_string_equal(found(TCP_FAULT_NETDEV), " A1@5");
	assert_string_equal(found(TCP_FAULT_STALL), "");
	pair("AB")->netdev_down[0] = false;
	pair("AB")->netdev_down[1] = true;
	assert_string_equal(found(TCP_FAULT_NETDEV), " B1@5");
	of(" AC4 AE+", TCP_FAULT_NETDEV);
	assert_string_equal(found(TCP_FAULT_NETDEV), " B1@5 AC@4");
	pair("AC")->netdev_down[0] = true;
	assert_string_equal(found(TCP_FAULT_NETDEV), " A2@4");
	pair("AB")->since_ns[TCP_FAULT_NETDEV] = 0;
	assert_string_equal(found(TCP_FAULT_NETDEV), " A1@4");
}

static void which_has_it(void **state)
{
	(void)state;
	assert_true(tcp_pair_has(pair("AB"), "A") && tcp_pair_has(pair("AB"), "B"));
	assert_false(tcp_pair_has(pair("AB"), "C"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(where_it_is),
		TEST(what_is_well),
		TEST(a_netdev_that_is_down),
		TEST(which_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
