/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_terminal.c - findings and probe budgets as people read them; a full disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "sink/sink_io.h"
#include "sink/text.h"
#include "tests/unit/sink/sink_file.h"

static char *terminal_said(struct fixture *f)
{
	assert_int_equal(f->err, 0);
	assert_int_equal(sink_terminal.close(f->sink, &f->m), 0);
	return file_text();
}

static void tick_at(struct fixture *f, uint64_t ns)
{
	fixture_event(f, (struct event){ .kind = EV_TICK, .ts_ns = ns });
}

/* It opens, its call site comes, its verdict changes, it ends. */
static void test_terminal(void **state)
{
	struct incident i;
	struct fixture f;
	char *text;

	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	fixture_open(&f, &sink_terminal);
	i = hang_of(&f);
	fixture_incident(&f, i);
	tick_at(&f, i.t_ns + 500000000);
	i.phase = PHASE_UPDATE;
	i.t_ns += 600000000;
	finding_note_text(&i.f, EVIDENCE_PYTHON, "train.py:54 load\033[31m");
	finding_note_text(&i.f, EVIDENCE_WAITS_FOR, "waits for an answer of 10.0.0.7:443");
	finding_note_text(&i.f, EVIDENCE_WAITING_IN, "2 of 2 others: cuStreamSynchronize");
	finding_note_text(&i.f, EVIDENCE_WAITS_FOR_REMEDY, "look at 10.0.0.7:443");
	fixture_incident(&f, i);
	i.t_ns += 400000000;
	fixture_incident(&f, i); /* the same verdict: not shown */
	i.f.cause = CAUSE_BUSY;
	fixture_incident(&f, i); /* it works for a moment: nor that */
	i.f.cause = CAUSE_ASLEEP;
	i.f.class = HANG_UNKNOWN;
	fixture_incident(&f, i); /* less sure for a moment */
	i.f.class = HANG_MISSING_ENTER;
	fixture_incident(&f, i);
	i.f.class = HANG_STOPPED;
	i.f.cause = CAUSE_STOPPED;
	i.f.severity = SEVERITY_CRITICAL;
	i.f.n_evidence = 0;
	fixture_incident(&f, i);
	i.phase = PHASE_CLOSE;
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_string_equal(
		text,
		"2025-11-13 03:36:42 UTC  WARNING stall  rank 2 has not entered AllReduce #1842: its main thread "
		"sleeps outside of NCCL; 2 peers have waited 2.7 s\n"
		"  where   job llama, host node-a, pid 4702, pod llama-0, Slurm job 77\n"
		"  why     at train.py:54 load?[31m\n"
		"          waits for an answer of 10.0.0.7:443\n"
		"          AllReduce #1842, communicator 0x72e8a1b2c3d4e5f6 of 3 ranks\n"
		"  others  all 2: cuStreamSynchronize\n"
		"  do      look at 10.0.0.7:443\n"
		"  id      node-a-9.3\n"
		"2025-11-13 03:36:43 UTC  now CRITICAL hang  rank 2 is stopped before AllReduce #1842; for 3.7 s\n"
		"  where   job llama, host node-a, pid 4702, pod llama-0, Slurm job 77\n"
		"  why     AllReduce #1842, communicator 0x72e8a1b2c3d4e5f6 of 3 ranks\n"
		"  do      find out who stopped it (a debugger, a snapshot, Ctrl-Z in its terminal), then: "
		"kill -CONT 4702\n"
		"  id      node-a-9.3\n"
		"2025-11-13 03:36:43 UTC  OVER, was critical hang  rank 2 is stopped before AllReduce #1842; it lasted "
		"3.7 s (node-a-9.3)\n");
	free(text);
}

/* No call site comes: after a second it is said without. What follows from another finding is one line. */
static void test_terminal_holds_a_second(void **state)
{
	struct incident i;
	struct fixture f;
	uint64_t open_ns;
	char *text;

	(void)state;
	fixture_open(&f, &sink_terminal);
	i = hang_of(&f);
	open_ns = i.t_ns;
	fixture_incident(&f, i);
	tick_at(&f, open_ns + 900000000);
	text = file_text();
	assert_string_equal(text, "");
	free(text);
	tick_at(&f, open_ns + 1100000000);
	text = file_text();
	assert_non_null(strstr(text, "WARNING stall  rank 2 has not entered"));
	assert_null(strstr(text, "waiting"));
	free(text);
	i.number++;
	strcpy(i.id, "node-a-9.9");
	strcpy(i.caused_by, "node-a-9.3");
	i.f.class = HANG_PROCESS_DEAD;
	i.f.cause = CAUSE_DEAD;
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_non_null(
		strstr(text, "rank 2 died before AllReduce #1842; 2 peers have waited 2.7 s (node-a-9.9, a consequence "
			     "of node-a-9.3)\n"));
	assert_null(strstr(strstr(text, "node-a-9.9"), "where"));
	free(text);
}

