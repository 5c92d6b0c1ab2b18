/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hub_job.c - a job on two hosts as its hubs see it, by the reports of the agents: who does not come is named over
 * hosts, a host that is silent is unobserved and no root, and a hub that takes over goes on with the incident.
 */
#include "tests/unit/cluster/two_hosts.h"

static void assert_hang_of_3(int nth, const char *phase)
{
	cJSON *o = incident_nth(nth);

	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "hang");
	assert_string_equal(text_of(o, "class"), "missing_enter");
	assert_string_equal(text_of(o, "host"), "node-b");
	assert_string_equal(text_of(o, "phase"), phase);
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint, 3);
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "pids"), 0)->valueint, 103);
	cJSON_Delete(o);
}

/* --- cases --- */

static void a_job_that_goes_on_has_none(void **state)
{
	(void)state;
	seconds(60, RANKS);
	assert_true(hubs[0].job->taken && !hubs[1].job->taken);
	assert_no_more(0);
}

static void who_does_not_come_is_named_over_hosts(void **state)
{
	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(5, 0);
	assert_hang_of_3(0, "open");
	seconds(60, 0);
	assert_hang_of_3(0, "update");
	seconds(5, RANKS);
	assert_hang_of_3(0, "close");
	assert_no_more(1);
	assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
}

/* The hang's host, and one healthy peer of its communicator: that is both. Asked anew for a minute, stored once. */
static void recorders_of_its_hosts_are_asked_for(void **state)
{
	struct ask a;

	(void)state;
	seconds(30, RANKS);
	assert_int_equal(memory_bus.n_asked, 0);
	rank_3_sleeps();
	seconds(30, 0);
	assert_in_range(memory_bus.n_asked, 2, 4);
	assert_true(ask_unpack(ASK_ALL, memory_bus.asked[0], memory_bus.asked_len[0], &a));
	assert_true(a.kind == ASK_WINDOW && a.n_hosts == 2);
	assert_string_equal(a.hosts[0], "node-b");
	assert_string_equal(a.hosts[1], "node-a");
	assert_int_equal(memory_bus.n_pieces, 1);
	assert_non_null(strstr(memory_bus.piece_keys[0], ASK_ASKED));
	seconds(120, 0);
	assert_int_equal(memory_bus.n_asked, 6);
}

/* The agent alone is gone: the job goes on, as the other host shows. */
static void a_silent_host_is_unobserved(void **state)
{
	cJSON *o;

	(void)state;
	seconds(30, RANKS);
	reports[1] = false;
	seconds(30, RANKS);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "unobserved");
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "ranks")), PER_HOST);
	cJSON_Delete(o);
	assert_no_more(1);
	reports[1] = true;
	seconds(5, RANKS);
	o = incident_nth(0);
	assert_string_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	assert_no_more(1);
}

/* The host is gone, and so its ranks' peers wait. Who of them it is for is not known: no root. */
static void ranks_that_wait_for_a_silent_host_name_no_root(void **state)
{
	(void)state;
	seconds(30, RANKS);
	reports[1] = false;
	for (int r = 0; r < PER_HOST; r++) {
		entered[r]++;
		since[r] = now;
	}
	seconds(60, 0);
	assert_int_equal(memory_bus_count("missing_enter"), 0);
	assert_int_equal(memory_bus_count("process_dead"), 0);
	assert_true(memory_bus_count("\"cause\":\"no_host_told\"") > 0);
}

/* It was late by less than a second when its host was last heard: for longer, as far as is known, it never was. */
static void who_was_last_heard_a_little_late_is_no_root(void **state)
{
	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	second(0);
	reports[1] = false;
	seconds(20, 0);
	assert_int_equal(memory_bus_count("missing_enter"), 0);
}

/* One on the host that is seen does not come: it is named, and the silent ones are not. */
static void a_root_beside_a_silent_host(void **state)
{
	cJSON *o;

	(void)state;
	seconds(30, RANKS);
	reports[1] = false;
	seconds(10, RANKS);
	entered[0]++;
	since[0] = now;
	seconds(10, 0);
	o = incident_nth(1);
	assert_non_null(o);
	assert_string_equal(text_of(o, "class"), "missing_enter");
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint, 1);
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "ranks")), 1);
	cJSON_Delete(o);
}

/* All are in it, so none waits for it alone. How long reports take changes, and with that where the hub puts the
 * host's times on its own axis: it stopped once all the same. */
static void one_that_is_stopped_is_one_incident(void **state)
{
	cJSON *o;

	(void)state;
	delay[1] = 200 * MSEC;
	seconds(30, RANKS);
	thread_state[3] = 5;
	for (int i = 0; i < 200; i++) {
		delay[1] = i < 20 || i > 120 ? 200 * MSEC : 5 * MSEC;
		second(0);
	}
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "stopped");
	cJSON_Delete(o);
	assert_int_equal(memory_bus_count("\"phase\":\"close\""), 0);
}

static void rank_3_is_stopped(void)
{
	seconds(30, RANKS);
	rank_3_sleeps();
	thread_state[3] = 5;
	since[3] = now;
	seconds(10, 0);
	assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
}

