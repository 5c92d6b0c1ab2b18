/* SPDX-License-Identifier: Apache-2.0
 *
 * test_session_stacks.c - the stacks of a live hang: two processes that sleep, given to the pipeline as ranks of which
 * one is behind. Who is read, when, and how often, and that the finding says what its culprit does.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "model/model.h"
#include "schemas/collector.h"
#include "tracers/nccl/wire/comm.h"
#include "session/stacks.h"
#include "tests/unit/job/evidence.h"
#include "tracers/sched/sched.h"

#define RANKS 2
#define ASKED 20 /* more than two rounds read */
#define MSEC 1000000ull
#define WORLD 0xa0
#define READ_MOST_MS 20000
#define READ_LOOKS 4 /* 1.25 s behind: who is reported after 1.5 s is being read */

static struct reader *reader;
static pid_t pids[ASKED]; /* the first RANKS have a communicator */
static struct pipeline *pipeline;
static uint64_t now; /* of the records: what is read for real takes no time of theirs */
static struct {
	int n, unread, waits, news;
	uint32_t tgid[64];
} got;
static uint64_t floor_ns;

void culprit_sleeps(void);

void __attribute__((noinline)) culprit_sleeps(void) /* a name that a stack shows */
{
	for (;;)
		pause();
}

static void ranks_fork(int first, int end)
{
	for (int r = first; r < end; r++) {
		pids[r] = fork();
		if (pids[r])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		culprit_sleeps();
	}
}

static int ranks_begin(void **state)
{
	(void)state;
	memset(pids, 0, sizeof(pids));
	ranks_fork(0, RANKS);
	memset(&got, 0, sizeof(got));
	floor_ns = 300 * MSEC;
	now = clock_monotonic_ns();
	pipeline = pipeline_new();
	return pipeline ? 0 : -1;
}

static int ranks_end(void **state)
{
	(void)state;
	for (int r = 0; r < ASKED && pids[r]; r++) {
		kill(pids[r], SIGKILL);
		waitpid(pids[r], NULL, 0);
	}
	return pipeline_free(pipeline);
}

static void feed(struct wire_hdr *h, size_t size, uint8_t tracer, uint8_t kind, int rank)
{
	uint32_t pid = rank < 0 ? 0 : pids[rank];

	*h = (struct wire_hdr){ .size = size, .tracer = tracer, .kind = kind, .tgid = pid, .tid = pid, .ts_ns = now };
	assert_int_equal(pipeline_feed(pipeline, h), 0);
}

static int stack_take(void *to, const struct wire_hdr *rec)
{
	const struct record_stack *f = (const void *)rec;

	(void)to;
	assert_int_equal(rec->tid, rec->tgid);
	if (rec->kind == RECORD_WAIT) {
		assert_int_equal(((const struct record_wait *)rec)->kind, WAIT_KIND_SIGNAL);
		got.waits++;
		return pipeline_feed(pipeline, rec);
	}
	assert_int_equal(rec->kind, RECORD_STACK);
	got.tgid[got.n++ % 64] = rec->tgid;
	got.unread += f->flags & STACK_FLAG_UNREAD;
	return pipeline_feed(pipeline, rec);
}

static void proc_give(int rank)
{
	union {
		struct record_proc f;
		char bytes[96];
	} p = { .f = { .start_ns = now - 1000 * MSEC,
		       .rank = rank,
		       .local_rank = rank,
		       .world_size = rank < RANKS ? RANKS : ASKED,
		       .job_len = 6,
		       .name_len = 2,
		       .container_len = 1,
		       .pod_len = 1 } };

	memcpy(p.f.text, "train\0p\0\0\0", 10);
	feed(&p.f.hdr, sizeof(p.f) + 16, WIRE_COLLECTOR, RECORD_PROC, rank);
}

static void job_give(void)
{
	union {
		struct record_start f;
		char bytes[96];
	} start = { .f = { .hang_floor_ns = floor_ns,
			   .dstate_limit_ns = 5000 * MSEC,
			   .busy_limit_ns = 90000 * MSEC,
			   .version = WIRE_VERSION,
			   .host_len = 2 } };

	strcpy(start.f.host, "n");
	feed(&start.f.hdr, sizeof(start.f) + 8, WIRE_COLLECTOR, RECORD_START, -1);
	for (int r = 0; r < RANKS; r++)
		proc_give(r);
}

