/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sample_pressure.c - pressure_sampler: the text of PSI files, and what it says of this host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "tracers/sched/pressure.h"
#include "source.h"

static void test_text(void **state)
{
	struct pressure_totals f = { 0 };

	(void)state;
	pressure_parse("some avg10=1.00 avg60=0.50 avg300=0.10 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 "
		       "total=89\n",
		       1, &f);
	assert_int_equal(f.stall_ns[1][0], 1234567000);
	assert_int_equal(f.stall_ns[1][1], 89000);
	assert_int_equal(f.known, 0xc);
	pressure_parse("some avg10=1.00 total=5", 0, &f); /* older kernels: no full of the CPU */
	assert_int_equal(f.known, 0xd);
	pressure_parse("", 2, &f);
	pressure_parse("some avg10=0.00\nfull total", 2, &f);
	pressure_parse("some \nx total=7", 2, &f);
	assert_int_equal(f.known, 0xd);
}

static int take(void *to, const struct wire_hdr *h)
{
	memcpy(to, h, sizeof(struct record_pressure));
	return 0;
}

static void test_this_host(void **state)
{
	struct record_pressure f = { 0 };
	struct sampler_ctx ctx = { .emit = take, .emit_to = &f };
	void *s = NULL;
	int err = source_pressure.sampler->open(&ctx, &s);

	(void)state;
	if (err == -ENOTSUP)
		skip();
	assert_int_equal(err, 0);
	assert_int_equal(source_pressure.sampler->sample(s, 42), 0);
	assert_true(f.body.known & 1);
	assert_int_equal(f.hdr.ts_ns, 42);
	assert_int_equal(f.hdr.tgid, 0);
	source_pressure.sampler->close(s);
	source_pressure.sampler->close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_this_host) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
