/* SPDX-License-Identifier: Apache-2.0
 *
 * test_phases.c - the file of known phases: what is written is read; a file that is none of ours stays; a disk that is
 * full loses nothing; and what a session is given goes through a record.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/intern.h"
#include "base/log.h"
#include "session/parts/phases.h"
#include "session/parts/side_write.h"
#include "tests/unit/job/job_script.h"

static char dir[] = "/tmp/test_phases.XXXXXX", path[64];
static struct known_phases got;
static struct intern *texts;

static int take(void *to, const struct known_phase_event *p)
{
	struct known_phase_event kept = *p;

	(void)to;
	kept.job = intern(texts, p->job);
	kept.site = intern(texts, p->site);
	kept.wait = intern(texts, p->wait);
	return known_phases_put(&got, &kept);
}

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(strcpy(dir, "/tmp/test_phases.XXXXXX")));
	snprintf(path, sizeof(path), "%s/p.json", dir);
	texts = intern_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	known_phases_free(&got);
	intern_free(texts);
	unlink(path);
	return rmdir(dir); /* nothing else was left there */
}

static void put(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void learn(struct pauses *s, const struct model *m, const char *site, int n)
{
	for (int i = 0; i < n; i++) {
		struct pause p = { .job = "train \"7\"",
				   .site = site,
				   .wait = "recvfrom",
				   .begin_ns = (100 + 60 * i) * SEC,
				   .end_ns = (108 + 60 * i) * SEC,
				   .steps = 100 * (i + 1) };

		pauses_learn(s, m, &p);
	}
}

static int write_now(const struct pauses *own, const struct known_phases *given)
{
	struct side_write w;
	int err = side_write_open(&w, path, "lost");

	side_write_put(&w, phases_print(own, given));
	while (!err && (w.child || w.next)) {
		err = side_write_turn(&w, 1);
		usleep(1000);
	}
	side_write_close(&w, 0);
	return err;
}

static void what_is_written_is_read(void **state)
{
	struct model *m = model_new();
	struct pauses own = { 0 };
	const struct known_phase *p;
	char error[256];

	(void)state;
	assert_int_equal(phases_read(path, take, NULL, error, sizeof(error)), -ENOENT);
	learn(&own, m, "/job/real.py:31 ckpt", 3);
	assert_int_equal(write_now(&own, &m->known_phases), 0);
	assert_int_equal(phases_read(path, take, NULL, error, sizeof(error)), 0);
	p = known_phases_at(&got, "train \"7\"", "/job/real.py:31 ckpt");
	assert_non_null(p);
	assert_int_equal(p->n, 3);
	assert_true(p->longest_ns > 8 * SEC - 1000 && p->longest_ns < 8 * SEC + 1000);
	assert_int_equal(phase_series_median(&p->intervals_steps), 100);
	assert_string_equal(p->wait, "recvfrom");
	/* a session that meets another place keeps this one */
	pauses_free(&own);
	learn(&own, m, "/job/real.py:12 load", 1);
	assert_int_equal(write_now(&own, &got), 0);
	assert_int_equal(phases_read(path, take, NULL, error, sizeof(error)), 0);
	assert_int_equal(got.n, 2);
	assert_int_equal(known_phases_at(&got, "train \"7\"", "/job/real.py:31 ckpt")->n, 3);
	pauses_free(&own);
	model_free(m);
}

static void what_is_no_such_file_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{\"version\": 1}",
		"{\"version\": 2, \"phases\": []}",
		"{\"version\": 1, \"phases\": [{\"job\": \"a\"}]}",
		"{\"version\": 1, \"phases\": [{\"job\": \"a\", \"site\": \"\", \"wait\": \"\", \"pauses\": 1, "
		"\"longest_s\": 1}]}",
		"{\"version\": 1, \"phases\": [{\"job\": \"a\", \"site\": \"x\", \"wait\": \"\", \"pauses\": -1, "
		"\"longest_s\": 1}]}",
	};
	char error[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(bad[i]);
		assert_int_equal(phases_read(path, take, NULL, error, sizeof(error)), -EPROTO);
		assert_non_null(strstr(error, "not a file of known phases"));
	}
	assert_int_equal(got.n, 0);
}