/* Rank 1 has entered one collective less, or as many; there were many in little time. */
static void look(bool behind)
{
	struct record_tick tick;

	for (int r = 0; r < RANKS; r++) {
		struct record_comm_sample s = { .body = { 4096, WORLD, .rank = r, .nranks = RANKS, .n_counters = 5,
							  .known = 7 } };
		struct sched_task t = { .since_ns = now > 1000 * MSEC ? now - 1000 * MSEC : 1, .state = SCHED_SLEEP };

		s.body.counters[4] = 600 - (behind && r);
		feed(&s.hdr, sizeof(s), WIRE_COLLECTOR, RECORD_COMM_SAMPLE, r);
		feed(&t.hdr, sizeof(t), WIRE_SCHED, SCHED_TASK, r);
	}
	now += 250 * MSEC;
	feed(&tick.hdr, sizeof(tick), WIRE_COLLECTOR, RECORD_TICK, -1);
}

static void poll_once(struct session_stacks *s)
{
	bool news = false;

	assert_int_equal(session_stacks_emit(s, now, &news), 0);
	got.news += news;
	session_stacks_begin(s, now);
}

/* Their time stands until so many stacks were read, and as many waits: a busy machine may take long. True: it stood. */
static bool wait_read(struct session_stacks *s, int n)
{
	int ms = 0;

	for (; ms < READ_MOST_MS && (got.n < n || got.waits < n); ms += 20) {
		usleep(20000);
		poll_once(s);
	}
	return ms;
}

/* As the loop does it, until `seconds` of the records' time have passed; by then so many stacks are reported. */
static void go_on(struct session_stacks *s, double seconds, bool behind, int n)
{
	for (uint64_t end = now + seconds * 1e9; now < end;) {
		look(behind);
		poll_once(s);
		usleep(got.n < n ? 50000 : 1000);
	}
	if (wait_read(s, n))
		look(behind); /* the finding has it */
	assert_int_equal(got.n, n);
}

static const struct incident *hang(void)
{
	return incidents_next_open(pipeline_incidents(pipeline), NULL);
}

static const char *text_of(const struct incident *i, const char *name)
{
	return text_named(&i->f, name, "");
}

static void the_culprit_and_who_waits(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);

	(void)state;
	assert_false(session_stacks_recent(s, now));
	job_give();
	go_on(s, 5, true, 1 + RANKS);
	assert_true(session_stacks_recent(s, now));
	assert_false(session_stacks_recent(s, now + 15 * 1000 * MSEC));
	assert_non_null(hang());
	assert_int_equal(hang()->f.kind, FINDING_HANG);
	assert_int_equal(hang()->f.pids[0], pids[1]);
	assert_string_equal(text_of(hang(), "native_frame"), "culprit_sleeps (test_session_stacks)");
	assert_string_equal(text_of(hang(), "kernel_wait"), "pause");
	assert_string_equal(text_of(hang(), "waits_for"), "waits for a signal");
	assert_string_equal(text_of(hang(), "waits_for_kind"), "signal");
	assert_true(finding_number(&hang()->f, EVIDENCE_WAITS_FOR_MOVES) == 0 &&
		    finding_evidence(&hang()->f, EVIDENCE_WAITS_FOR_MOVES)); /* two samples */
	assert_int_equal(got.waits, 1 + RANKS);
	assert_int_equal(got.news, 2);
	assert_non_null(strstr(text_of(hang(), "waiting_in"), "1 of 1 others: culprit_sleeps"));
	assert_int_equal(got.tgid[0], pids[1]); /* alone, as it was late; then first */
	assert_int_equal(got.tgid[1], pids[1]);
	assert_int_equal(got.tgid[2], pids[0]);
	session_stacks_free(s);
}

/* A loop of the session's pace: ticks of a quarter of a second, of true time. Until the finding is there, or gone. */
static void in_true_time(struct session_stacks *s, bool behind)
{
	bool was = hang() != NULL;

	for (int i = 0; i < 40 && (hang() != NULL) == was; i++) {
		look(behind);
		for (int k = 0; k < 5; k++) {
			poll_once(s);
			usleep(50000);
		}
		if (behind && i == READ_LOOKS)
			wait_read(s, 1);
	}
	assert_true((hang() != NULL) != was);
}

