/* SPDX-License-Identifier: Apache-2.0
 *
 * test_homes.c - to which host a rank without a process belongs, by the local ranks of its neighbours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/rank/homes.h"

#define RANKS 12

static struct model m;
static struct node nodes[4];
static struct job_id job;
static struct proc procs[RANKS];

/* Ranks dealt out to hosts of `each`, one host behind the other, or one rank to each host in turn. */
static void deal(int each, bool in_turn)
{
	m = (struct model){ .merged = true, .procs = procs };
	for (int r = 0; r < RANKS; r++) {
		int hosts = RANKS / each, host = in_turn ? r % hosts : r / each;

		procs[r] = (struct proc){ .rank = r, .job = &job, .node = &nodes[host] };
		procs[r].local_rank = in_turn ? r / hosts : r % each;
		procs[r].leader = &procs[r];
		procs[r].next = r + 1 < RANKS ? &procs[r + 1] : NULL;
	}
	memset(nodes, 0, sizeof(nodes));
}

static void goes(int r)
{
	procs[r].is_child = true; /* of something else */
}

static const struct node *home(int r)
{
	struct home *homes = homes_find(&m, RANKS);
	const struct node *host = homes[r].host;

	assert_non_null(homes);
	assert_int_equal(homes[r].has_process, !procs[r].is_child && !proc_unobserved(&procs[r]));
	free(homes);
	return host;
}

static void between_two_of_a_host(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		deal(4, false);
		goes(r);
		assert_ptr_equal(home(r), &nodes[r / 4]);
	}
}

/* With nothing but its neighbours of other hosts: any host may have it. */
static void a_host_of_its_own(void **state)
{
	(void)state;
	deal(4, false);
	for (int r = 4; r < 8; r++)
		goes(r);
	for (int r = 4; r < 8; r++)
		assert_null(home(r));
	deal(4, false);
	nodes[1].silent_ns = 1;
	for (int r = 4; r < 8; r++)
		assert_null(home(r));
	for (int r = 0; r < RANKS; r++)
		procs[r].local_rank = -1;
	goes(1);
	assert_null(home(1));
}

/* Rank 5 of three hosts in turn is the second one of the last: its neighbours by number are on other hosts. */
static void dealt_in_turn(void **state)
{
	(void)state;
	deal(4, true);
	goes(5);
	assert_null(home(5));
	deal(4, true);
	goes(0);
	assert_null(home(0));
}

/* Its host has ranks that were not asked for: it may be one of them. The other hosts' ranks stay theirs. */
static void a_host_seen_in_part(void **state)
{
	(void)state;
	deal(4, false);
	nodes[1].partial = true;
	for (int r = 0; r < RANKS; r++) {
		procs[r].is_child = true;
		assert_ptr_equal(home(r), r / 4 == 1 ? NULL : &nodes[r / 4]);
		procs[r].is_child = false;
	}
}

/* Of a session on one host one neighbour is enough. */
static void one_host(void **state)
{
	(void)state;
	deal(12, false);
	m.merged = false;
	for (int r = 0; r < 6; r++)
		goes(r);
	assert_ptr_equal(home(2), &nodes[0]);
	for (int r = 6; r < 11; r++)
		goes(r);
	assert_ptr_equal(home(10), &nodes[0]);
	m.merged = true;
	assert_null(home(10));
}

/* What a host claims of its ranks reaches no further than a host can be large. */
static void a_claim_that_cannot_be(void **state)
{
	(void)state;
	deal(4, false);
	goes(1);
	procs[11].local_rank = 1 << 30;
	procs[2].rank = procs[3].rank = 1 << 30;
	procs[4].local_rank = -5;
	assert_null(home(1));
	m.merged = false;
	assert_null(home(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_two_of_a_host),  cmocka_unit_test(a_host_of_its_own),
		cmocka_unit_test(dealt_in_turn),          cmocka_unit_test(one_host),
		cmocka_unit_test(a_claim_that_cannot_be), cmocka_unit_test(a_host_seen_in_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