static int n_stops(void)
{
	cJSON *o;
	int n = 0;

	for (int i = 0; (o = incident_nth(i)); i++) {
		n += !strcmp(text_of(o, "class"), "stopped") || !strcmp(text_of(o, "kind"), "stopped");
		cJSON_Delete(o);
	}
	return n;
}

/* Its host, or every one where the bus is away, is not heard for a while: that is no end of what was seen before. */
static void what_is_not_seen_for_a_while_is_one_incident(void **state)
{
	cJSON *o;

	(void)state;
	rank_3_is_stopped();
	for (int i = 0; i < 3; i++) {
		reports[1] = false;
		reports[0] = i == 2;
		seconds(12 + i, 0);
		reports[0] = reports[1] = true;
		seconds(3 + 5 * i, 0);
	}
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "class"), "stopped");
	assert_string_not_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	thread_state[3] = 3;
	seconds(5, RANKS);
	o = incident_nth(0);
	assert_string_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	assert_int_equal(n_stops(), 1);
}

static void what_ended_unseen_is_closed(void **state)
{
	cJSON *o;

	(void)state;
	rank_3_is_stopped();
	reports[0] = reports[1] = false;
	seconds(20, 0);
	thread_state[3] = 3;
	reports[0] = reports[1] = true;
	seconds(12, RANKS);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
}

/* Its host never comes back. */
static void what_is_not_seen_any_more_is_closed(void **state)
{
	cJSON *o;

	(void)state;
	rank_3_is_stopped();
	reports[1] = false;
	seconds(590, 0);
	o = incident_nth(0);
	assert_string_not_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	seconds(30, 0);
	o = incident_nth(0);
	assert_string_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
}

/* Its agent lists the others: it has ended, and how is not known. */
static void a_process_that_is_listed_no_more_is_dead(void **state)
{
	(void)state;
	seconds(30, RANKS);
	is_there[3] = false;
	rank_3_sleeps();
	seconds(40, 0);
	assert_true(memory_bus_count("process_dead") > 0);
	assert_int_equal(memory_bus_count("missing_enter"), 0);
}

/* The one that lives, if one does. */
static const struct proc *proc_of(int rank)
{
	const struct proc *found = NULL;

	for (const struct proc *p = pipeline_model(hubs[0].job->pipeline)->procs; p; p = p->next)
		if (p->tgid == 100 + (uint32_t)rank && (!found || found->dead))
			found = p;
	assert_non_null(found);
	return found;
}

/* On a busy host an agent that was started anew takes a while to find who lives. */
static void what_is_not_listed_for_a_while_is_not_dead(void **state)
{
	(void)state;
	seconds(30, RANKS);
	is_there[3] = false;
	seconds(20, RANKS);
	is_there[3] = true;
	seconds(20, RANKS);
	assert_false(proc_of(3)->dead);
	is_there[3] = false;
	seconds(20, RANKS);
	assert_false(proc_of(3)->dead);
	seconds(13, RANKS);
	assert_true(proc_of(3)->dead);
	is_there[3] = true;
	seconds(10, RANKS);
	assert_false(proc_of(3)->dead);
	assert_non_null(proc_of(3)->members);
}

/* What an agent says of its own job is no more than that. */
static void a_host_seen_in_part_is_known(void **state)
{
	(void)state;
	seconds(3, RANKS);
	assert_false(proc_of(0)->node->partial);
	partial[0] = true;
	seconds(3, RANKS);
	partial[0] = false;
	assert_true(proc_of(0)->node->partial);
	assert_false(proc_of(3)->node->partial);
	assert_no_more(0);
}

static void a_hub_that_takes_over_goes_on_with_it(void **state)
{
	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(5, 0);
	hubs[0].stopped = true;
	seconds(15, 0);
	assert_true(hubs[1].job->taken);
	assert_hang_of_3(0, "update");
	seconds(5, RANKS);
	assert_hang_of_3(0, "close");
	assert_no_more(1);
	assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
	assert_int_equal(memory_bus_count("\"phase\":\"close\""), 1);
}

/* It opened while no hub had the job, and nothing is lost. */
static void what_opens_between_two_hubs_is_written(void **state)
{
	(void)state;
	seconds(30, RANKS);
	hubs[0].stopped = true;
	rank_3_sleeps();
	seconds(12, 0);
	assert_hang_of_3(0, "update");
	assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
	assert_no_more(1);
}

/* Stopped past its lease, another one took over, the fault ended: what it still believes it cannot write. */
static void a_hub_that_was_stopped_writes_no_more(void **state)
{
	uint64_t n;

	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(5, 0);
	hubs[0].stopped = true;
	seconds(15, 0);
	seconds(10, RANKS);
	n = memory_bus.n_log;
	hubs[1].stopped = true;
	hubs[0].stopped = false;
	second(RANKS); /* it sees the end of the fault now, and writes that */
	second(RANKS);
	assert_false(hubs[0].job->taken);
	assert_int_equal(memory_bus.n_log, n);
	hubs[1].stopped = false;
	seconds(5, RANKS);
	assert_hang_of_3(0, "close");
	assert_no_more(1);
}

