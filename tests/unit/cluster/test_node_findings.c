/* SPDX-License-Identifier: Apache-2.0
 *
 * test_node_findings.c - what nodes found by themselves in the incidents of their job: as causes of what the hub sees,
 * once for all hosts that say the same, and no longer than their hosts say it. And GPUs as reports have them.
 */
#include "tests/unit/cluster/two_hosts.h"

#include <math.h>

static Cluster__Finding found[HOSTS];
static Cluster__Evidence evidence[HOSTS][2], *evidence_list[HOSTS][2];
static Cluster__Subject subjects[HOSTS];
static int32_t found_ranks[HOSTS][1];
static uint32_t found_pids[HOSTS][1];
static char ids[HOSTS][16];

/* The host's node holds a finding about that rank, since `age_s`. */
static Cluster__Finding *node_finds(int host, int rank, const char *kind, const char *cause, int age_s)
{
	Cluster__Finding *f = &found[host];

	*f = (Cluster__Finding)CLUSTER__FINDING__INIT;
	snprintf(ids[host], sizeof(ids[host]), "node-%d-1", host);
	found_ranks[host][0] = rank;
	found_pids[host][0] = 100 + rank;
	f->id = ids[host];
	f->kind = (char *)kind;
	f->cause = (char *)cause;
	f->ranks = found_ranks[host];
	f->pids = found_pids[host];
	f->n_ranks = f->n_pids = 1;
	f->has_since_age_ns = f->has_confidence_percent = 1;
	f->since_age_ns = age_s * SEC;
	f->confidence_percent = 90;
	subjects[host] = (Cluster__Subject)CLUSTER__SUBJECT__INIT;
	subjects[host].type = (char *)"rank";
	subjects[host].has_rank = subjects[host].has_pid = 1;
	subjects[host].rank = rank;
	subjects[host].pid = 100 + rank;
	if (!strcmp(kind, "d_state")) { /* a thread */
		subjects[host].type = (char *)"thread";
		subjects[host].has_tid = 1;
		subjects[host].tid = 100 + rank;
		thread_state[rank] = 4;
	}
	f->subject = &subjects[host];
	findings[host][0] = f;
	n_findings[host] = 1;
	return f;
}

static void note_text(int host, const char *name, const char *text)
{
	Cluster__Finding *f = &found[host];
	Cluster__Evidence *e = &evidence[host][f->n_evidence];

	*e = (Cluster__Evidence)CLUSTER__EVIDENCE__INIT;
	e->name = (char *)name;
	e->text = (char *)text;
	evidence_list[host][f->n_evidence++] = e;
	f->evidence = evidence_list[host];
}

static void note_number(int host, const char *name, double number)
{
	note_text(host, name, NULL);
	evidence[host][found[host].n_evidence - 1].has_number = 1;
	evidence[host][found[host].n_evidence - 1].number = number;
}

static const cJSON *evidence_of(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItem(cJSON_GetObjectItem(o, "evidence"), name);
}

static const char *host_of_nth(int n)
{
	static char host[32];
	cJSON *o = incident_nth(n);

	assert_non_null(o);
	snprintf(host, sizeof(host), "%s", text_of(o, "host"));
	cJSON_Delete(o);
	return host;
}

/* --- cases --- */

static void it_is_an_incident_as_long_as_it_holds(void **state)
{
	cJSON *o;

	(void)state;
	seconds(10, RANKS);
	node_finds(1, 2, "gpu_health", "gpu_throttled", 3);
	note_text(1, "syscall", "openat");
	note_number(1, "sm_percent", 12.5);
	seconds(3, RANKS);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "gpu_health");
	assert_string_equal(text_of(o, "host"), "node-b");
	assert_string_equal(text_of(o, "phase"), "open");
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint, 2);
	assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "subject"), "pid")->valueint, 102);
	assert_string_equal(evidence_of(o, "syscall")->valuestring, "openat");
	assert_true(fabs(evidence_of(o, "sm_percent")->valuedouble - 12.5) < 1e-9);
	cJSON_Delete(o);
	n_findings[1] = 0;
	seconds(5, RANKS);
	o = incident_nth(0);
	assert_string_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	assert_no_more(1);
}

