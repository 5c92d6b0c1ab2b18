/* SPDX-License-Identifier: Apache-2.0
 *
 * test_link_place.c - bad links as hosts see their own, and the place that they share: an end of all of them, one path
 * seen from both sides, or none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/intern.h"
#include "detect/network/link_place.h"

#define SEC 1000000000ull
#define NOW (100 * SEC)

static struct finding_list list;

static int fresh(void **state)
{
	(void)state;
	list.n = 0;
	return 0;
}

static int over(void **state)
{
	(void)state;
	finding_list_free(&list);
	return 0;
}

/* `host` n has the address 10.0.0.n. `b` NULL: all that `a` has is bad. */
static struct finding *said(uint32_t host, enum finding_cause cause, const char *a, const char *b, uint64_t since_ns)
{
	static const char *const local[] = { "10.0.0.0 port 5 to ?", "10.0.0.1 port 5 to ?", "10.0.0.2 port 5 to ?",
					     "10.0.0.3 port 5 to ?", "10.0.0.4 port 5 to ?" };
	struct finding *f = finding_list_add(&list);

	f->kind = FINDING_LINK;
	f->cause = cause;
	f->node = host;
	f->since_ns = since_ns;
	f->subject = b ? subject_path(a, b) : subject_address(a, "eth0");
	finding_note_text(f, EVIDENCE_TRANSPORT, "tcp");
	if (b) {
		finding_note_text(f, EVIDENCE_ADDRESS_A, a);
		finding_note_text(f, EVIDENCE_ADDRESS_B, b);
	} else {
		finding_note_text(f, EVIDENCE_ADDRESS, a);
	}
	finding_note(f, EVIDENCE_PATHS, 1);
	finding_note_text(f, EVIDENCE_CONNECTION, local[host]);
	finding_identify(f, "tcp", host, since_ns);
	return f;
}

static void join(size_t n)
{
	assert_int_equal(link_places_join(&list, NOW), 0);
	assert_int_equal(list.n, n);
}

static void assert_root(size_t root)
{
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].caused_by_key, i == root ? 0 : list.items[root].key);
}

#define A "10.0.0.1"
#define B "10.0.0.2"
#define C "10.0.0.3"
#define D "10.0.0.4"

/* Each of the others sees one bad path; host C says nothing. */
static void an_end_that_hosts_share(void **state)
{
	uint64_t key;

	(void)state;
	for (int again = 0; again < 2; again++) {
		list.n = 0;
		said(1, CAUSE_RETRANSMITS, A, C, NOW - 20 * SEC);
		said(2, CAUSE_SLOW_PATH, C, B, NOW - 30 * SEC);
		join(3);
		assert_root(2);
		assert_int_equal(list.items[2].subject.type, SUBJECT_PORT);
		assert_string_equal(list.items[2].subject.address, C);
		assert_string_equal(finding_text(&list.items[2], EVIDENCE_ADDRESS), C);
		assert_null(finding_text(&list.items[2], EVIDENCE_ADDRESS_A));
		assert_true(finding_number(&list.items[2], EVIDENCE_PATHS) == 2);
		assert_int_equal(list.items[2].since_ns, NOW - 30 * SEC);
		assert_int_equal(list.items[2].node, FINDING_NO_NODE); /* whose address it is nobody says */
		assert_true(!again || list.items[2].key == key);
		key = list.items[2].key;
	}
}

static void what_its_own_host_says(void **state)
{
	(void)state;
	said(1, CAUSE_SLOW_PATH, A, C, NOW - 30 * SEC);
	said(3, CAUSE_RETRANSMITS, C, NULL, NOW - 20 * SEC);
	said(2, CAUSE_SLOW_PATH, B, C, NOW - 25 * SEC);
	join(3);
	assert_root(1);
	assert_int_equal(list.items[1].node, 3);
}

static void one_path_from_both_sides(void **state)
{
	(void)state;
	said(1, CAUSE_SLOW_PATH, A, B, NOW - 20 * SEC);
	said(2, CAUSE_RETRANSMITS, A, B, NOW - 30 * SEC);
	join(2);
	assert_root(1);
	assert_int_equal(list.items[1].node, 2);
}

