/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_shared.c - processes that are several ranks, as people read of them: each rank has its line in an autopsy,
 * with its GPU and its own communicators, and who is probed is named by ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sink/sink.h"
#include "tests/unit/job/job_script.h"

#define WORLD 0x7100000000000000ull
#define PAIR 0x7200000000000000ull /* of ranks 2 and 3 */

static struct model *m;
static uint64_t now;
static char path[64], text[8192];

static void give(struct event e, uint32_t tgid)
{
	e.tgid = e.tid = tgid;
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

/* Rank 1 is one collective behind. */
static void sample(int rank, uint64_t comm, int nranks, int n)
{
	struct event e = { .kind = EV_COMM_SAMPLE };

	e.comm_sample.comm = comm + (uint64_t)rank;
	e.comm_sample.hash = comm;
	e.comm_sample.nranks = nranks;
	e.comm_sample.rank = nranks == 2 ? rank - 2 : rank;
	e.comm_sample.device = 4 + rank;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[0] = (uint64_t)n;
	give(e, rank < 2 ? 800 : 900);
}

static int fresh(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	now = JOB_T0;
	m = model_new();
	for (int round = 0; round < 2; round++) {
		for (int r = 3; r >= 0; r--)
			sample(r, WORLD, 4, 6 - (r == 1));
		for (int r = 2; r < 4; r++)
			sample(r, PAIR, 2, 9);
		give((struct event){ .kind = EV_TICK }, 0);
	}
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

/* What the sink makes of that event. */
static void printed(const struct sink_class *class, const struct event *e)
{
	struct sink *sink;
	FILE *f;

	strcpy(path, "/tmp/ranktrace-shared-XXXXXX");
	close(mkstemp(path));
	assert_int_equal(class->open(path, &sink), 0);
	assert_int_equal(class->event(sink, e, m), 0);
	assert_int_equal(class->close(sink, m), 0);
	f = fopen(path, "r");
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	unlink(path);
}

static void a_line_a_rank(void **state)
{
	static const char *const want[] = {
		"\n    0      800    4  ?            ",
		"  0x7100\xe2\x80\xa6 0/4 #6\n    1      800    5  ?            ",
		"  0x7100\xe2\x80\xa6 1/4 #5 behind by 1\n    2      900    6  ?            ",
		"  0x7100\xe2\x80\xa6 2/4 #6  0x7200\xe2\x80\xa6 0/2 #9\n    3      900    7  ?            ",
		"  0x7100\xe2\x80\xa6 3/4 #6  0x7200\xe2\x80\xa6 1/2 #9\n",
	};
	struct event stop = { .kind = EV_STOP, .ts_ns = now };
	const char *at = text;

	(void)state;
	printed(&sink_autopsy, &stop);
	assert_non_null(strstr(text, "\n4 ranks on "));
	assert_non_null(strstr(text, " without a probe; communicators of 4 read\n"));
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		at = strstr(at, want[i]);
		if (!at)
			fail_msg("no %s in %s", want[i], text);
	}
}

static void who_is_probed(void **state)
{
	struct event e = { .kind = EV_TIER, .tgid = 900, .tid = 900, .ts_ns = now };

	(void)state;
	e.tier.tier = 1; /* trace */
	printed(&sink_terminal, &e);
	assert_non_null(strstr(text, " UTC  ranks 2, 3 (pid 900) is probed: calls and waits\n"));
	e.tgid = e.tid = 4321;
	printed(&sink_terminal, &e);
	assert_non_null(strstr(text, " UTC  pid 4321 is probed: calls and waits\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_line_a_rank, fresh, done),
		cmocka_unit_test_setup_teardown(who_is_probed, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
