/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_pauses.c - a rank that keeps its peers waiting, again and again: a stall the first time, a known phase
 * of its job from then on, and a hang only beyond what ended by itself at that call site. A session that sees
 * samples, twice a second; the stack of a rank comes half a second after it was reported.
 */
#include "tests/unit/job/outside_samples.h"

#define CKPT "/job/real.py:31 ckpt"
#define WAITS "cuStreamSynchronize (libcuda.so.1)"

static uint64_t n[RANKS], begin_ns;
static struct place {
	const char *frames, *syscall;
} ckpt = { "recv (libc.so.6)\nreadinto (/usr/lib/python3.11/socket.py:720)\nckpt (/job/real.py:31)", "recvfrom" },
  load = { "select (libc.so.6)\npoll (/usr/lib/python3.11/selectors.py:415)\nload (/job/real.py:12)", "select" };
static struct counts {
	int warnings, criticals;     /* findings that were so, each once */
	double warned_s, critical_s; /* into the pause; of the last one */
} seen_now;

static bool is_new(uint64_t *keys, int count, uint64_t key)
{
	for (int i = 0; i < count; i++)
		if (keys[i] == key)
			return false;
	assert_true(count < 64);
	keys[count] = key;
	return true;
}

static uint64_t keys_of[2][64];

static void note(const struct finding *f)
{
	double into_s = (now - begin_ns) / 1e9;

	if (f->severity >= SEVERITY_WARNING && is_new(keys_of[0], seen_now.warnings, f->key)) {
		seen_now.warnings++;
		seen_now.warned_s = into_s;
	}
	if (f->severity == SEVERITY_CRITICAL && is_new(keys_of[1], seen_now.criticals, f->key)) {
		seen_now.criticals++;
		seen_now.critical_s = into_s;
	}
}

static const struct finding *hang(void)
{
	const struct finding *found = NULL;

	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == FINDING_HANG)
			found = &list.items[i];
	return found;
}

static void one_tick(void)
{
	world(n);
	tick();
	for (size_t i = 0; i < list.n; i++)
		note(&list.items[i]);
}

static void runs(double seconds)
{
	for (int i = 0; i < (int)(2 * seconds); i++) {
		for (int r = 0; r < RANKS; r++)
			n[r] += 10;
		one_tick();
	}
}

static int session(void **state)
{
	start(state);
	m->hang_floor_ns = 1500 * MSEC;
	ranks_appear();
	for (int r = 0; r < RANKS; r++) {
		n[r] = 1000;
		stack_of[r] = (struct samples_stack){ "", NULL, "" };
	}
	memset(&seen_now, 0, sizeof(seen_now));
	runs(5);
	return 0;
}

/* Rank 2 does not come for so long. */
static void stands(const struct place *p, double seconds)
{
	const char *was = at[2].syscall;

	begin_ns = now;
	seen_now.warned_s = seen_now.critical_s = -1;
	for (int r = 0; r < RANKS; r++)
		n[r] += r != 2;
	at[2].syscall = p->syscall;
	for (int i = 0; i < (int)(2 * seconds); i++) {
		one_tick();
		if (hang())
			stack_of[2] = (struct samples_stack){ "", "recv (libc.so.6)", p->frames };
	}
	at[2].syscall = was;
	stack_of[2].native = NULL;
}

static void pause_of(const struct place *p, double seconds)
{
	stands(p, seconds);
	n[2]++;
	runs(20);
	assert_null(hang());
}

static void a_sleeper_is_a_stall_and_then_a_hang(void **state)
{
	(void)state;
	stands(&ckpt, 40);
	assert_true(seen_now.warned_s > 1.5 && seen_now.warned_s < 4);
	assert_true(seen_now.critical_s >= 30 && seen_now.critical_s < 32);
	assert_int_equal(seen_now.warnings, 1);
	assert_int_equal(seen_now.criticals, 1);
	assert_int_equal(hang()->ranks[0], 2);
}

static void the_third_pause_is_a_known_phase(void **state)
{
	(void)state;
	pause_of(&ckpt, 8);
	pause_of(&ckpt, 8);
	stands(&ckpt, 8);
	assert_int_equal(seen_now.warnings, 1);
	assert_int_equal(hang()->severity, SEVERITY_INFO);
	assert_string_equal(finding_kind_shown(hang()), "known phase");
	assert_string_equal(text_of(hang(), "known_phase"), "real.py:31 ckpt: 8.5 s every 28.1 s, 2 times before");
	n[2]++;
	runs(20);
	assert_int_equal(seen_now.criticals, 0);
}

