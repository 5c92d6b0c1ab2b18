/* SPDX-License-Identifier: Apache-2.0
 *
 * test_python.c - what of an interpreter is visible by which of its functions, and what of its records is believed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "attach/probe_rows.h"
#include "pipeline/decode.h"
#include "source.h"
#include "tracers/python/python.h"

static const char *symbols[4];

static bool is_defined(void *arg, const struct probe *row)
{
	(void)arg;
	for (size_t i = 0; i < 4 && symbols[i]; i++)
		if (!strcmp(symbols[i], row->symbol) || (row->alias && !strcmp(symbols[i], row->alias)))
			return true;
	return false;
}

static void unseen_is(const char *want)
{
	char text[64];

	probe_rows_unseen(source_python.tracer, ~0u, is_defined, NULL, text, sizeof(text));
	assert_string_equal(text, want);
}

static void what_is_not_visible(void **state)
{
	(void)state;
	unseen_is("garbage collection");
	symbols[0] = "python:gc__start";
	unseen_is("");
	symbols[0] = "gc_collect_main";
	unseen_is("");
	symbols[0] = "_PyGC_Collect";
	unseen_is("");
}

/* All of it goes first, and an interpreter alone makes no process interesting. */
static void of_many(void **state)
{
	const struct tracer *t = source_python.tracer;

	(void)state;
	assert_true(t->of_many);
	for (size_t i = 0; i < t->n_probes; i++) {
		assert_int_equal(probe_group(t, i), PROBES_GC);
		assert_int_equal(t->probes[i].at_return, i == PYTHON_ROW_RETURN);
	}
}

static int decode(uint64_t begin_ns, uint32_t n, struct event *e)
{
	struct python_gc_record r = {
		.hdr = { .size = sizeof(r), .tracer = WIRE_PYTHON, .kind = PYTHON_GC, .tgid = 7, .ts_ns = 1000 },
		.body = { .begin_ns = begin_ns, .busy_ns = 300, .n = n },
	};
	struct event out[DECODE_EVENTS_MAX];
	int n_events = decode_record(&r.hdr, NULL, out);

	*e = out[0];
	return n_events;
}

static void records(void **state)
{
	struct event e;

	(void)state;
	assert_int_equal(decode(0, 1, &e), -EINVAL);
	assert_int_equal(decode(1001, 1, &e), -EINVAL);
	assert_int_equal(decode(1000, 0, &e), 1);
	assert_int_equal(decode(700, 2, &e), 1);
	assert_true(e.kind == EV_PYTHON_GC && e.tgid == 7 && e.python_gc.n == 2 && e.python_gc.busy_ns == 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_visible),
		cmocka_unit_test(of_many),
		cmocka_unit_test(records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
