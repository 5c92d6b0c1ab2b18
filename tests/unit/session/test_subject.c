/* SPDX-License-Identifier: Apache-2.0
 *
 * test_subject.c - what a finding is about: the same subject has the same hash whatever became known of it later,
 * others have another one; and the keys of findings made of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "event.h"
#include "finding.h"

static uint64_t hash(struct subject s)
{
	return subject_hash(&s);
}

static void test_what_it_is_known_by(void **state)
{
	uint64_t proc = proc_key(3, 4711);
	char device[] = "mlx5_0", address[] = "10.0.0.1";

	(void)state;
	assert_true(hash(subject_rank(-1, proc)) == hash(subject_rank(7, proc))); /* its rank is known later */
	assert_true(hash(subject_gpu(1, SUBJECT_NO_GPU, 0x3b00)) == hash(subject_gpu(1, 5, 0x3b00)));
	assert_true(hash(subject_address("10.0.0.1", NULL)) == hash(subject_address(address, "eth0")));
	assert_true(hash(subject_port(1, "mlx5_0", 1, -1, 0)) == hash(subject_port(1, device, 1, 2, 0)));
	assert_true(hash(subject_port(1, "", 0, 2, proc)) == hash(subject_port(1, "mlx5_0", 1, 2, proc)));
	assert_int_equal(subject_rank(7, proc).node, 3);
	assert_int_equal(subject_rank(7, 0).node, SUBJECT_NO_NODE);
}

static void test_all_differ(void **state)
{
	uint64_t proc = proc_key(3, 4711), other = proc_key(4, 4711);
	const struct subject all[] = {
		subject_rank(7, proc),
		subject_rank(7, other),
		subject_rank(7, 0),
		subject_rank(8, 0),
		subject_process(7, proc),
		subject_thread(7, proc, 4711),
		subject_thread(7, proc, 4712),
		subject_ranks(1),
		subject_ranks(2),
		subject_gpu(3, 0, GPU_PCI_NONE),
		subject_gpu(3, 1, GPU_PCI_NONE),
		subject_gpu(4, 0, GPU_PCI_NONE),
		subject_gpu(3, 1, 1),
		subject_port(3, "mlx5_0", 1, -1, 0),
		subject_port(3, "mlx5_0", 2, -1, 0),
		subject_port(3, "mlx5_1", 1, -1, 0),
		subject_port(4, "mlx5_0", 1, -1, 0),
		subject_address("mlx5_0", NULL),
		subject_path("10.0.0.1", "10.0.0.2"),
		subject_path("10.0.0.1", "10.0.0.3"),
		subject_path("10.0.0.10", ".0.0.2"),
		subject_path(NULL, NULL),
		subject_path_of_ranks(0, proc, 1, other),
		subject_path_of_ranks(1, other, 0, proc),
		subject_comm(1, 0),
		subject_comm(0, 1),
		subject_job("a", 1, "a"),
		subject_job("a", 2, "a #2"),
		subject_job("", 1, ""),
		subject_node(3),
		subject_node(4),
		subject_node(SUBJECT_NO_NODE),
	};
	const size_t n = sizeof(all) / sizeof(all[0]);

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (subject_hash(&all[i]) == subject_hash(&all[k]))
				fail_msg("subjects %zu and %zu are one", i, k);
}

static void test_keys(void **state)
{
	struct finding f = { .kind = FINDING_STRAGGLER, .subject = subject_rank(3, proc_key(0, 99)) };
	struct subject s = f.subject;
	uint64_t key;

	(void)state;
	finding_identify(&f, "gpu_time", 1, 2);
	key = f.key;
	assert_true(key && key == finding_key(FINDING_STRAGGLER, &s, "gpu_time", 1, 2));
	assert_true(key != finding_key(FINDING_HANG, &s, "gpu_time", 1, 2));
	assert_true(key != finding_key(FINDING_STRAGGLER, &s, "gpu_duty", 1, 2));
	assert_true(key != finding_key(FINDING_STRAGGLER, &s, "gpu_time", 2, 2));
	assert_true(key != finding_key(FINDING_STRAGGLER, &s, "gpu_time", 1, 1));
	s = subject_rank(3, proc_key(1, 99));
	assert_true(key != finding_key(FINDING_STRAGGLER, &s, "gpu_time", 1, 2));
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(subject_type_name(SUBJECT_COMMUNICATOR), "communicator");
	assert_string_equal(subject_type_name(SUBJECT_TYPE_MAX), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_is_known_by),
		cmocka_unit_test(test_all_differ),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