static void a_known_phase_that_lasts_is_a_stall_and_then_a_hang(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		pause_of(&ckpt, 8);
	seen_now.warnings = 0;
	stands(&ckpt, 60);
	assert_int_equal(seen_now.warnings, 1);
	assert_true(seen_now.warned_s > 24 && seen_now.warned_s < 27);
	assert_true(seen_now.critical_s >= 30 && seen_now.critical_s < 32);
}

/* It ended by itself, reported as a hang or not: so it may, the next time, and half a minute of it is no news, nor
 * while its call site is still to be read. */
static void what_ended_by_itself_moves_the_limit(void **state)
{
	(void)state;
	pause_of(&ckpt, 40);
	assert_int_equal(seen_now.criticals, 1);
	stands(&ckpt, 130);
	assert_int_equal(seen_now.criticals, 2);
	assert_true(seen_now.critical_s >= 118 && seen_now.critical_s < 126);
	assert_true(seen_now.warned_s >= 30 && seen_now.warned_s < 33);
}

/* What is usual elsewhere is no excuse: as soon as the call site is read. */
static void another_call_site_is_a_stall(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		pause_of(&ckpt, 8);
	seen_now.warnings = 0;
	stands(&load, 40);
	assert_int_equal(seen_now.warnings, 1);
	assert_true(seen_now.warned_s < 4.5);
	assert_true(seen_now.critical_s >= 30 && seen_now.critical_s < 32);
}

/* The same library line, called from elsewhere. */
static void a_call_site_is_in_the_programs_own_code(void **state)
{
	const struct place other = {
		"recv (libc.so.6)\nreadinto (/usr/lib/python3.11/socket.py:720)\npull (/job/x.py:9)", "recvfrom"
	};

	(void)state;
	for (int i = 0; i < 3; i++)
		pause_of(&ckpt, 8);
	seen_now.warnings = 0;
	stands(&other, 10);
	assert_int_equal(seen_now.warnings, 1);
}

/* A sample of what rank 2 waits for, every 5 s, for so long. */
static void waits_on(uint32_t flags, double seconds)
{
	struct event e = job_event(EV_WAIT, 2, 0);

	e.tid = e.tgid;
	e.wait = (struct waits_for){ .kind = WAITS_SOCKET, .flags = flags, .what = "", .who = "", .activity = "" };
	for (int i = 0; i < (int)(2 * seconds); i++) {
		e.wait.ns = now;
		if (i % 10 == 0)
			give(e);
		one_tick();
	}
}

/* What bytes come for may take its time; what they came for once, and not any more, has stopped. */
static void what_moves_is_no_hang(void **state)
{
	(void)state;
	stands(&ckpt, 5);
	waits_on(WAITS_MOVES, 100);
	assert_int_equal(seen_now.warnings, 1);
	assert_int_equal(seen_now.criticals, 0);
	assert_int_equal(finding_number(hang(), EVIDENCE_WAITS_FOR_MOVES), 1);
	waits_on(WAITS_STANDS, 20);
	assert_int_equal(finding_number(hang(), EVIDENCE_WAITS_FOR_MOVES), 0);
	assert_int_equal(seen_now.criticals, 0);
	waits_on(WAITS_STANDS, 20);
	assert_int_equal(seen_now.criticals, 1);
}

/* No sample says any more whether they come: that they did is believed for a while. */
static void what_moved_once_is_not_believed_for_ever(void **state)
{
	(void)state;
	stands(&ckpt, 5);
	waits_on(WAITS_MOVES, 0.5);
	for (int i = 0; i < 2 * 20; i++)
		one_tick();
	assert_int_equal(seen_now.criticals, 0);
	for (int i = 0; i < 2 * 30; i++)
		one_tick();
	assert_int_equal(seen_now.criticals, 1);
}

/* What a stopped rank waited for teaches nothing: somebody let it go on. */
static void a_stop_is_critical_and_no_habit(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		at[2].state = TASK_STOPPED;
		stands(&ckpt, 8);
		assert_int_equal(hang()->severity, SEVERITY_CRITICAL);
		assert_null(text_of(hang(), "known_phase"));
		at[2].state = TASK_SLEEP;
		n[2]++;
		runs(10);
	}
	stands(&ckpt, 8);
	assert_int_equal(hang()->severity, SEVERITY_WARNING);
}

