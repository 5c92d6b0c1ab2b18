/* SPDX-License-Identifier: Apache-2.0
 *
 * test_top.c - what `top` shows of recordings and of 10,240 ranks, read from its canvas at two sizes: who is late, in
 * which order, which rows a filter or a group leaves, where a seek leads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/unit/report/large_job.h"
#include "top/draw.h"
#include "top/feed.h"

struct shown {
	struct top_feed feed;
	struct top_table table;
	struct top_view view;
	struct top_source source;
	struct canvas canvas;
};

static void draw(struct shown *s, int rows, int cols)
{
	assert_int_equal(canvas_begin(&s->canvas, rows, cols), 0);
	top_draw(&s->canvas, &s->view, &s->table, &s->source);
}

static void renew(struct shown *s)
{
	const struct top_part part = { pipeline_model(s->feed.p), pipeline_incidents(s->feed.p) };

	assert_int_equal(top_table_make(&s->table, &part, 1), 0);
}

static void recording_show(struct shown *s, const char *path)
{
	struct recording_reader *r;

	*s = (struct shown){ .source = { .name = path, .seekable = true, .message = "", .messages = "" } };
	assert_int_equal(recording_open(path, &r), 0);
	assert_int_equal(top_feed_open(&s->feed, r), 0);
	assert_int_equal(top_feed_index(&s->feed), 0);
	s->source.begin_ns = s->feed.begin_ns;
	s->source.end_ns = s->feed.end_ns;
	s->source.opened_ns = s->feed.opened_ns;
	s->source.n_opened = s->feed.n_opened;
	top_view_init(&s->view);
	renew(s);
}

static void shown_free(struct shown *s)
{
	top_table_free(&s->table);
	top_view_free(&s->view);
	canvas_free(&s->canvas);
	top_feed_free(&s->feed);
}

static enum top_want key(struct shown *s, int k)
{
	return top_view_key(&s->view, k, &s->table, &s->source);
}

/* The first line that begins so; NULL none. Good until the next question. */
static const char *line_of(const struct shown *s, const char *begin)
{
	static char line[CANVAS_COLS_MAX + 1];

	for (int i = 0; i < s->canvas.rows; i++) {
		canvas_line(&s->canvas, i, line);
		if (!strncmp(line, begin, strlen(begin)))
			return line;
	}
	return NULL;
}

static const char *line_at(const struct shown *s, int row)
{
	static char line[CANVAS_COLS_MAX + 1];

	canvas_line(&s->canvas, row, line);
	return line;
}

static void assert_has(const char *line, const char *words)
{
	if (!line || !strstr(line, words))
		fail_msg("'%s' is not in '%s'", words, line ? line : "(no such line)");
}

static void test_late_rank(void **state)
{
	struct shown s;

	(void)state;
	recording_show(&s, "tests/replay/watch_hang.rtr");
	draw(&s, 24, 80);
	assert_has(line_at(&s, 1), "4 ranks: 1 late  3 waits");
	assert_has(line_at(&s, 2), "rank 2 has not entered AllReduce #165");
	assert_has(line_at(&s, 5), "    2 late    #165");
	assert_has(line_at(&s, 5), "stall");
	assert_has(line_at(&s, 6), "    0 waits   #165");
	for (int i = 0; i < 24; i++)
		assert_true(strlen(line_at(&s, i)) <= 80);
	draw(&s, 60, 200);
	assert_has(line_at(&s, 5), "simjob-28212");
	assert_has(line_at(&s, 5), "stall: rank 2 has not entered");
	draw(&s, 5, 30);
	assert_has(line_at(&s, 0), "at least 40 x 8");
	shown_free(&s);
}

static void test_dead_rank(void **state)
{
	struct shown s;

	(void)state;
	recording_show(&s, "tests/replay/f02_kill.rtr");
	draw(&s, 24, 80);
	assert_has(line_at(&s, 5), "    1 dead    #29 AllReduce");
	assert_has(line_at(&s, 6), "    0 waits   #29 AllReduce"); /* and not what it queued behind that */
	shown_free(&s);
	recording_show(&s, "tests/replay/healthy.rtr");
	draw(&s, 24, 80);
	assert_has(line_at(&s, 1), "4 ended");
	assert_has(line_at(&s, 2), "no finding is open");
	shown_free(&s);
}

static void seek(struct shown *s)
{
	assert_int_equal(top_feed_seek(&s->feed, s->view.seek_ns), 0);
	s->view.seeks = false;
	renew(s);
	draw(s, 24, 80);
}

/* Back, on, to the finding: each time what the model is then, as if it had come there for the first time. */
static void test_time(void **state)
{
	struct shown s;
	char end[CANVAS_COLS_MAX + 1];

	(void)state;
	recording_show(&s, "tests/replay/watch_hang.rtr");
	draw(&s, 24, 80);
	snprintf(end, sizeof(end), "%s", line_at(&s, 5));
	assert_int_equal(s.source.n_opened, 1);
	assert_int_equal(key(&s, '^'), TOP_WANT_SEEK);
	seek(&s);
	assert_int_equal(s.table.n_open[SEVERITY_WARNING], 0);
	assert_int_equal(key(&s, 'n'), TOP_WANT_SEEK);
	assert_int_equal(s.view.seek_ns, s.source.opened_ns[0]);
	seek(&s);
	assert_int_equal(s.table.n_open[SEVERITY_WARNING], 1);
	assert_int_equal(key(&s, TOP_KEY_LEFT), TOP_WANT_SEEK);
	assert_int_equal(s.view.seek_ns, s.source.opened_ns[0] - 1000000000);
	assert_int_equal(key(&s, TOP_KEY_LEFT), TOP_WANT_SEEK); /* pressed twice before it was drawn */
	assert_int_equal(s.view.seek_ns, s.source.opened_ns[0] - 2000000000);
	assert_int_equal(key(&s, '$'), TOP_WANT_SEEK);
	seek(&s);
	assert_string_equal(line_at(&s, 5), end);
	shown_free(&s);
}

