/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_confirm.c - the table of tests that confirm a finding: each row is of a finding that there is, and what
 * to do about that one ends with the whole command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "finding.h"
#include "remedy.h"
#include "tools/stress/lib/gpu_name.h"
#include "tools/stress/stress.h"

enum on { ONE, ALL, PORT, ANY };
static const struct {
	const char *kind, *what;
	enum on on;
	const char *command;
} rows[] = {
#define CONFIRM(...) { __VA_ARGS__ },
#include "confirm.def"
#undef CONFIRM
};

/* A finding of that kind and cause, or class of a hang; false: there is none. */
static bool finding_make(size_t row, struct finding *f)
{
	int kind = 0, cause = 0, class = 0;

	while (kind < FINDING_KIND_MAX && strcmp(finding_kind_name(kind), rows[row].kind))
		kind++;
	while (cause < CAUSE_MAX && strcmp(cause_name(cause), rows[row].what))
		cause++;
	while (class < HANG_CLASS_MAX && strcmp(hang_class_name(class), rows[row].what))
		class ++;
	*f = (struct finding){ .kind = kind };
	if (cause < CAUSE_MAX)
		f->cause = cause;
	else
		f->class = class;
	f->subject.device = rows[row].on == PORT ? "mlx5_0" : NULL;
	return kind < FINDING_KIND_MAX && (cause < CAUSE_MAX || class < HANG_CLASS_MAX);
}

static void test_each_row(void **state)
{
	char want[160], remedy[REMEDY_MAX], test[32];
	struct finding f;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!finding_make(i, &f))
			fail_msg("no finding is of kind %s with %s", rows[i].kind, rows[i].what);
		finding_remedy(&f, remedy, sizeof(remedy));
		snprintf(want, sizeof(want), "; to confirm it: ranktrace stress %s", rows[i].command);
		if (!strstr(remedy, want))
			fail_msg("%s %s: '%s' does not end with '%s'", rows[i].kind, rows[i].what, remedy, want);
		snprintf(test, sizeof(test), "%.*s", (int)strcspn(rows[i].command, " "), rows[i].command);
		assert_non_null(stress_find(test));
	}
}

static bool is(const char *uuid, const char *pci, const char *name)
{
	return gpu_is_named(&(struct gpu_id){ .uuid = uuid, .pci = pci }, name);
}

/* Findings have four digits of domain and no function, CUDA and NVML both, NVML eight digits. */
static void test_names_of_a_gpu(void **state)
{
	(void)state;
	assert_true(is("GPU-1", "0000:0A:00.0", "gpu-1"));
	assert_true(is("GPU-1", "0000:0A:00.0", "0000:0a:00"));
	assert_true(is("GPU-1", "00000000:0A:00.0", "0000:0a:00.0"));
	assert_true(is("GPU-1", "00000009:0A:00.0", "0009:0a:00"));
	assert_true(is("GPU-1", "10000:0A:00.0", "00010000:0a:00.1"));
	assert_true(is("GPU-1", "0000:0A:00.0", "0a:00.0"));
	assert_false(is("GPU-1", "0009:0A:00.0", "0a:00.0"));
	assert_false(is("GPU-1", "0000:0A:00.0", "GPU-12"));
	assert_false(is("GPU-1", "0000:0A:00.0", "0000:0a:01"));
	assert_false(is("GPU-1", "0000:0A:00.0", "0000:0b:00.0"));
	assert_false(is("GPU-1", "0000:0A:00.0", "0009:0a:00.0"));
	assert_false(is("GPU-1", "0001:00:00.0", "0002:00:00.0"));
	assert_false(is("", "", ""));
	assert_false(is("", "", "0000:0a:00.0"));
}

static void test_which_one_a_name_means(void **state)
{
	static const struct gpu_id apart[] = { { "GPU-a", "0001:00:00.0" }, { "GPU-b", "0002:00:00.0" } };
	static const struct gpu_id mixed[] = { { "GPU-a", "0009:0A:00.0" },
					       { "GPU-b", "00000000:0A:00.0" },
					       { "GPU-c", "0009:0B:00.0" } };

	(void)state;
	assert_int_equal(gpu_name_find(apart, 2, "0002:00:00"), 1);
	assert_int_equal(gpu_name_find(apart, 2, "gpu-B"), 1);
	assert_int_equal(gpu_name_find(apart, 2, "00:00.0"), GPU_NAME_MANY);
	assert_int_equal(gpu_name_find(apart, 1, "00:00.0"), 0);
	assert_int_equal(gpu_name_find(apart, 2, "0000:00:00.0"), GPU_NAME_NONE);
	assert_int_equal(gpu_name_find(mixed, 3, "0a:00.0"), 1);
	assert_int_equal(gpu_name_find(mixed, 3, "b:0"), 2);
	assert_int_equal(gpu_name_find(mixed, 3, "0009:0a:00.0"), 0);
	assert_int_equal(gpu_name_find(mixed, 3, "GPU-"), GPU_NAME_NONE);
}

static void test_what_is_no_address(void **state)
{
	static const char *const texts[] = { "",
					     ":",
					     "0a",
					     "0a:",
					     ":0a:00",
					     "0000:0a:00.",
					     "0x0a:00",
					     "0000:00a:0",
					     "0a:00:00:00",
					     "0a:00.00",
					     "0a:00 ",
					     "-1:00",
					     "GPU-1",
					     "0000:0a:zz",
					     "100:00",
					     "123456789:0a:00" };
	struct pci_address address;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (pci_address_parse(texts[i], &address))
			fail_msg("'%s' is taken as an address", texts[i]);
	assert_true(pci_address_parse("ffffffff:ff:1f.7", &address));
	assert_int_equal(address.domain, 0xffffffff);
	assert_int_equal(address.bus, 0xff);
	assert_int_equal(address.device, 0x1f);
}

static void test_each_bad_one_once(void **state)
{
	static struct stress_result r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		stress_result_bad(&r, "GPU 0", "GPU-a", "0000:0A:00.0");
		stress_result_bad(&r, "GPU 0", "GPU-b", "0000:0A:00.0"); /* of another host */
		stress_result_bad(&r, "sim0:1", NULL, NULL);
	}
	assert_int_equal(r.n_bad, 3);
	assert_string_equal(r.bad[1].uuid, "GPU-b");
	assert_string_equal(r.bad[2].name, "sim0:1");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_row), cmocka_unit_test(test_names_of_a_gpu),
					    cmocka_unit_test(test_which_one_a_name_means),
					    cmocka_unit_test(test_what_is_no_address),
					    cmocka_unit_test(test_each_bad_one_once) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
