/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_steps.c - a step as a JSON line: every field, and what is left of it for no phase.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sink/sink.h"

static char path[64];

static void line_is(const struct step_done *s, const char *want)
{
	struct model m = { 0 };
	char line[1024] = "";
	struct sink *sink;
	FILE *f;

	strcpy(path, "/tmp/ranktrace-steps-XXXXXX");
	close(mkstemp(path));
	assert_int_equal(sink_steps.open(path, &sink), 0);
	assert_int_equal(sink_steps.step(sink, s, &m), 0);
	assert_int_equal(sink_steps.close(sink, &m), 0);
	f = fopen(path, "r");
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	unlink(path);
	assert_string_equal(line, want);
}

static struct step_done step_of(const struct proc *p)
{
	return (struct step_done){ .proc = p,
				   .number = 5,
				   .begin_ns = 1000,
				   .end_ns = 1100,
				   .by_data_wait = true,
				   .phase_ns = { 10, 20, 30, 15 },
				   .n_backward = 2,
				   .n_optimizer = 1,
				   .n_ops = 9,
				   .gpu_wait_ns = 12,
				   .exposed_most_ns = 4,
				   .storage_ns = { [PHASE_DATA_WAIT] = 2, [PHASE_OTHER] = 5 } };
}

static void lines(void **state)
{
	struct proc p = { .tgid = 7, .rank = 3 };
	struct step_done s = step_of(&p);

	(void)state;
	line_is(&s, "{\"rank\":3,\"pid\":7,\"step\":5,\"ends_by\":\"data_wait\",\"phases_by\":\"ranges\","
		    "\"begin_ns\":1000,\"end_ns\":1100,"
		    "\"data_wait_ns\":10,\"forward_ns\":20,\"backward_ns\":30,\"optimizer_ns\":15,\"gc_ns\":null,"
		    "\"other_ns\":25,"
		    "\"backwards\":2,\"optimizer_steps\":1,\"forward_by\":\"mark\",\"backward_end\":\"return\","
		    "\"operations\":9,\"gpu_wait_ns\":12,\"exposed_most_ns\":4,\"storage_ns\":7}\n");
	p.rank = -1;
	s.by_data_wait = false;
	s.forward_by_gap = s.end_by_next = true;
	s.phase_ns[PHASE_BACKWARD] = 1000; /* more than there is */
	s.phase_ns[PHASE_GC] = 6;
	p.gc_visible = true;
	line_is(&s, "{\"rank\":null,\"pid\":7,\"step\":5,\"ends_by\":\"optimizer\",\"phases_by\":\"ranges\","
		    "\"begin_ns\":1000,\"end_ns\":1100,"
		    "\"data_wait_ns\":10,\"forward_ns\":20,\"backward_ns\":1000,\"optimizer_ns\":15,\"gc_ns\":6,"
		    "\"other_ns\":0,"
		    "\"backwards\":2,\"optimizer_steps\":1,\"forward_by\":\"gap\",\"backward_end\":\"next_mark\","
		    "\"operations\":9,\"gpu_wait_ns\":12,\"exposed_most_ns\":4,\"storage_ns\":7}\n");
	s.storage_ns[PHASE_DATA_WAIT] = UINT64_MAX - 1;
	s.storage_ns[PHASE_OTHER] = 0;
	s.number = s.begin_ns = s.n_ops = s.gpu_wait_ns = s.exposed_most_ns = UINT64_MAX - 1;
	s.end_ns = UINT64_MAX;
	s.n_backward = s.n_optimizer = UINT32_MAX;
	for (int i = 0; i < STEP_PHASES; i++)
		s.phase_ns[i] = UINT64_MAX;
	line_is(&s, "{\"rank\":null,\"pid\":7,\"step\":18446744073709551614,\"ends_by\":\"optimizer\","
		    "\"phases_by\":\"ranges\",\"begin_ns\":"
		    "18446744073709551614,\"end_ns\":18446744073709551615,\"data_wait_ns\":18446744073709551615,"
		    "\"forward_ns\":18446744073709551615,\"backward_ns\":18446744073709551615,\"optimizer_ns\":"
		    "18446744073709551615,\"gc_ns\":18446744073709551615,\"other_ns\":0,\"backwards\":4294967295,"
		    "\"optimizer_steps\":4294967295,"
		    "\"forward_by\":\"gap\",\"backward_end\":\"next_mark\",\"operations\":18446744073709551614,"
		    "\"gpu_wait_ns\":18446744073709551614,\"exposed_most_ns\":18446744073709551614,"
		    "\"storage_ns\":18446744073709551614}\n");
}

/* Ranges of PyTorch are gone, and collections of Python. */
static void without_ranges(void **state)
{
	struct proc p = { .tgid = 7, .rank = 3, .gc_visible = true, .shed = 1u << PROBES_RANGES | 1u << PROBES_GC };
	struct step_done s = step_of(&p);

	(void)state;
	s.by = STEPS_BY_OPERATORS;
	s.by_data_wait = false;
	s.forward_by_gather = true;
	line_is(&s, "{\"rank\":3,\"pid\":7,\"step\":5,\"ends_by\":\"optimizer\",\"phases_by\":\"operators\","
		    "\"begin_ns\":1000,\"end_ns\":1100,"
		    "\"data_wait_ns\":null,\"forward_ns\":20,\"backward_ns\":30,\"optimizer_ns\":15,\"gc_ns\":null,"
		    "\"other_ns\":25,"
		    "\"backwards\":2,\"optimizer_steps\":1,\"forward_by\":\"gather\",\"backward_end\":\"return\","
		    "\"operations\":9,\"gpu_wait_ns\":12,\"exposed_most_ns\":4,\"storage_ns\":7}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(without_ranges) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
