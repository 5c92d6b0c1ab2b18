/* SPDX-License-Identifier: Apache-2.0
 *
 * test_link_cause.c - which finding about a link explains that a rank's transfers do not move: by the subject alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "detect/transfer/link_cause.h"

static struct port port_b = { .id.number = 2, .device = "mlx5_0", .users = { .known = true, .n = 1, .pids = { 101 } } };
static struct port port_a = {
	.id.number = 1, .device = "mlx5_0", .users = { .known = true, .n = 1, .pids = { 100 } }, .next = &port_b
};
static struct node node = { .ports = &port_a };
static struct proc zero = { .node = &node, .tgid = 100 }, one = { .node = &node, .tgid = 101 };
static struct tcp_connection connection = { .local = "10.0.0.1", .remote = "10.0.0.2" };

/* The key that link_cause_key() gives `p` where this is all that was found. */
static bool explains(struct subject s, enum finding_kind kind, enum finding_cause cause, const struct proc *p)
{
	struct tcp_connection *connections[] = { &connection };
	struct node *nodes[] = { &node };
	struct model m = { .nodes = nodes, .n_nodes = 1, .tcp = { .at = connections, .n = 1 } };
	struct finding f = { .kind = kind, .cause = cause, .subject = s };
	struct finding_list found = { .items = &f, .n = 1 };
	uint64_t key;

	port_a.node = port_b.node = &node;
	zero.key = proc_key(0, 100);
	one.key = proc_key(0, 101);
	connection.proc = zero.key;
	finding_identify(&f, "test", 0, 0);
	key = link_cause_key(&m, &found, p);
	assert_true(!key || key == f.key);
	return key;
}

static void check(struct subject s, bool of_zero, bool of_one)
{
	assert_int_equal(explains(s, FINDING_LINK, CAUSE_PORT_DOWN, &zero), of_zero);
	assert_int_equal(explains(s, FINDING_LINK, CAUSE_PORT_DOWN, &one), of_one);
	assert_false(explains(s, FINDING_OBSERVATION, CAUSE_PORT_DOWN, &zero));
}

static void test_ports(void **state)
{
	(void)state;
	check(subject_port(0, "mlx5_0", 1, -1, 0), true, false);
	check(subject_port(0, "mlx5_0", 2, -1, 0), false, true);
	check(subject_port(0, "mlx5_1", 1, -1, 0), false, false);
	check(subject_port(1, "mlx5_0", 1, -1, 0), false, false);        /* another host's */
	check(subject_port(0, "", 0, 1, proc_key(0, 101)), false, true); /* all that is known is whose */
	port_a.users.known = false;
	check(subject_port(0, "mlx5_0", 1, -1, 0), true, true); /* who has it open is not known */
	port_a.users.known = true;
}

static void test_paths(void **state)
{
	(void)state;
	check(subject_path_of_ranks(0, proc_key(0, 100), 7, proc_key(3, 100)), true, false);
	check(subject_path_of_ranks(7, proc_key(3, 100), 1, proc_key(0, 101)), false, true);
	check(subject_path_of_ranks(7, proc_key(3, 100), 8, proc_key(4, 100)), false, false);
}

static void test_tcp(void **state)
{
	(void)state;
	check(subject_address("10.0.0.1", "eth0"), true, false);
	check(subject_address("10.0.0.2", NULL), true, false);
	check(subject_address("10.0.0.3", NULL), false, false);
	check(subject_path("10.0.0.1", "10.0.0.2"), true, false);
	check(subject_path("10.0.0.2", "10.0.0.1"), true, false);
	check(subject_path("10.0.0.1", "10.0.0.3"), false, false);
	check(subject_path(NULL, NULL), true, false);
	assert_true(explains(subject_path(NULL, NULL), FINDING_OBSERVATION, CAUSE_CONGESTION, &zero));
	assert_false(explains(subject_port(0, "mlx5_0", 1, -1, 0), FINDING_OBSERVATION, CAUSE_CONGESTION, &zero));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