/* The node knows that the rank is blocked in the kernel; the hub knows that all others wait for it. */
static void it_is_the_cause_of_what_the_hub_sees(void **state)
{
	cJSON *cause, *hang;

	(void)state;
	seconds(30, RANKS);
	node_finds(1, 3, "d_state", "", 1);
	rank_3_sleeps();
	seconds(5, 0);
	cause = incident_nth(0);
	hang = incident_nth(1);
	assert_non_null(hang);
	assert_string_equal(text_of(cause, "kind"), "d_state");
	assert_string_equal(text_of(hang, "kind"), "hang");
	assert_string_equal(text_of(hang, "class"), "host_blocked");
	assert_string_equal(text_of(hang, "severity"), "critical");
	assert_string_equal(text_of(hang, "caused_by"), text_of(cause, "id"));
	cJSON_Delete(cause);
	cJSON_Delete(hang);
	assert_no_more(2);
}

static void the_same_on_two_hosts_is_one_event(void **state)
{
	cJSON *first, *second;

	(void)state;
	seconds(10, RANKS);
	node_finds(1, 3, "d_state", "", 2); /* it began first there */
	node_finds(0, 0, "d_state", "", 1);
	seconds(3, RANKS);
	first = incident_nth(strcmp(host_of_nth(0), "node-b") != 0);
	second = incident_nth(strcmp(host_of_nth(0), "node-b") == 0);
	assert_string_equal(text_of(first, "host"), "node-b");
	assert_string_equal(text_of(second, "host"), "node-a");
	assert_string_equal(text_of(first, "caused_by"), "");
	assert_string_equal(text_of(second, "caused_by"), text_of(first, "id"));
	cJSON_Delete(first);
	cJSON_Delete(second);
	assert_no_more(2);
}

/* Hours apart, they have nothing to do with each other. */
static void the_same_at_another_time_is_another_one(void **state)
{
	cJSON *second;

	(void)state;
	seconds(10, RANKS);
	node_finds(1, 3, "d_state", "", 60);
	node_finds(0, 0, "d_state", "", 1);
	seconds(3, RANKS);
	second = incident_nth(1);
	assert_non_null(second);
	assert_string_equal(text_of(second, "caused_by"), "");
	cJSON_Delete(second);
}

/* Both nodes see the ranks wait, each for itself; the hub sees who does not come. */
static void waits_are_the_hubs_to_judge(void **state)
{
	(void)state;
	seconds(30, RANKS);
	node_finds(0, 1, "hang", "", 2)->hang_class = (char *)"missing_enter";
	seconds(3, RANKS);
	assert_no_more(0);
	node_finds(0, 1, "hang", "", 2)->hang_class = (char *)"deadlock";
	seconds(3, RANKS);
	assert_int_equal(memory_bus_count("\"class\":\"deadlock\""), 1);
}

/* It says so itself, and the node's word would be a second one. */
static void what_the_hub_says_too_is_said_once(void **state)
{
	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(5, 0);
	node_finds(1, 3, "hang", "", 2)->hang_class = (char *)"p2p_unmatched";
	seconds(5, 0);
	assert_int_equal(memory_bus_count("\"kind\":\"hang\""), memory_bus_count("\"class\":\"missing_enter\""));
	assert_no_more(1);
}

static void of_a_kind_that_is_not_known_nothing_is_said(void **state)
{
	(void)state;
	seconds(10, RANKS);
	node_finds(1, 3, "meltdown", "", 1);
	seconds(3, RANKS);
	node_finds(1, 3, "xid", "a cause of next year", 1);
	seconds(3, RANKS);
	assert_no_more(0);
}

/* --- GPUs --- */

enum { IN_NCCL_BP = 1818, NCCL_OCCUPANCY_BP = 483 };
static Cluster__Gpu gpu[RANKS];
static uint32_t gpu_pids[RANKS];

static void gpu_is(int rank, uint32_t sm_bp, uint32_t occupancy_bp)
{
	Cluster__Gpu *g = &gpu[rank];
	int host = rank / PER_HOST;

	*g = (Cluster__Gpu)CLUSTER__GPU__INIT;
	g->has_index = g->has_pci = g->has_sampled_age_ns = g->has_window_ns = g->has_n_gpus = 1;
	g->has_sm_bp = g->has_occupancy_bp = g->has_tensor_bp = g->has_dram_bp = 1;
	g->index = (uint32_t)(rank % PER_HOST);
	g->n_gpus = PER_HOST;
	g->pci = 0x100 + g->index;
	g->sampled_age_ns = 100 * MSEC;
	g->window_ns = SEC;
	g->sm_bp = sm_bp;
	g->occupancy_bp = occupancy_bp;
	gpu_pids[rank] = 100 + rank;
	g->pids = &gpu_pids[rank];
	g->n_pids = 1;
	gpus[host][rank % PER_HOST] = g;
	n_gpus[host] = PER_HOST;
}

