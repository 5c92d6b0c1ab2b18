/* SPDX-License-Identifier: Apache-2.0
 *
 * test_top_cluster.c - `top` of a cluster, given reports as its child hands them on: who is late over hosts, jobs one
 * from the other, of one alone, a connection that is cut, and which incident of the log a finding is.
 */
#include "tests/unit/cluster/two_hosts.h"

#include <sys/socket.h>
#include <unistd.h>

#include "cmd/cluster/top_cluster.h"
#include "hub/job_incidents.h"
#include "top/draw.h"

static struct {
	struct top_cluster c;
	struct top_run r;
	struct canvas canvas;
	int reports[2], asks[2]; /* ends of `top` first */
} shown;

static void show_begin(const char *job)
{
	struct top_child child = { .pid = -1, .log_fd = -1 };

	memset(&shown, 0, sizeof(shown));
	assert_int_equal(pipe(shown.reports), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, shown.asks), 0);
	child.data_fd = shown.reports[0];
	child.control_fd = shown.asks[0];
	assert_int_equal(top_cluster_open(&shown.c, job, &child, &shown.r), 0);
	shown.r.source.message = shown.r.source.messages = "";
	top_view_init(&shown.r.view);
}

static void show_end(void)
{
	top_run_free(&shown.r);
	canvas_free(&shown.canvas);
	top_cluster_close(&shown.c);
	close(shown.reports[1]);
	close(shown.asks[1]);
}

static void take(void)
{
	assert_int_equal(shown.r.origin.take(shown.r.origin.of), 0);
}

static void head_write(const struct top_report_head *head)
{
	assert_int_equal(write(shown.reports[1], head, sizeof(*head)), sizeof(*head));
}

/* In two pieces: what is not whole is kept. */
static void report_hand(int host)
{
	static char bytes[REPORT_BYTES_MAX];
	struct top_report_head head = { .len = report_write(host, bytes), .stored_ns = (int64_t)(WALL + now) };

	strcpy(head.token, host ? "node-b" : "node-a");
	head_write(&head);
	assert_int_equal(write(shown.reports[1], bytes, 7), 7);
	take();
	assert_int_equal(write(shown.reports[1], bytes + 7, head.len - 7), head.len - 7);
	take();
}

static void time_goes(int n, int moving)
{
	while (n--) {
		for (int r = 0; r < moving; r++) {
			entered[r] += 10;
			since[r] = now + 800 * MSEC;
		}
		now += SEC;
		for (int host = 0; host < HOSTS; host++)
			report_hand(host);
	}
}

static void draw(int rows, int cols)
{
	const struct top_part *parts;
	size_t n = shown.r.origin.parts(shown.r.origin.of, &parts);

	assert_int_equal(top_table_make(&shown.r.table, parts, n), 0);
	assert_int_equal(canvas_begin(&shown.canvas, rows, cols), 0);
	top_draw(&shown.canvas, &shown.r.view, &shown.r.table, &shown.r.source);
}

static void assert_line(int row, const char *words)
{
	char line[CANVAS_COLS_MAX + 1];

	canvas_line(&shown.canvas, row, line);
	if (!strstr(line, words))
		fail_msg("'%s' is not in line %d: '%s'", words, row, line);
}

static void key(int k)
{
	top_view_key(&shown.r.view, k, &shown.r.table, &shown.r.source);
	draw(24, 80);
}

/* --- cases --- */

static void who_is_late_is_named(void **state)
{
	(void)state;
	show_begin(NULL);
	draw(24, 80);
	assert_line(0, "cluster");
	assert_line(4, "no rank of a job is seen yet");
	time_goes(20, RANKS);
	draw(24, 80);
	assert_line(1, "4 ranks: 4 moves ");
	assert_line(2, "no finding is open");
	rank_3_sleeps();
	time_goes(5, 0);
	draw(24, 120);
	assert_line(1, "4 ranks: 1 late  3 waits ");
	assert_line(2, "rank 3 has not entered");
	assert_line(4, "    3 node-b");
	assert_line(4, "stall: rank 3");
	show_end();
}

/* Two jobs have the same ranks; a finding is of one. */
static void jobs_are_rows(void **state)
{
	(void)state;
	show_begin(NULL);
	job_of[1] = "other";
	time_goes(20, RANKS);
	draw(24, 80);
	assert_line(1, "4 ranks: 4 moves ");
	assert_line(3, "jobs ");
	assert_line(4, "other                  2     2 ");
	assert_line(5, "train                  2     2 ");
	rank_3_sleeps();
	time_goes(5, 2);
	draw(24, 80);
	assert_line(4, "other                  2     -     1    1");
	key(TOP_KEY_ENTER);
	assert_line(4, "    3 late");
	assert_line(5, "    2 waits");
	key(TOP_KEY_BACK);
	key(TOP_KEY_DOWN);
	key(TOP_KEY_ENTER);
	assert_line(4, "    0 moves");
	show_end();
}

