/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hub_metrics.c - what two hubs of one job serve: the one that has it its ranks, lag and findings; the other one
 * that it stands by. A page has a size that does not grow with ranks or jobs.
 */
#include "tests/unit/cluster/two_hosts.h"

#include "hub/hub_metrics.h"

static struct page page;
static struct hub_health health;

static void page_make(int which)
{
	page_clear(&page);
	hub_metrics_write(&page, &health, &hubs[which].hosts, hubs[which].job, WALL + now);
}

static void assert_has(enum metric_id id, const char *sample)
{
	char text[4096] = "";

	assert_true(page.of[id].len < sizeof(text));
	memcpy(text, page.of[id].text, page.of[id].len);
	text[page.of[id].len] = 0;
	if (!strstr(text, sample))
		fail_msg("no '%s' in:\n%s", sample, text);
}

static void who_has_the_job_serves_it(void **state)
{
	(void)state;
	seconds(30, RANKS);
	page_make(0);
	assert_has(METRIC_HUB_JOBS, "ranktrace_hub_jobs{state=\"owned\"} 1\n");
	assert_has(METRIC_HUB_HOSTS, "{state=\"reporting\"} 2\n");
	assert_has(METRIC_HUB_JOB_HOSTS, "ranktrace_hub_job_hosts{train_job=\"train\"} 2\n");
	assert_has(METRIC_HUB_JOB_RANKS, "{train_job=\"train\"} 4\n");
	assert_has(METRIC_HUB_JOB_UNOBSERVED, "{train_job=\"train\"} 0\n");
	assert_has(METRIC_HUB_JOB_LAG, "{train_job=\"train\",parallelism=\"other\"} 0\n");
	assert_int_equal(page.of[METRIC_HUB_JOB_LAST_COLLECTIVE].n, 1);
	assert_int_equal(page.of[METRIC_HUB_FINDING_AGE].n, 0);
	page_make(1);
	assert_has(METRIC_HUB_JOBS, "ranktrace_hub_jobs{state=\"standby\"} 1\n");
	assert_int_equal(page.of[METRIC_HUB_JOB_RANKS].n, 0);
	assert_int_equal(page.of[METRIC_JOB_RANKS].n, 0);
	assert_no_more(0);
}

static void a_finding_has_its_rank_and_host(void **state)
{
	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(60, 0);
	page_make(0);
	assert_has(METRIC_HUB_JOB_LAG, "} 1\n");
	assert_has(METRIC_HUB_FINDING_AGE, "{train_job=\"train\",kind=\"hang\",class=\"missing_enter\"");
	assert_has(METRIC_HUB_FINDING_AGE, "severity=\"critical\",rank=\"3\",gpu=\"\",root=\"yes\",host=\"node-b\"} ");
	assert_has(METRIC_HUB_FINDINGS_OPEN, "{kind=\"hang\",severity=\"critical\"} 1\n");
	assert_has(METRIC_HUB_FINDINGS, "{kind=\"hang\",severity=\"warning\"} 1\n");
	page_make(1);
	assert_int_equal(page.of[METRIC_HUB_FINDING_AGE].n, 0);
	assert_int_equal(page.of[METRIC_HUB_FINDINGS].n, 0);
	seconds(5, RANKS);
	page_make(0);
	assert_int_equal(page.of[METRIC_HUB_FINDING_AGE].n, 0);
	assert_has(METRIC_HUB_FINDINGS_OPEN, "{kind=\"hang\",severity=\"critical\"} 0\n");
	assert_has(METRIC_HUB_FINDINGS, "{kind=\"hang\",severity=\"critical\"} 1\n");
}

static void a_silent_host_shows(void **state)
{
	(void)state;
	seconds(30, RANKS);
	reports[1] = false;
	seconds(10, PER_HOST);
	page_make(0);
	assert_has(METRIC_HUB_HOSTS, "{state=\"silent\"} 1\n");
	assert_has(METRIC_HUB_JOB_UNOBSERVED, "{train_job=\"train\"} 2\n");
}

static void what_it_heard_is_counted(void **state)
{
	(void)state;
	seconds(2, RANKS);
	health = (struct hub_health){ .n_reports = 9, .n_repeated = 2, .n_unread = 5, .last_report_ns = 17 * SEC / 10 };
	health.n_carried = 4;
	health.refused[REPORT_MALFORMED] = 3;
	health.refused[HUB_REFUSED_FORGED] = 1;
	health.forgotten.n[FINDING_HANG][SEVERITY_WARNING] = 7;
	page_make(0);
	assert_has(METRIC_HUB_REPORTS, " 9\n");
	assert_has(METRIC_HUB_REPEATED, " 2\n");
	assert_has(METRIC_HUB_UNREAD, " 5\n");
	assert_has(METRIC_HUB_CARRIED, " 4\n");
	assert_has(METRIC_HUB_LAST_REPORT, " 1.7\n");
	assert_has(METRIC_HUB_REFUSED, "{reason=\"malformed\"} 3\n");
	assert_has(METRIC_HUB_REFUSED, "{reason=\"published for a host by another name\"} 1\n");
	assert_has(METRIC_HUB_FINDINGS, "{kind=\"hang\",severity=\"warning\"} 7\n");
	health = (struct hub_health){ 0 };
}

/* Of more jobs than the table has room for, the first: 300 KB at most. */
static void many_jobs_make_no_large_page(void **state)
{
	static struct hub_job jobs[1000];
	size_t bytes = 0;

	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(60, 0);
	for (int i = 0; i < 1000; i++) {
		jobs[i] = *hubs[0].job;
		jobs[i].next = i ? &jobs[i - 1] : NULL;
	}
	page_clear(&page);
	hub_metrics_write(&page, &health, &hubs[0].hosts, &jobs[999], WALL + now);
	for (int i = 0; i < METRICS; i++)
		bytes += page.of[i].len;
	assert_true(bytes < 300000);
	assert_int_equal(page.of[METRIC_HUB_JOB_RANKS].n, 256);
	assert_true(page.left_out > 700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(who_has_the_job_serves_it), CASE(a_finding_has_its_rank_and_host), CASE(a_silent_host_shows),
		CASE(what_it_heard_is_counted),  CASE(many_jobs_make_no_large_page),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	page_free(&page);
	return failed;
}