/* It ended while no hub had the job: the one that takes over knows of no such finding, and closes it. */
static void what_ended_between_two_hubs_is_closed(void **state)
{
	(void)state;
	seconds(30, RANKS);
	rank_3_sleeps();
	seconds(5, 0);
	hubs[0].stopped = true;
	seconds(4, RANKS);
	seconds(30, RANKS);
	assert_true(hubs[1].job->taken);
	assert_hang_of_3(0, "close");
	assert_no_more(1);
}

/* The bus is away while it opens and closes: both are written later, in order. */
static void a_bus_that_is_away_loses_nothing(void **state)
{
	(void)state;
	hubs[1].stopped = true;
	seconds(30, RANKS);
	memory_bus.away = true;
	rank_3_sleeps();
	seconds(5, 0);
	memory_bus.away = false;
	seconds(3, 0);
	assert_hang_of_3(0, "open");
	memory_bus.appends_lost = 3;
	seconds(8, RANKS);
	assert_hang_of_3(0, "close");
	assert_no_more(1);
}

/* Rank 1 is stopped, and rank 3, which waits for it elsewhere, is late with it. Rank 1 goes on, as its host reports
 * before the other does: what is known of rank 3 is from before that. */
static void who_was_seen_before_others_went_on_is_no_root(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		rank_calls[r].other = 10;
	seconds(30, RANKS);
	for (int r = 0; r < RANKS; r++) {
		entered[r] += r % 2 == 0;
		rank_calls[r].other += r != 1;
		since[r] = now;
	}
	thread_state[1] = 5;
	seconds(10, 0);
	assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
	thread_state[1] = 3;
	reports[1] = false;
	rank_calls[0].other = rank_calls[1].other = 12;
	seconds(2, 2);
	assert_int_equal(memory_bus_count("missing_enter"), 0);
	reports[1] = true;
	for (int r = 0; r < RANKS; r++) {
		entered[r] = entered[0];
		rank_calls[r].other = 12;
	}
	seconds(10, RANKS);
	assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
	assert_int_equal(memory_bus_count("\"phase\":\"close\""), 1);
}

static uint8_t state_of(int rank)
{
	assert_non_null(proc_of(rank)->tasks);
	return proc_of(rank)->tasks->state;
}

/* A report has helper threads while they are stopped, and no longer. */
static void a_thread_that_goes_on_is_not_stopped_for_ever(void **state)
{
	(void)state;
	seconds(30, RANKS);
	thread_state[0] = 5;
	seconds(2, RANKS);
	assert_int_equal(state_of(0), TASK_STOPPED);
	no_thread[0] = true;
	seconds(2, RANKS);
	assert_int_equal(state_of(0), TASK_UNKNOWN);
}

/* A scheduler stops it, a host two seconds after the other: a finding of the job alone, which says what holds it. */
static void a_job_that_is_suspended_is_one_incident(void **state)
{
	for (int frozen = 0; frozen < 2; frozen++) {
		if (frozen) {
			end(state);
			begin(state);
		}
		seconds(30, RANKS);
		for (int host = 0; host < RANKS / PER_HOST; host++) {
			for (int r = host * PER_HOST; r < (host + 1) * PER_HOST; r++) {
				thread_state[r] = 5;
				thread_frozen[r] = frozen;
				since[r] = now;
			}
			seconds(2, 0);
		}
		seconds(20, 0);
		assert_int_equal(proc_of(0)->tasks->frozen, frozen);
		assert_int_equal(memory_bus_count("\"phase\":\"open\""), 1);
		assert_true(memory_bus_count("\"severity\":\"warning\"") >= 1);
		assert_int_equal(memory_bus_count("\"severity\":\"critical\""), 0);
		assert_int_equal(!!memory_bus_count("\"cause\":\"frozen\""), frozen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_job_that_goes_on_has_none),
		CASE(a_job_that_is_suspended_is_one_incident),
		CASE(who_does_not_come_is_named_over_hosts),
		CASE(recorders_of_its_hosts_are_asked_for),
		CASE(a_silent_host_is_unobserved),
		CASE(ranks_that_wait_for_a_silent_host_name_no_root),
		CASE(a_root_beside_a_silent_host),
		CASE(who_was_last_heard_a_little_late_is_no_root),
		CASE(one_that_is_stopped_is_one_incident),
		CASE(what_is_not_seen_for_a_while_is_one_incident),
		CASE(what_ended_unseen_is_closed),
		CASE(what_is_not_seen_any_more_is_closed),
		CASE(a_process_that_is_listed_no_more_is_dead),
		CASE(what_is_not_listed_for_a_while_is_not_dead),
		CASE(a_host_seen_in_part_is_known),
		CASE(a_hub_that_takes_over_goes_on_with_it),
		CASE(what_opens_between_two_hubs_is_written),
		CASE(a_hub_that_was_stopped_writes_no_more),
		CASE(what_ended_between_two_hubs_is_closed),
		CASE(a_bus_that_is_away_loses_nothing),
		CASE(a_thread_that_goes_on_is_not_stopped_for_ever),
		CASE(who_was_seen_before_others_went_on_is_no_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