static void one_job_alone(void **state)
{
	(void)state;
	show_begin("other");
	job_of[1] = "other";
	time_goes(5, RANKS);
	draw(24, 80);
	assert_line(0, "cluster, job other");
	assert_line(1, "2 ranks: 2 moves ");
	show_end();
}

/* Then nothing says that hosts are silent: what was seen last stays, and why. */
static void a_cut_is_said(void **state)
{
	(void)state;
	show_begin(NULL);
	time_goes(5, RANKS);
	head_write(&(struct top_report_head){ .said = TOP_CUT });
	shown.c.f.time.mono_ns -= 60 * SEC;
	take();
	draw(24, 80);
	assert_line(0, "NO CONNECTION");
	assert_line(1, "4 ranks: 4 moves ");
	time_goes(1, RANKS);
	shown.c.f.time.mono_ns -= 60 * SEC;
	take(); /* the bus has said nothing: it may be behind */
	draw(24, 80);
	assert_line(1, "4 ranks: 4 moves ");
	head_write(&(struct top_report_head){ .said = TOP_NO_REPORT });
	take();
	draw(24, 80);
	assert_line(0, "cluster  ");
	assert_line(1, "4 ranks: 4 silent ");
	show_end();
}

/* Its id is the hub's that has the job; what it is about is the same words on every hub. */
static void an_acknowledgement_finds_the_log(void **state)
{
	struct top_acknowledge a = { .key = 0 };
	char answer[128] = "?";

	(void)state;
	show_begin(NULL);
	for (int i = 0; i < 20; i++) {
		second(RANKS);
		for (int host = 0; host < HOSTS; host++)
			report_hand(host);
	}
	rank_3_sleeps();
	for (int i = 0; i < 5; i++) {
		second(0);
		for (int host = 0; host < HOSTS; host++)
			report_hand(host);
	}
	draw(24, 80);
	assert_int_equal(shown.r.table.n_found, 1);
	assert_no_more(1);
	shown.r.acknowledge(shown.r.acknowledge_of, shown.r.table.found[0].i->id, answer, sizeof(answer));
	assert_string_equal(answer, "");
	assert_int_equal(read(shown.asks[1], &a, sizeof(a)), sizeof(a));
	assert_string_equal(a.token, hubs[0].job->log.token);
	assert_non_null(incident_log_find(&hubs[0].job->log, a.key));
	shown.r.acknowledge(shown.r.acknowledge_of, "no-such-id", answer, sizeof(answer));
	assert_string_equal(answer, "that finding is over");
	show_end();
}

/* Of a process whose driver says nothing there is a "-", and of a host that is not open nothing. */
static void a_process_has_memory_of_its_gpu(void **state)
{
	uint32_t pids[] = { 100, 101, 4711 }, memory[] = { 20480, 0, 512 }, sm[] = { 98, 0, 1 };
	Cluster__Gpu g = CLUSTER__GPU__INIT;

	(void)state;
	show_begin(NULL);
	g.has_index = 1;
	g.name = (char *)"NVIDIA H100 80GB HBM3";
	g.pids = pids;
	g.memory_mib = memory;
	g.sm_percent = sm;
	g.n_pids = g.n_memory_mib = g.n_sm_percent = 3;
	gpus[0][0] = &g;
	n_gpus[0] = 1;
	time_goes(3, RANKS);
	draw(24, 80);
	key('3');
	assert_line(6, "    0  H100 80GB HBM3");
	assert_line(8, "    0       100      0  20.0 GiB   97%");
	assert_line(9, "    0       101      1         -     -");
	assert_line(10, "    0      4711      -   512 MiB    0%");
	assert_line(10, "(no training process)");
	shown.r.view.choice.host = "node-b";
	draw(24, 80);
	assert_line(4, "no GPU is known");
	show_end();
}

static void what_is_no_report_ends_it(void **state)
{
	struct top_report_head head = { .len = TOP_REPORT_BYTES_MAX + 1 };

	(void)state;
	show_begin(NULL);
	head_write(&head);
	assert_int_equal(shown.r.origin.take(shown.r.origin.of), -EBADMSG);
	show_end();
	show_begin(NULL);
	time_goes(2, RANKS);
	close(shown.reports[1]);
	take();
	assert_true(shown.r.origin.is_over(shown.r.origin.of));
	draw(24, 80);
	assert_line(1, "4 ranks: 4 moves ");
	shown.reports[1] = -1;
	show_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(who_is_late_is_named),
		CASE(jobs_are_rows),
		CASE(one_job_alone),
		CASE(a_cut_is_said),
		CASE(a_process_has_memory_of_its_gpu),
		CASE(an_acknowledgement_finds_the_log),
		CASE(what_is_no_report_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