/* After so long its communicator is gone; the rank makes another, and goes on. */
static void gives_up_after(double seconds)
{
	struct event e = job_event(EV_COMM_VANISHED, 2, 0);

	e.comm_seen.addr = e.comm_seen.hash = WORLD;
	stands(&ckpt, seconds);
	give(e);
	seen[2] = false;
	one_tick();
	seen[2] = true;
	n[2]++;
	runs(10);
	seen_now.warnings = 0;
	stands(&ckpt, 8);
}

/* The program raised an error, aborted and begins anew. */
static void a_soon_end_of_the_communicator_is_a_pause(void **state)
{
	(void)state;
	gives_up_after(8);
	assert_int_equal(seen_now.warnings, 0);
	assert_non_null(text_of(hang(), "known_phase"));
}

/* A watchdog did, that ends hangs. */
static void a_late_end_of_the_communicator_teaches_nothing(void **state)
{
	(void)state;
	gives_up_after(35);
	gives_up_after(35);
	assert_int_equal(seen_now.warnings, 1);
}

static void an_hour_of_checkpoints(void **state)
{
	(void)state;
	for (int i = 0; i < 120; i++) {
		pause_of(&ckpt, 7 + i % 3);
		if (i % 10 == 5)
			pause_of(&load, 5);
	}
	assert_int_equal(seen_now.criticals, 0);
	assert_int_equal(seen_now.warnings, 2); /* one of each call site */
}

/* What an earlier session left. */
static void a_phase_known_from_before(void **state)
{
	struct event e = { .kind = EV_KNOWN_PHASE };

	(void)state;
	e.known_phase = (struct known_phase_event){ .job = "",
						    .site = CKPT,
						    .wait = "recvfrom",
						    .n = 5,
						    .longest_ns = 20 * SEC,
						    .usual_ns = 8 * SEC,
						    .interval_steps = 100 };
	give(e);
	stands(&ckpt, 8);
	assert_int_equal(seen_now.warnings, 0);
	assert_string_equal(text_of(hang(), "known_phase"), "real.py:31 ckpt: 8.0 s every 100 steps, 5 times before");
	n[2]++;
	runs(20);
	stands(&ckpt, 70);
	assert_true(seen_now.critical_s >= 60 && seen_now.critical_s < 62);
}

/* Suspended in it, as the host was needed: the time says nothing of that call site. */
static void a_pause_with_a_stop_in_it_teaches_nothing(void **state)
{
	(void)state;
	stands(&ckpt, 5);
	at[2].state = TASK_STOPPED;
	one_tick();
	assert_int_equal(hang()->class, HANG_STOPPED);
	at[2].state = TASK_SLEEP;
	for (int i = 0; i < 10; i++)
		one_tick();
	assert_int_equal(hang()->class, HANG_MISSING_ENTER);
	n[2]++;
	runs(20);
	assert_null(hang());
	assert_int_equal(detectors_pauses(d)->n_learnt, 0);
	pause_of(&ckpt, 8);
	assert_int_equal(detectors_pauses(d)->n_learnt, 1);
}

int main(void)
{
#define SESSION(f) cmocka_unit_test_setup_teardown(f, session, end)
	const struct CMUnitTest tests[] = {
		SESSION(a_sleeper_is_a_stall_and_then_a_hang),
		SESSION(the_third_pause_is_a_known_phase),
		SESSION(a_known_phase_that_lasts_is_a_stall_and_then_a_hang),
		SESSION(what_ended_by_itself_moves_the_limit),
		SESSION(another_call_site_is_a_stall),
		SESSION(a_call_site_is_in_the_programs_own_code),
		SESSION(what_moves_is_no_hang),
		SESSION(what_moved_once_is_not_believed_for_ever),
		SESSION(a_stop_is_critical_and_no_habit),
		SESSION(a_pause_with_a_stop_in_it_teaches_nothing),
		SESSION(a_soon_end_of_the_communicator_is_a_pause),
		SESSION(a_late_end_of_the_communicator_teaches_nothing),
		SESSION(an_hour_of_checkpoints),
		SESSION(a_phase_known_from_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
