/* SPDX-License-Identifier: Apache-2.0
 *
 * test_waits_for.c - what a thread waits for: the sentences and remedies of every kind, and its way through a record,
 * the model and a snapshot of that. Reading it from a real process is tests/unit/inspect/test_wait.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/decode.h"
#include "record.h"
#include "schemas/collector.h"
#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"
#include "tracers/process/wait_record.h"

#define SEC 1000000000ull
#define NOW (100 * SEC)
#define W(...) texts_filled((struct waits_for){ .ns = NOW, __VA_ARGS__ })

static struct waits_for texts_filled(struct waits_for w)
{
	w.what = w.what ? w.what : "";
	w.who = w.who ? w.who : "";
	w.activity = w.activity ? w.activity : "";
	return w;
}

static const char *text_of(struct waits_for w)
{
	static char text[640];

	wait_text(&w, text, sizeof(text));
	return text;
}

static const char *remedy_of(struct waits_for w)
{
	static char text[640];

	wait_remedy(&w, text, sizeof(text));
	return text;
}

static void sentences(void **state)
{
	const struct waits_for store = W(.kind = WAITS_SOCKET, .what = "10.0.0.7:443", .since_ns = NOW - 8200000000ull);
	struct waits_for w = store;

	(void)state;
	assert_string_equal(text_of(W()), "");
	assert_string_equal(text_of(store), "waits for an answer of 10.0.0.7:443 (no byte for 8.2 s)");
	w.flags = WAITS_STANDS;
	w.n = 3;
	assert_string_equal(text_of(w),
			    "waits for an answer of 10.0.0.7:443 (no byte for 8.2 s, one of 3 that it waits for)");
	w.flags = WAITS_MOVES;
	w.n = 1;
	assert_string_equal(text_of(w), "waits for an answer of 10.0.0.7:443 (bytes move)");
	w.flags = WAITS_STANDS | WAITS_UDP;
	w.since_ns = 0;
	assert_string_equal(text_of(w), "waits for an answer of 10.0.0.7:443 (UDP, no byte moves)");
	assert_string_equal(text_of(W(.kind = WAITS_SOCKET, .act = WAITS_TO_CONNECT, .what = "[fd00::7]:443")),
			    "waits to connect to [fd00::7]:443");
	assert_string_equal(text_of(W(.kind = WAITS_SOCKET, .act = WAITS_TO_WRITE, .what = "10.0.0.7:443", .pid = 812,
				      .who = "python")),
			    "waits to send to 10.0.0.7:443 (pid 812 python)");
	assert_string_equal(text_of(W(.kind = WAITS_SOCKET, .act = WAITS_TO_ACCEPT, .what = "port 29500")),
			    "waits for a connection on port 29500");
	assert_string_equal(text_of(W(.kind = WAITS_SOCKET, .flags = WAITS_UNIX | WAITS_OWN)),
			    "waits for an answer of socket (its own process)");
	assert_string_equal(text_of(W(.kind = WAITS_CHILD, .act = WAITS_TO_END, .pid = 4711, .who = "pt_data_worker",
				      .since_ns = NOW - SEC * 8 / 10, .activity = "running")),
			    "waits for child 4711 (pt_data_worker, started 0.8 s ago, running)");
	assert_string_equal(text_of(W(.kind = WAITS_CHILD, .act = WAITS_TO_READ, .pid = 4711, .n = 4)),
			    "waits for data of child 4711 (one of 4 children)");
	assert_string_equal(text_of(W(.kind = WAITS_CHILD, .act = WAITS_TO_END)), "waits for any child");
	assert_string_equal(
		text_of(W(.kind = WAITS_LOCK, .thread = 4713, .who = "loader", .activity = "reads file /data/x")),
		"waits for a mutex held by thread 4713 'loader' (reads file /data/x)");
	assert_string_equal(text_of(W(.kind = WAITS_LOCK, .what = "/data/lock")),
			    "waits for a lock of file /data/lock");
	assert_string_equal(text_of(W(.kind = WAITS_THREAD, .thread = 4713)), "waits for the end of thread 4713");
	assert_string_equal(text_of(W(.kind = WAITS_CONDITION)),
			    "waits for a condition or semaphore of its own process");
	assert_string_equal(text_of(W(.kind = WAITS_SIGNAL)), "waits for a signal");
	assert_string_equal(text_of(W(.kind = WAITS_EVENT, .what = "inotify")), "waits for an event (inotify)");
}

static void times(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} rows[] = {
		{ 1000000, "1 ms" },
		{ 99000000, "99 ms" },
		{ 100000000, "0.1 s" },
		{ 8240000000ull, "8.2 s" },
		{ 30 * SEC, "30 s" },
		{ 99960000000ull, "100 s" },
		{ 599 * SEC, "599 s" },
		{ 600 * SEC, "10 min" },
		{ 7200 * SEC, "2 h" },
		{ 86400 * SEC, "24 h" },
		{ 1000000000 * SEC, "11574 days" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(text, sizeof(text), "sleeps for %s (timer)", rows[i].text);
		assert_string_equal(text_of(W(.kind = WAITS_TIMER, .length_ns = rows[i].ns)), text);
	}
	assert_string_equal(text_of(W(.kind = WAITS_TIMER)), "sleeps (timer)");
	assert_string_equal(text_of(W(.kind = WAITS_TIMER, .until_ns = NOW + 5 * SEC)),
			    "sleeps for another 5 s (timer)");
	assert_string_equal(text_of(W(.kind = WAITS_TIMER, .until_ns = NOW - 5 * SEC)), "sleeps (timer)");
	assert_string_equal(text_of(W(.kind = WAITS_TIMER, .flags = WAITS_AGAIN)), "sleeps again and again (timer)");
}

static void files(void **state)
{
	struct waits_for w = W(.kind = WAITS_PIPE, .pid = 77, .who = "python");

	(void)state;
	assert_string_equal(text_of(w), "reads a pipe whose other end is pid 77 (python)");
	w.flags = WAITS_MOVES;
	assert_string_equal(text_of(w), "reads a pipe whose other end is pid 77 (python, bytes move)");
	w.act = WAITS_TO_WRITE;
	w.what = "/run/log";
	w.flags = 0;
	assert_string_equal(text_of(w), "writes FIFO /run/log whose other end is pid 77 (python)");
	assert_string_equal(text_of(W(.kind = WAITS_PIPE, .flags = WAITS_OWN)),
			    "reads a pipe whose other end is its own process");
	assert_string_equal(text_of(W(.kind = WAITS_PIPE, .flags = WAITS_UNOPENED)),
			    "reads a pipe whose other end no process has open");
	assert_string_equal(text_of(W(.kind = WAITS_FILE, .what = "/mnt/ckpt/x.pt")), "reads file /mnt/ckpt/x.pt");
	assert_string_equal(text_of(W(.kind = WAITS_FILE, .act = WAITS_TO_FLUSH, .what = "/x", .flags = WAITS_STANDS)),
			    "flushes file /x (no byte moves)");
	assert_string_equal(
		text_of(W(.kind = WAITS_FILE, .act = WAITS_TO_OTHER, .what = "/dev/x", .activity = "ioctl")),
		"is in ioctl of /dev/x");
}

static void remedies(void **state)
{
	(void)state;
	assert_string_equal(remedy_of(W(.kind = WAITS_SOCKET, .what = "10.0.0.7:443")),
			    "10.0.0.7:443 does not answer: look there first");
	assert_string_equal(remedy_of(W(.kind = WAITS_SOCKET, .what = "127.0.0.1:9", .pid = 812, .who = "python")),
			    "pid 812 (python) at the other end of the socket does not answer: look there first");
	assert_non_null(strstr(remedy_of(W(.kind = WAITS_SOCKET, .what = "10.0.0.7:443", .flags = WAITS_MOVES)),
			       "answers, slowly"));
	assert_string_equal(remedy_of(W(.kind = WAITS_LOCK, .thread = 4713, .who = "loader")),
			    "look at thread 4713 'loader': it holds the lock");
	/* Every kind has one when all is known of it, but a wait that says nothing. */
	for (int k = 1; k < WAITS_KIND_MAX; k++)
		if (k != WAITS_EVENT && k != WAITS_SIGNAL)
			assert_true(*remedy_of(W(.kind = k, .what = "x", .pid = 1, .thread = 2)));
	assert_string_equal(remedy_of(W()), "");
}