/* Of several jobs or hosts in one log every line says which, also those without "where". */
static void test_terminal_several_jobs(void **state)
{
	static const struct job_id other = { .name = "mistral", .shown = "mistral", .nth = 1 };
	struct node *nodes[2];
	struct incident i;
	struct fixture f;
	char *text;

	(void)state;
	fixture_open(&f, &sink_terminal);
	f.procs[0].job = &other;
	i = hang_of(&f);
	i.f.class = HANG_STOPPED;
	i.f.cause = CAUSE_STOPPED;
	finding_note(&i.f, EVIDENCE_PROXY_OP_COUNT, 3684); /* it was in the middle of it */
	finding_note_text(&i.f, EVIDENCE_PYTHON, "train.py:54 load");
	fixture_incident(&f, i);
	i.phase = PHASE_CLOSE;
	fixture_incident(&f, i);
	f.procs[0].is_child = true; /* no job of its own */
	fixture_incident(&f, i);
	nodes[0] = nodes[1] = f.procs[0].node;
	f.m.merged = true;
	f.m.nodes = nodes;
	f.m.n_nodes = 2;
	i.f.host = "node-b";
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_non_null(strstr(text, "WARNING stall  job llama: rank 2 is stopped inside AllReduce #1842; 2 peers"));
	assert_non_null(strstr(text, "OVER, was warning stall  job llama: rank 2 is stopped inside"));
	assert_non_null(strstr(text, "OVER, was warning stall  rank 2 is stopped inside"));
	assert_non_null(strstr(text, "OVER, was warning stall  host node-b: rank 2 is stopped inside"));
	free(text);
}

static char *folded(const char *line, int columns)
{
	struct text t = { 0 };

	text_add(&t, "%s", line);
	text_fold(&t, columns);
	return t.data;
}

/* Between words; a colour and the later bytes of a character take no room; what is longer than a line stays whole,
 * but for a list, which goes on behind a comma. */
