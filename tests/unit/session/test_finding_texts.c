/* SPDX-License-Identifier: Apache-2.0
 *
 * test_finding_texts.c - texts that a detector composes: of a finding that holds for weeks they change at each tick,
 * take no more room than one tick's, and are kept where the finding is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/pipeline.h"
#include "schemas/collector.h"
#include "tests/unit/job/job_script.h"

#define TEXT_BYTES 1000
#define TICKS 40000 /* 40 MB of texts */
#define MORE_BYTES (1 << 20)

static struct pipeline *p;
static uint64_t now_ns, n_ticks;
static bool holds;

static int begin(void **state)
{
	(void)state;
	p = pipeline_new();
	now_ns = JOB_T0;
	n_ticks = 0;
	holds = true;
	return p ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	return pipeline_free(p);
}

static char *text_of_tick(uint64_t n, char to[TEXT_BYTES])
{
	memset(to, 'x', TEXT_BYTES - 1);
	to[TEXT_BYTES - 1] = 0;
	to[snprintf(to, 24, "%lu", n)] = '-';
	return to;
}

static int report(void *of, const struct model *m, struct finding_list *found)
{
	struct finding *f = holds ? finding_list_add(found) : NULL;
	char text[TEXT_BYTES], job[] = "job-of-this-tick";

	(void)of;
	(void)m;
	if (!f)
		return 0;
	f->kind = FINDING_HANG;
	f->subject = subject_job(finding_list_text(found, job), 1, finding_list_text(found, job));
	finding_identify(f, "test", 0, 0);
	f->job = f->subject.job;
	f->since_ns = JOB_T0;
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, text_of_tick(n_ticks, text)));
	return 0;
}

static void tick(void)
{
	struct record_tick t = {
		.hdr = { .size = sizeof(t), .tracer = WIRE_COLLECTOR, .kind = RECORD_TICK, .ts_ns = now_ns }
	};

	n_ticks++;
	now_ns += SEC / 4;
	assert_int_equal(pipeline_feed(p, &t.hdr), 0);
}

static void is_kept(const struct incident *i, uint64_t of_tick)
{
	char text[TEXT_BYTES];

	assert_string_equal(finding_text(&i->f, EVIDENCE_WAITING_RANKS), text_of_tick(of_tick, text));
	assert_string_equal(i->f.job, "job-of-this-tick");
	assert_string_equal(i->f.subject.job_name, "job-of-this-tick");
}

static size_t bytes_now(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static void they_take_the_room_of_one_tick(void **state)
{
	size_t before;

	(void)state;
	pipeline_set_outside(p, &(struct outside_judge){ .behind = report });
	tick();
	before = bytes_now();
	for (int i = 0; i < TICKS; i++)
		tick();
	is_kept(incidents_next_open(pipeline_incidents(p), NULL), n_ticks);
	assert_true(bytes_now() < before + MORE_BYTES);
}

static void they_are_kept_with_what_is_over(void **state)
{
	const struct incident *past;
	uint64_t last;

	(void)state;
	pipeline_set_outside(p, &(struct outside_judge){ .behind = report });
	for (int i = 0; i < 10; i++)
		tick();
	last = n_ticks;
	holds = false;
	for (int i = 0; i < 10; i++)
		tick();
	assert_null(incidents_next_open(pipeline_incidents(p), NULL));
	assert_int_equal(incidents_by_cost(pipeline_incidents(p), &past, 1), 1);
	is_kept(past, last);
}

/* Each sink that has findings until it is closed. */
static void they_are_kept_in_outputs(void **state)
{
	static const char *const sinks[] = { "terminal", "json", "perfetto", "report", "autopsy" };

	(void)state;
	pipeline_set_outside(p, &(struct outside_judge){ .behind = report });
	for (size_t i = 0; i < sizeof(sinks) / sizeof(sinks[0]); i++)
		assert_int_equal(pipeline_add_sink(p, sinks[i], "/dev/null"), 0);
	for (int round = 0; round < 4; round++) {
		holds = round % 2 == 0;
		for (int i = 0; i < 10; i++)
			tick();
	}
	holds = true;
	for (int i = 0; i < 10; i++)
		tick();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(they_take_the_room_of_one_tick, begin, end),
		cmocka_unit_test_setup_teardown(they_are_kept_with_what_is_over, begin, end),
		cmocka_unit_test_setup_teardown(they_are_kept_in_outputs, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