/* Read as soon as it is late: the first line of the finding has it, and a pause that ends at once leaves it. */
static void a_finding_opens_with_its_call_site(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);

	(void)state;
	floor_ns = 1500 * MSEC;
	job_give();
	in_true_time(s, true);
	assert_int_equal(hang()->phase, PHASE_OPEN);
	assert_string_equal(text_of(hang(), "native_frame"), "culprit_sleeps (test_session_stacks)");
	assert_string_equal(text_of(hang(), "waits_for"), "waits for a signal");
	assert_non_null(finding_evidence(&hang()->f, EVIDENCE_WAITS_FOR_MOVES));
	assert_int_equal(got.tgid[0], pids[1]);
	assert_int_equal(got.n, 1);
	in_true_time(s, false);
	session_stacks_free(s);
}

/* A rank that comes late again and again, and never so late that it is reported. */
static void who_is_often_late_is_read_seldom(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);

	(void)state;
	floor_ns = 1500 * MSEC;
	job_give();
	for (int i = 0; i < 480; i++) { /* 120 s */
		look(i % 8 < 5);
		poll_once(s);
		usleep(5000);
		assert_null(hang());
	}
	assert_in_range(got.n, 1, 4 + 120 / 5 + 1);
	session_stacks_free(s);
}

/* Three times: at once, 10 s and 60 s later. What it waits for every 5 s, as long as the hang is there. */
static void a_few_times_each(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);
	int waits;

	(void)state;
	job_give();
	go_on(s, 8, true, 1 + RANKS);
	go_on(s, 20, true, 1 + 2 * RANKS);
	go_on(s, 120, true, 1 + 3 * RANKS);
	waits = got.waits - got.n;
	assert_in_range(waits, 15, 148 / 5);
	go_on(s, 2, false, 1 + 3 * RANKS);
	assert_null(hang());
	waits = got.waits;
	go_on(s, 20, false, 1 + 3 * RANKS);
	assert_int_equal(got.waits, waits);
	session_stacks_free(s);
}

/* It is gone: no change, no failure. */
static void a_process_that_ended(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);

	(void)state;
	job_give();
	kill(pids[1], SIGKILL);
	waitpid(pids[1], NULL, 0);
	go_on(s, 5, true, 1);
	assert_non_null(hang());
	assert_int_equal(got.tgid[0], pids[0]);
	assert_int_equal(got.unread, 0);
	session_stacks_free(s);
}

/* The session ends while it reads. */
static void an_early_end(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);

	(void)state;
	job_give();
	while (!hang())
		look(true);
	poll_once(s);
	session_stacks_free(s);
	assert_int_equal(got.n, 0);
}

/* All of them, each once, in rounds; none is left out because another was asked for. */
static void all_that_a_user_asks_for(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);
	bool seen[ASKED] = { 0 };

	(void)state;
	ranks_fork(RANKS, ASKED);
	job_give();
	for (int r = RANKS; r < ASKED; r++)
		proc_give(r);
	assert_false(session_stacks_asked(s));
	for (int r = 0; r < ASKED; r++)
		assert_true(session_stacks_ask(s, pids[r]) && session_stacks_ask(s, pids[r]));
	assert_true(session_stacks_asked(s));
	wait_read(s, ASKED);
	assert_int_equal(got.n, ASKED);
	assert_int_equal(got.unread, 0);
	assert_false(session_stacks_asked(s));
	for (int i = 0; i < ASKED; i++)
		for (int r = 0; r < ASKED; r++)
			if (got.tgid[i] == (uint32_t)pids[r]) {
				assert_false(seen[r]);
				seen[r] = true;
			}
	session_stacks_free(s);
}

static void what_is_too_much_is_refused(void **state)
{
	struct session_stacks *s = session_stacks_new(reader, pipeline, stack_take, NULL);

	(void)state;
	job_give();
	for (int i = 0; i < STACKS_ASKED_MAX; i++)
		assert_true(session_stacks_ask(s, 1000000000 + i)); /* no such processes */
	assert_false(session_stacks_ask(s, pids[0]));
	for (int i = 0; i < STACKS_ASKED_MAX; i++)
		poll_once(s);
	assert_false(session_stacks_asked(s));
	assert_true(session_stacks_ask(s, pids[0]));
	wait_read(s, 1);
	assert_int_equal(got.n, 1);
	session_stacks_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_culprit_and_who_waits, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(a_finding_opens_with_its_call_site, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(who_is_often_late_is_read_seldom, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(a_few_times_each, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(a_process_that_ended, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(an_early_end, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(all_that_a_user_asks_for, ranks_begin, ranks_end),
		cmocka_unit_test_setup_teardown(what_is_too_much_is_refused, ranks_begin, ranks_end),
	};
	int failed = reader_open(&reader) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);

	reader_free(reader);
	return failed;
}