static void test_a_screen_folds(void **state)
{
	static const struct {
		const char *line, *folded;
	} cases[] = {
		{ "", "" },
		{ "0123456789 0123456789 0123456789 0123456\n", "0123456789 0123456789 0123456789 0123456\n" },
		{ "0123456789 0123456789 0123456789 01234567\n  b",
		  "0123456789 0123456789 0123456789\n          01234567\n  b" },
		{ "0123456789 0123456789 0123456789 \033[1;31m0123456\033[0m",
		  "0123456789 0123456789 0123456789 \033[1;31m0123456\033[0m" },
		{ "0123456789 0123456789 0123456789 \303\244123456 b",
		  "0123456789 0123456789 0123456789 \303\244123456\n          b" },
		{ "0123456789012345678901234567890123456789012345 b",
		  "0123456789012345678901234567890123456789012345\n          b" },
		{ "  where   job 0123456789012345678901234567890123456789 b",
		  "  where   job\n          0123456789012345678901234567890123456789\n          b" },
		{ "ranks 01234567,01234567,01234567,01234567,01234567,01234567 b",
		  "ranks\n          01234567,01234567,01234567,\n          01234567,01234567,01234567 b" },
		{ "0,1 0123456789 0123456789 0123456789 56,89", /* it has room on the next line */
		  "0,1 0123456789 0123456789 0123456789\n          56,89" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = folded(cases[i].line, 40), *as_it_is = folded(cases[i].line, 0);

		assert_string_equal(text ? text : "", cases[i].folded);
		assert_string_equal(as_it_is, cases[i].line);
		free(text);
		free(as_it_is);
	}
}

/* What explains an older finding has a block of its own: what to do stands there. */
static void test_terminal_a_cause_seen_later(void **state)
{
	struct incident i;
	struct fixture f;
	char *text;

	(void)state;
	fixture_open(&f, &sink_terminal);
	i = hang_of(&f);
	i.f.class = HANG_PROCESS_DEAD;
	i.f.cause = CAUSE_DEAD;
	strcpy(i.caused_by, "node-a-9.1");
	i.explains = true;
	fixture_incident(&f, i);
	i.phase = PHASE_CLOSE;
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_non_null(strstr(text, "  do      "));
	assert_non_null(strstr(text, "\n  id      node-a-9.3, the cause of node-a-9.1\n"));
	assert_non_null(strstr(text, " (node-a-9.3, the cause of node-a-9.1)\n"));
	free(text);
}

/* How often each side called, by the numbers that an operation is named with; where the ranks of a cycle are. */
static void test_terminal_pairs_and_cycles(void **state)
{
	struct incident i;
	struct fixture f;
	char *text;

	(void)state;
	fixture_open(&f, &sink_terminal);
	i = hang_of(&f);
	i.f.class = HANG_P2P_UNMATCHED;
	finding_note(&i.f, EVIDENCE_SENDER, 1);
	finding_note(&i.f, EVIDENCE_RECEIVER, 3);
	finding_note(&i.f, EVIDENCE_N_SENDS, 11);
	finding_note(&i.f, EVIDENCE_N_RECVS, 1);
	finding_note_text(&i.f, EVIDENCE_PYTHON, "train.py:54 send");
	finding_note_text(&i.f, EVIDENCE_WAITING_IN, "3 of 4 others: cuStreamSynchronize");
	fixture_incident(&f, i);
	i.number++;
	i.f.class = HANG_DEADLOCK;
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_non_null(strstr(text, "rank 1 called 11 Sends (#0 to #10) to rank 3, which called 1 Recv (#0)\n"));
	assert_non_null(strstr(text, "\n  others  3 of 4: cuStreamSynchronize\n"));
	assert_non_null(strstr(text, "\n  at      3 of 4: cuStreamSynchronize\n"));
	free(text);
}

/* A wait that is usual at this place is one line, and stays one until it lasts too long. */
static void test_terminal_known_phase(void **state)
{
	struct incident i;
	struct fixture f;
	char *text;

	(void)state;
	fixture_open(&f, &sink_terminal);
	i = hang_of(&f);
	i.f.severity = SEVERITY_INFO;
	finding_note_text(&i.f, EVIDENCE_KNOWN_PHASE, "train.py:31 save: 8.6 s every 100 steps, 3 times before");
	finding_note_text(&i.f, EVIDENCE_PYTHON, "train.py:31 save");
	fixture_incident(&f, i);
	i.phase = PHASE_UPDATE;
	finding_note_text(&i.f, EVIDENCE_WAITS_FOR, "waits for an answer of 10.0.0.7:443");
	fixture_incident(&f, i);
	text = file_text();
	assert_string_equal(strstr(text, "UTC  "),
			    "UTC  INFO known phase  rank 2 has not entered AllReduce #1842, as usual "
			    "(train.py:31 save: 8.6 s every 100 steps, 3 times before); 2 peers have "
			    "waited 2.7 s (node-a-9.3)\n");
	free(text);
	i.f.severity = SEVERITY_WARNING;
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_non_null(
		strstr(text, "now WARNING stall  rank 2 has not entered AllReduce #1842: its main thread sleeps"));
	assert_non_null(strstr(text, "  why     known phase: train.py:31 save: 8.6 s every 100 steps, 3 times before\n"
				     "          at train.py:31 save\n"));
	free(text);
}

/* What of a slow phase is storage, and where. */
static void test_terminal_storage(void **state)
{
	struct fixture f;
	struct incident i;
	char *text;

	(void)state;
	fixture_open(&f, &sink_terminal);
	i = hang_of(&f);
	i.f.kind = FINDING_STRAGGLER;
	i.f.class = HANG_NONE;
	i.f.cause = CAUSE_HOST_PHASE;
	i.f.n_evidence = 0;
	finding_note(&i.f, EVIDENCE_STORAGE_S, 3.2);
	finding_note_text(&i.f, EVIDENCE_STORAGE_CALL, "flush");
	finding_note_text(&i.f, EVIDENCE_MOUNT, "/ckpt (nfs4\033)");
	fixture_incident(&f, i);
	text = terminal_said(&f);
	assert_non_null(strstr(text, "of these 3.2 s blocked in storage, longest in flush, on /ckpt (nfs4?)\n"));
	free(text);
}

static void test_terminal_verbose(void **state)
{
	struct fixture f;
	char *text;

	(void)state;
	log_verbose = true;
	fixture_open(&f, &sink_terminal);
	f.comm.parallelism = PARALLEL_PIPELINE;
	strcpy(f.comm.process_group, "mesh_pp");
	fixture_incident(&f, hang_of(&f));
	text = terminal_said(&f);
	log_verbose = false;
	assert_non_null(strstr(text, "  id      node-a-9.3\n    parallelism: pp\n    n_waiting: 2\n"));
	assert_non_null(strstr(text, "communicator 0x72e8a1b2c3d4e5f6 of 3 ranks, process group mesh_pp\n"));
	assert_non_null(
		strstr(text, "    n_waiting: 2\n    waiting: 2.7 s\n    stack:\n        clock_nanosleep\n        main ?"
			     "?(\"\\\"??[31m)\n"));
	free(text);
}

static void budget_event(struct fixture *f, struct budget_change reported)
{
	struct event e = { .kind = EV_BUDGET, .tgid = f->procs[1].tgid, .ts_ns = f->m.now_ns, .budget = reported };

	e.budget.cost_ns = e.budget.node_cost_ns = 3800;
	fixture_event(f, e);
}

static void test_terminal_budget(void **state)
{
	static const struct budget_change reported = {
		.what = BUDGET_SHED, .group = PROBES_POLLS, .hits_per_s = 61000, .budget_ppm = 10000
	};
	struct budget_change t = reported;
	struct fixture f;
	char *text;

	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	fixture_open(&f, &sink_terminal);
	budget_event(&f, (struct budget_change){ .what = BUDGET_COST, .budget_ppm = 10000 }); /* said by the session */
	budget_event(&f, t);
	t.group = PROBES_BURST;
	t.of_node = true;
	t.node_hits_per_s = 1234567;
	t.budget_ppm = 105000;
	budget_event(&f, t);
	t.what = BUDGET_BACK;
	t.of_node = false;
	t.hits_per_s = 999;
	t.budget_ppm = 10000;
	budget_event(&f, t);
	t.what = BUDGET_KEPT;
	t.hits_per_s = 5000;
	budget_event(&f, t);
	t.what = BUDGET_WATCH;
	budget_event(&f, t);
	t.of_other = true; /* said of the one that pays */
	budget_event(&f, t);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_terminal.close(f.sink, &f.m), 0);
	text = file_text();
	assert_string_equal(
		text,
		"2025-11-13 03:36:40 UTC  process 4701 (rank 1): 61,000 probe hits a second x 3.8 us = 23 % of a "
		"core, over its budget of 1 %: cuEventQuery and cuStreamQuery are no longer probed\n"
		"2025-11-13 03:36:40 UTC  process 4701 (rank 1): 61,000 probe hits a second x 3.8 us = 23 % of a "
		"core, all processes 469 %, over their budget of 10.5 %: launches, asynchronous copies and "
		"asynchronous allocations are no longer probed\n"
		"2025-11-13 03:36:40 UTC  process 4701 (rank 1): 999 probe hits a second x 3.8 us = 0.38 % of a core, "
		"under half of its budget of 1 %: launches, asynchronous copies and asynchronous allocations are "
		"probed again\n"
		"2025-11-13 03:36:40 UTC  process 4701 (rank 1): 5,000 probe hits a second x 3.8 us = 1.9 % of a "
		"core, over its budget of 1 %: no probes are left that may go\n"
		"2025-11-13 03:36:40 UTC  process 4701 (rank 1): 5,000 probe hits a second x 3.8 us = 1.9 % of a "
		"core, over its budget of 1 %: all its probes are removed, it is watched from outside\n");
	free(text);
}

static void test_full(void **state)
{
	static const struct sink_class *const classes[] = { &sink_json, &sink_terminal };
	struct fixture f;

	(void)state;
	if (access("/dev/full", W_OK))
		skip();
	for (size_t k = 0; k < 2; k++) {
		fixture_init(&f, 3);
		assert_int_equal(classes[k]->open("/dev/full", &f.sink), 0);
		fixture_incident(&f, hang_of(&f));
		if (!f.err) /* held for a second */
			tick_at(&f, hang_of(&f).t_ns + 2000000000);
		assert_int_equal(f.err, -ENOSPC);
		assert_int_equal(classes[k]->close(f.sink, &f.m), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_terminal_holds_a_second),
		cmocka_unit_test(test_terminal_a_cause_seen_later),
		cmocka_unit_test(test_terminal_several_jobs),
		cmocka_unit_test(test_a_screen_folds),
		cmocka_unit_test(test_terminal_known_phase),
		cmocka_unit_test(test_terminal_storage),
		cmocka_unit_test(test_terminal_pairs_and_cycles),
		cmocka_unit_test(test_terminal_verbose),
		cmocka_unit_test(test_terminal_budget),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