static void test_pages(void **state)
{
	struct shown s;

	(void)state;
	recording_show(&s, "tests/replay/watch_hang.rtr");
	draw(&s, 40, 80);
	assert_int_equal(key(&s, TOP_KEY_ENTER), TOP_WANT_STACKS);
	draw(&s, 40, 80);
	assert_has(line_of(&s, " rank 2, pid 28221"), "job simjob-28212");
	assert_has(line_of(&s, "  0xc41dceffa51f0796"), "165        3");
	key(&s, 'a');
	assert_has(s.view.incident, "vm-");
	key(&s, TOP_KEY_ESCAPE);
	key(&s, '2');
	draw(&s, 40, 80);
	assert_has(line_at(&s, 5), "warning  rank 2 has not entered");
	key(&s, TOP_KEY_ENTER);
	draw(&s, 60, 80);
	assert_non_null(line_of(&s, "  do      "));
	assert_non_null(line_of(&s, " EVIDENCE"));
	key(&s, '?');
	draw(&s, 60, 80);
	assert_has(line_of(&s, "   late "), "its peers entered");
	shown_free(&s);
}

static void test_filter_and_sort(void **state)
{
	struct shown s;

	(void)state;
	recording_show(&s, "tests/replay/watch_hang.rtr");
	key(&s, '/');
	key(&s, 'W');
	key(&s, 'a');
	key(&s, TOP_KEY_ENTER);
	draw(&s, 24, 80);
	assert_has(line_at(&s, 23), "/Wa");
	assert_int_equal(s.view.n_rows, 3);
	key(&s, TOP_KEY_ESCAPE);
	key(&s, '/');
	key(&s, '2');
	key(&s, TOP_KEY_ENTER);
	draw(&s, 24, 80);
	assert_int_equal(s.view.n_rows, 1);
	key(&s, TOP_KEY_BACK);
	key(&s, 's');
	draw(&s, 24, 80);
	assert_has(line_at(&s, 5), "    0 waits");
	key(&s, 'r');
	draw(&s, 24, 80);
	assert_has(line_at(&s, 5), "    3 waits");
	shown_free(&s);
}

/* 1,280 hosts; one rank is behind. */
static void test_many_ranks(void **state)
{
	static struct large_job job;
	struct incidents *none = incidents_new();
	struct shown s = { .source = { .name = "x", .message = "", .messages = "" } };

	(void)state;
	large_job_init(&job, 1280, 8);
	job.m.now_ns = 100000000000ull;
	for (int i = 0; i < job.n_ranks; i++) {
		job.members[i].from_init = job.members[i].seq_known = true;
		job.members[i].entered_seq[SEQ_COLL] = i == 5305 ? 7 : 8;
		job.members[i].last_call_ns = 90000000000ull;
	}
	job.comm.highest_seq[SEQ_COLL] = 8;
	assert_int_equal(top_table_make(&s.table, &(struct top_part){ &job.m, none }, 1), 0);
	top_view_init(&s.view);
	draw(&s, 24, 80);
	assert_has(line_at(&s, 1), "10240 ranks: 1 late  10239 waits");
	assert_int_equal(s.view.n_groups, 1280);
	assert_has(line_at(&s, 4), "node-00663             8     -     7    1");
	key(&s, TOP_KEY_ENTER);
	draw(&s, 24, 80);
	assert_int_equal(s.view.n_rows, 8);
	assert_has(line_at(&s, 4), " 5305 late    #7");
	key(&s, TOP_KEY_ESCAPE);
	draw(&s, 24, 80);
	key(&s, TOP_KEY_END);
	draw(&s, 24, 80);
	assert_has(line_at(&s, 23), "1280/1280");
	key(&s, 'g');
	key(&s, 'g'); /* jobs, then ranks */
	draw(&s, 24, 80);
	assert_int_equal(s.view.n_lines, 10240);
	assert_has(line_at(&s, 4), " 5305 late");
	top_table_free(&s.table);
	top_view_free(&s.view);
	canvas_free(&s.canvas);
	incidents_free(none);
	large_job_free(&job);
}

static void test_foreign_text(void **state)
{
	struct canvas c = { 0 };
	char line[16];

	(void)state;
	assert_int_equal(canvas_begin(&c, 1, 10), 0);
	canvas_put(&c, 0, 0, 10, INK_PLAIN,
		   "a\033\xe5\xa4\xa7\xff"
		   "b");
	canvas_line(&c, 0, line);
	assert_string_equal(line, "a???b");
	canvas_put(&c, 0, 4, 20, INK_PLAIN, "0123456789");
	canvas_line(&c, 0, line);
	assert_string_equal(line, "a???01234~");
	canvas_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_rank),
		cmocka_unit_test(test_dead_rank),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_filter_and_sort),
		cmocka_unit_test(test_many_ranks),
		cmocka_unit_test(test_foreign_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