static void what_cannot_be_written_leaves_the_old(void **state)
{
	struct model *m = model_new();
	struct pauses own = { 0 };
	char beside[80], error[256];

	(void)state;
	learn(&own, m, "x (y)", 1);
	assert_int_equal(write_now(&own, &m->known_phases), 0);
	snprintf(beside, sizeof(beside), "%s.part", path);
	assert_int_equal(mkdir(beside, 0700), 0); /* the new file cannot be made */
	log_quiet = true;
	assert_true(write_now(&own, &m->known_phases) < 0);
	assert_int_equal(rmdir(beside), 0);
	assert_int_equal(phases_read(path, take, NULL, error, sizeof(error)), 0);
	assert_int_equal(got.n, 1);
	pauses_free(&own);
	model_free(m);
}

static int feed(void *to, const struct wire_hdr *rec)
{
	return pipeline_feed(to, rec);
}

static void a_session_is_reported_by_records(void **state)
{
	struct pipeline *p = pipeline_new();
	struct session_phases *s;

	(void)state;
	put("{\"version\": 1, \"phases\": [{\"job\": \"a\", \"site\": \"x.py:1 f\", \"wait\": \"poll\", \"pauses\": 4, "
	    "\"longest_s\": 9.5, \"usual_s\": 8, \"interval_s\": 60, \"interval_steps\": 100}]}");
	s = session_phases_open(path, p, feed, p);
	assert_int_equal(pipeline_model(p)->known_phases.n, 1);
	assert_int_equal(pipeline_model(p)->known_phases.all[0].n, 4);
	assert_int_equal(pipeline_model(p)->known_phases.all[0].longest_ns, 9500 * MSEC);
	assert_int_equal(phase_series_median(&pipeline_model(p)->known_phases.all[0].intervals_steps), 100);
	session_phases_close(s);
	pipeline_free(p);
}

static void a_bad_file_is_left_alone(void **state)
{
	struct pipeline *p = pipeline_new();
	struct session_phases *s;
	char text[16] = "";
	FILE *f;

	(void)state;
	put("mine");
	log_quiet = true;
	s = session_phases_open(path, p, feed, p);
	assert_non_null(s);
	session_phases_tick(s, 100 * SEC);
	session_phases_close(s);
	f = fopen(path, "r");
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "mine");
	pipeline_free(p);
}

static void ticks(struct session_phases *s, uint64_t *now_ns, int n)
{
	for (int i = 0; i < n; i++, *now_ns += SEC) {
		session_phases_tick(s, *now_ns);
		usleep(1000);
	}
}

static int phases_in_file(void)
{
	char error[256];

	known_phases_free(&got);
	got = (struct known_phases){ 0 };
	return phases_read(path, take, NULL, error, sizeof(error)) ? -1 : (int)got.n;
}

/* The disk stands, as its pause is learnt: the loop goes on, and all is written once it answers. A pipe without a
 * reader is such a disk. */
static void no_tick_waits_for_the_disk(void **state)
{
	struct pipeline *p = pipeline_new();
	struct session_phases *s = session_phases_open(path, p, feed, p);
	struct pauses *own = (struct pauses *)pipeline_pauses(p); /* as the detectors do */
	uint64_t now_ns = 100 * SEC;
	char beside[80];
	int fd;

	(void)state;
	log_quiet = true;
	snprintf(beside, sizeof(beside), "%s.part", path);
	assert_int_equal(mkfifo(beside, 0600), 0);
	alarm(60);
	learn(own, pipeline_model(p), "/job/real.py:31 ckpt", 1);
	ticks(s, &now_ns, 40);
	learn(own, pipeline_model(p), "/job/real.py:12 load", 1);
	ticks(s, &now_ns, 40);
	assert_int_equal(phases_in_file(), -1);
	fd = open(beside, O_RDONLY | O_NONBLOCK); /* it answers: no pipe can be had on disk, an error */
	unlink(beside);
	for (int i = 0; i < 1000 && phases_in_file() != 2; i++)
		ticks(s, &now_ns, 10);
	assert_int_equal(phases_in_file(), 2);
	session_phases_close(s);
	alarm(0);
	close(fd);
	pipeline_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, start, end),
		cmocka_unit_test_setup_teardown(what_is_no_such_file_is_refused, start, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_written_leaves_the_old, start, end),
		cmocka_unit_test_setup_teardown(a_session_is_reported_by_records, start, end),
		cmocka_unit_test_setup_teardown(a_bad_file_is_left_alone, start, end),
		cmocka_unit_test_setup_teardown(no_tick_waits_for_the_disk, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