/* However little room there is, the text ends. */
static void short_of_room(void **state)
{
	struct waits_for w =
		W(.kind = WAITS_CHILD, .pid = 4711, .who = "pt_data_worker", .since_ns = NOW - SEC, .n = 3);
	char text[128], whole[128];

	(void)state;
	wait_text(&w, whole, sizeof(whole));
	for (size_t size = 1; size < sizeof(text); size++) {
		memset(text, 'x', sizeof(text));
		wait_text(&w, text, size);
		assert_true(strlen(text) < size);
		assert_int_equal(text[size], 'x');
		if (size > strlen(whole))
			assert_string_equal(text, whole);
	}
}

/* --- a record --- */

static union {
	struct wire_hdr h;
	char bytes[WAIT_RECORD_BYTES];
} rec;

static const struct waits_for full = {
	.ns = NOW,
	.kind = WAITS_CHILD,
	.act = WAITS_TO_READ,
	.flags = WAITS_STANDS,
	.pid = 4711,
	.thread = 4713,
	.n = 2,
	.since_ns = NOW - SEC,
	.length_ns = 3 * SEC,
	.until_ns = NOW + SEC,
	.what = "/x",
	.who = "pt_data_worker",
	.activity = "running",
};

static void same(const struct waits_for *a, const struct waits_for *b)
{
	assert_int_equal(a->ns, b->ns);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->act, b->act);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->since_ns, b->since_ns);
	assert_int_equal(a->length_ns, b->length_ns);
	assert_int_equal(a->until_ns, b->until_ns);
	assert_string_equal(a->what, b->what);
	assert_string_equal(a->who, b->who);
	assert_string_equal(a->activity, b->activity);
}