static void no_place(void **state)
{
	(void)state;
	said(1, CAUSE_SLOW_PATH, A, B, NOW - 20 * SEC); /* of one host alone */
	said(1, CAUSE_SLOW_PATH, A, C, NOW - 20 * SEC);
	said(3, CAUSE_SLOW_PATH, D, NULL, NOW - 20 * SEC);
	join(3);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].caused_by_key, 0);
	list.n = 0;
	said(1, CAUSE_SLOW_PATH, A, B, NOW - 20 * SEC); /* all of three alike */
	said(2, CAUSE_SLOW_PATH, B, C, NOW - 20 * SEC);
	said(3, CAUSE_SLOW_PATH, A, C, NOW - 20 * SEC);
	join(3);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].caused_by_key, 0);
}

/* A fourth host's path looks bad for a while: the place stays what it was. */
static void a_place_that_was_there_before(void **state)
{
	(void)state;
	for (int later = 3; later < 5; later++) {
		list.n = 0;
		said(3, CAUSE_RETRANSMITS, C, D, NOW - (20 - later) * SEC);
		said(1, CAUSE_RETRANSMITS, A, B, NOW - 20 * SEC);
		said(2, CAUSE_RETRANSMITS, B, C, NOW - 20 * SEC);
		join(later == 3 ? 3 : 4);
		assert_int_equal(list.items[0].caused_by_key, 0);
		if (later == 3)
			continue;
		assert_string_equal(list.items[3].subject.address, B);
		for (int i = 1; i < 3; i++)
			assert_int_equal(list.items[i].caused_by_key, list.items[3].key);
	}
}

static void two_places(void **state)
{
	(void)state;
	said(1, CAUSE_SLOW_PATH, A, C, NOW - 20 * SEC);
	said(2, CAUSE_SLOW_PATH, B, C, NOW - 20 * SEC);
	said(4, CAUSE_SLOW_PATH, C, D, NOW - 20 * SEC);
	said(1, CAUSE_STALLED, "10.0.1.1", "10.0.1.2", NOW - 20 * SEC);
	said(2, CAUSE_STALLED, "10.0.1.1", "10.0.1.2", NOW - 30 * SEC);
	join(6);
	assert_string_equal(list.items[5].subject.address, C);
	for (int i = 0; i < 3; i++)
		assert_int_equal(list.items[i].caused_by_key, list.items[5].key);
	assert_int_equal(list.items[3].caused_by_key, list.items[4].key);
	assert_int_equal(list.items[4].caused_by_key, 0);
}

static void a_path_waits_for_what_others_say(void **state)
{
	(void)state;
	said(1, CAUSE_SLOW_PATH, A, B, NOW - LINK_PLACE_WAIT_NS + 1);
	said(2, CAUSE_NETDEV_DOWN, B, NULL, NOW - SEC);
	join(1);
	assert_int_equal(list.items[0].node, 2);
	list.n = 0;
	said(1, CAUSE_SLOW_PATH, A, B, NOW - LINK_PLACE_WAIT_NS);
	join(1);
}

/* RDMA ports, and what is no link. */
static void what_is_no_tcp_link(void **state)
{
	(void)state;
	said(1, CAUSE_SLOW_PATH, A, C, NOW - 20 * SEC)->n_evidence = 0;
	said(2, CAUSE_SLOW_PATH, B, C, NOW - 20 * SEC)->kind = FINDING_OBSERVATION;
	said(3, CAUSE_SLOW_PATH, C, NULL, NOW - 20 * SEC)->subject = subject_path(NULL, NULL);
	said(4, CAUSE_SLOW_PATH, C, D, NOW)->kind = FINDING_OBSERVATION;
	join(4);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].caused_by_key, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_end_that_hosts_share, fresh),
		cmocka_unit_test_setup(what_its_own_host_says, fresh),
		cmocka_unit_test_setup(one_path_from_both_sides, fresh),
		cmocka_unit_test_setup(no_place, fresh),
		cmocka_unit_test_setup(a_place_that_was_there_before, fresh),
		cmocka_unit_test_setup(two_places, fresh),
		cmocka_unit_test_setup(a_path_waits_for_what_others_say, fresh),
		cmocka_unit_test_setup(what_is_no_tcp_link, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, over);
}
