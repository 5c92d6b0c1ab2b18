// SPDX-License-Identifier: Apache-2.0
/* kernel.c: names of features, and which quirks a version has. What the kernel itself says: tests/vm and
 * test_kernel_lacks.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "attach/kernel.h"

static void features_are_parsed_by_name(void **state)
{
	uint32_t lacks = 7;

	(void)state;
	assert_int_equal(kernel_lacks_parse("", &lacks), 0);
	assert_int_equal(lacks, 0);
	assert_int_equal(kernel_lacks_parse("attach-cookie,uprobe-multi", &lacks), 0);
	assert_int_equal(lacks, KERNEL_BIT(COOKIE) | KERNEL_BIT(UPROBE_MULTI));
	assert_int_equal(kernel_lacks_parse("attach-cook", &lacks), -EINVAL);
	assert_int_equal(kernel_lacks_parse("attach-cookies", &lacks), -EINVAL);
	assert_int_equal(kernel_lacks_parse("attach-cookie,,uprobe-multi", &lacks), -EINVAL);
}

static void every_feature_says_what_is_lost(void **state)
{
	(void)state;
	for (int i = 0; i < KERNEL_FEATURES; i++) {
		const struct kernel_feature_text *f = &kernel_feature_texts[i];

		assert_int_equal(strlen(f->commit), 12);
		assert_true(*f->name && *f->since && *f->instead && *f->lost);
	}
}

static const struct kernel_quirk *quirk(const char *id)
{
	const struct kernel_quirk *q;

	for (size_t i = 0; (q = kernel_quirk(i)); i++)
		if (!strcmp(q->id, id))
			return q;
	fail_msg("no quirk %s", id);
	return NULL;
}

static void quirks_go_by_version_and_machine(void **state)
{
	const struct kernel_quirk *seccomp = quirk("uretprobe_syscall"), *callchain = quirk("callchain_race");

	(void)state;
	assert_false(kernel_quirk_applies(seccomp, "6.10.14", "x86_64"));
	assert_true(kernel_quirk_applies(seccomp, "6.11.0-rc1", "x86_64"));
	assert_true(kernel_quirk_applies(seccomp, "7.0.0-22-generic", "x86_64"));
	assert_false(kernel_quirk_applies(seccomp, "6.12.107+deb13-arm64", "aarch64"));
	assert_true(kernel_quirk_applies(callchain, "5.10.0-46-amd64", "x86_64"));
	assert_true(kernel_quirk_applies(callchain, "6.12.107+deb13-amd64", "x86_64"));
	assert_false(kernel_quirk_applies(callchain, "6.13.0", "x86_64"));
	assert_true(kernel_quirk_applies(callchain, "custom", "x86_64")); /* no version: the careful answer */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features_are_parsed_by_name),
		cmocka_unit_test(every_feature_says_what_is_lost),
		cmocka_unit_test(quirks_go_by_version_and_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