static void a_record(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	int n_times = 0;

	(void)state;
	assert_int_equal(wait_record_encode(50, 51, NOW + SEC, &full, &rec.h) % 8, 0);
	assert_int_equal(decode_record(&rec.h, strings, out), 1);
	assert_int_equal(out[0].kind, EV_WAIT);
	assert_int_equal(out[0].ts_ns, NOW + SEC);
	assert_int_equal(out[0].tid, 51);
	same(&out[0].wait, &full);
	/* Another host's clock: all times, and no length. */
	for (uint64_t *t; (t = record_time(&rec.h, n_times)); n_times++)
		*t += 5 * SEC;
	assert_int_equal(decode_record(&rec.h, strings, out), 1);
	assert_int_equal(out[0].wait.ns, NOW + 5 * SEC);
	assert_int_equal(out[0].wait.since_ns, NOW + 4 * SEC);
	assert_int_equal(out[0].wait.until_ns, NOW + 6 * SEC);
	assert_int_equal(out[0].wait.length_ns, 3 * SEC);
	/* Of a later version: a kind and an act that are not known here. */
	((struct record_wait *)&rec.h)->kind = ((struct record_wait *)&rec.h)->act = 200;
	assert_int_equal(decode_record(&rec.h, strings, out), 1);
	assert_int_equal(out[0].wait.kind, WAITS_UNKNOWN);
	intern_free(strings);
}

static void long_texts(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	struct waits_for w = full;
	char many[4096];

	(void)state;
	memset(many, 'y', sizeof(many) - 1);
	many[sizeof(many) - 1] = 0;
	w.what = w.who = w.activity = many;
	assert_true(wait_record_encode(50, 51, NOW, &w, &rec.h) <= WAIT_RECORD_BYTES);
	assert_int_equal(decode_record(&rec.h, strings, out), 1);
	assert_true(strlen(out[0].wait.what) > 500);
	assert_string_equal(out[0].wait.activity, "");
	intern_free(strings);
}

static void a_snapshot(void **state)
{
	struct model *m = model_new();
	struct event e = job_event(EV_PROC, 0, 0), wait = job_event(EV_WAIT, 0, 0);
	struct model_copy copy;

	(void)state;
	e.proc.start_ns = 5;
	e.proc.rank = 0;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	e.ts_ns = wait.ts_ns = NOW;
	wait.wait = full;
	assert_int_equal(model_apply(m, &e), 0);
	assert_int_equal(model_apply(m, &wait), 0);
	same(&model_task(m, e.tgid, wait.tid)->wait, &full);
	model_copy(m, &copy);
	same(&model_task(copy.m, e.tgid, wait.tid)->wait, &full);
	model_free(copy.m);
	model_copy_free(&copy);
	e.kind = EV_EXEC; /* another program */
	assert_int_equal(model_apply(m, &e), 0);
	assert_int_equal(model_task(m, e.tgid, wait.tid)->wait.ns, 0);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sentences),  cmocka_unit_test(times),         cmocka_unit_test(files),
		cmocka_unit_test(remedies),   cmocka_unit_test(short_of_room), cmocka_unit_test(a_record),
		cmocka_unit_test(long_texts), cmocka_unit_test(a_snapshot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