/* All entered, nothing moves, three GPUs wait in NCCL, and one, on the other host, runs nothing. */
static void who_does_not_wait_in_nccl_is_named_over_hosts(void **state)
{
	cJSON *o;

	(void)state;
	for (int r = 0; r < RANKS; r++)
		gpu_is(r, 8500, 3000);
	seconds(60, RANKS);
	for (int r = 0; r < RANKS; r++)
		gpu_is(r, r == 2 ? 0 : IN_NCCL_BP, r == 2 ? 0 : NCCL_OCCUPANCY_BP);
	seconds(40, 0);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "class"), "inside_gpu");
	assert_string_equal(text_of(o, "host"), "node-b");
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint, 2);
	cJSON_Delete(o);
}

/* Of a finding that holds for weeks, with a text that changes with each report; it may be over at the next tick. */
static void its_newest_text_is_there(void **state)
{
	Cluster__Process process = CLUSTER__PROCESS__INIT, *processes[] = { &process };
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	struct node_findings n = { 0 };
	struct finding_list list = { 0 };
	struct host host = { .number = 1 };
	struct model m = { 0 };
	static char text[4000];

	(void)state;
	process.job = (char *)"train";
	process.pid = 102;
	r.processes = processes;
	r.n_processes = 1;
	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 16000; i++) { /* 32 MB */
		text[snprintf(text, 16, "%d", i)] = '-';
		r.findings = (Cluster__Finding *[]){ node_finds(1, 2, "gpu_health", "gpu_throttled", 3) };
		r.n_findings = i % 2;
		note_text(1, "syscall", text);
		host.at_ns = r.now_ns = m.now_ns = (100 + i) * SEC;
		assert_int_equal(node_findings_take(&n, &host, &r, "train"), 0);
		list.n = 0;
		assert_int_equal(node_findings_causes(&n, &m, &list), 0);
		assert_int_equal(node_findings_others(&n, &m, &list), 0);
		assert_int_equal(list.n, i % 2);
		if (list.n)
			assert_string_equal(finding_text(&list.items[0], EVIDENCE_SYSCALL), text);
	}
	node_findings_free(&n);
	finding_list_free(&list);
}

/* Two reports between two ticks: what only the first one has is judged once, and its texts outlive that tick. */
static void what_is_over_has_its_text(void **state)
{
	Cluster__Process process = CLUSTER__PROCESS__INIT, *processes[] = { &process };
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	struct node_findings n = { 0 };
	struct finding_list list = { 0 };
	struct host host = { .number = 1, .at_ns = 100 * SEC };
	struct model m = { .now_ns = 100 * SEC };

	(void)state;
	process.job = (char *)"train";
	process.pid = 102;
	r.processes = processes;
	r.n_processes = 1;
	r.now_ns = 100 * SEC;
	r.findings = (Cluster__Finding *[]){ node_finds(1, 2, "gpu_health", "gpu_throttled", 3) };
	note_text(1, "syscall", "openat");
	r.n_findings = 1;
	assert_int_equal(node_findings_take(&n, &host, &r, "train"), 0);
	r.n_findings = 0;
	assert_int_equal(node_findings_take(&n, &host, &r, "train"), 0);
	assert_int_equal(node_findings_causes(&n, &m, &list), 0);
	assert_int_equal(node_findings_others(&n, &m, &list), 0);
	assert_int_equal(list.n, 1);
	assert_string_equal(finding_text(&list.items[0], EVIDENCE_SYSCALL), "openat");
	list.n = 0;
	assert_int_equal(node_findings_causes(&n, &m, &list), 0);
	assert_int_equal(node_findings_others(&n, &m, &list), 0);
	assert_int_equal(list.n, 0);
	node_findings_free(&n);
	finding_list_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(it_is_an_incident_as_long_as_it_holds),
		CASE(it_is_the_cause_of_what_the_hub_sees),
		CASE(the_same_on_two_hosts_is_one_event),
		CASE(the_same_at_another_time_is_another_one),
		CASE(waits_are_the_hubs_to_judge),
		CASE(what_the_hub_says_too_is_said_once),
		CASE(of_a_kind_that_is_not_known_nothing_is_said),
		CASE(who_does_not_wait_in_nccl_is_named_over_hosts),
		CASE(its_newest_text_is_there),
		CASE(what_is_over_has_its_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
