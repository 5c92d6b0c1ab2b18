/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hub_burst.c - a hub whose server has many more reports than it has read: it judges few of them, names who does
 * not come, and loses nothing that only one of them said.
 */
#include "tests/unit/cluster/two_hosts.h"

#include <unistd.h>

#include "hub/hub.h"

enum { MESSAGES = 512, BURST_S = 4, TIMES = 10 };

static struct stored { /* in the stream */
	char *bytes;
	size_t len;
	int host;
	int64_t ns;
	bool in_hand; /* others are behind it as it is read */
} stream[MESSAGES];
static int n_stream, n_read;
static volatile sig_atomic_t stop;
static const struct bus_class *incidents; /* the memory bus, */
static struct bus_class class;            /* and reports of this stream */

static int reports_follow(struct bus *b, enum bus_stream which, const char *token, uint64_t from, int past_s,
			  struct bus_cursor **ret)
{
	if (which != BUS_REPORTS)
		return incidents->follow(b, which, token, from, past_s, ret);
	*ret = (struct bus_cursor *)&n_read;
	return 0;
}

static int reports_fetch(struct bus_cursor *c, int wait_ms, struct bus_message *ret)
{
	struct stored *s = &stream[n_read];

	if (c != (struct bus_cursor *)&n_read)
		return incidents->fetch(c, wait_ms, ret);
	if (n_read == n_stream) {
		stop = 1;
		return 0;
	}
	*ret = (struct bus_message){ .token = s->host ? "node-b" : "node-a",
				     .data = s->bytes,
				     .len = s->len,
				     .seq = ++n_read,
				     .n_behind = s->in_hand,
				     .stored_ns = s->ns };
	return 1;
}

static void reports_end(struct bus_cursor *c)
{
	if (c != (struct bus_cursor *)&n_read)
		incidents->cursor_free(c);
}

/* --- what is in the stream --- */

static void report_store(int host, bool in_hand)
{
	static char bytes[REPORT_BYTES_MAX];
	struct stored *s = &stream[n_stream++];

	assert_true(n_stream <= MESSAGES);
	s->len = report_write(host, bytes);
	s->bytes = malloc(s->len);
	assert_non_null(s->bytes);
	memcpy(s->bytes, bytes, s->len);
	s->host = host;
	s->ns = (int64_t)(WALL + now);
	s->in_hand = in_hand;
}

static void ranks_move(int moving, uint64_t step_ns)
{
	now += step_ns;
	for (int r = 0; r < moving; r++) {
		entered[r]++;
		since[r] = now - step_ns / 2;
	}
}

static void ordinary(int n, int moving)
{
	while (n--) {
		ranks_move(moving, SEC);
		for (int host = 0; host < HOSTS; host++)
			report_store(host, false);
	}
}

/* Ten times as many; `odd`: of node-b, that one has a finding, the only one. -1: none has. */
static void burst(int moving, int odd)
{
	for (int i = 0; i < BURST_S * TIMES; i++) {
		ranks_move(moving, SEC / TIMES);
		for (int host = 0; host < HOSTS; host++) {
			n_findings[host] = host && i == odd;
			report_store(host, i < BURST_S * TIMES - 1);
		}
	}
}

/* What the hub says of it at its end: so many reports a newer one took the place of. */
static int run(void)
{
	static const char says[] = "in place of ";
	int carried = -1, err = dup(2);
	FILE *f = tmpfile();
	char line[512];

	assert_true(f && err >= 0);
	fflush(stderr);
	dup2(fileno(f), 2);
	incidents = memory_bus.base.class;
	class = *incidents;
	class.follow = reports_follow;
	class.fetch = reports_fetch;
	class.cursor_free = reports_end;
	memory_bus.base.class = &class;
	assert_int_equal(hub_run(&memory_bus.base, "hub", NULL, &stop), 0);
	fflush(stderr);
	dup2(err, 2);
	close(err);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, says))
			carried = atoi(strstr(line, says) + strlen(says));
	fclose(f);
	return carried;
}

static int stream_begin(void **state)
{
	n_stream = n_read = 0;
	stop = 0;
	return begin(state);
}

static int stream_end(void **state)
{
	for (int i = 0; i < n_stream; i++)
		free(stream[i].bytes);
	return end(state);
}

static void the_finding(void)
{
	static Cluster__Finding f;
	static Cluster__Subject s;
	static uint32_t pids[] = { 102 };
	static int32_t ranks[] = { 2 };

	f = (Cluster__Finding)CLUSTER__FINDING__INIT;
	s = (Cluster__Subject)CLUSTER__SUBJECT__INIT;
	f.id = (char *)"node-b-1";
	f.kind = (char *)"gpu_health";
	f.cause = (char *)"gpu_throttled";
	f.pids = pids;
	f.ranks = ranks;
	f.n_pids = f.n_ranks = 1;
	f.has_since_age_ns = f.has_confidence_percent = 1;
	f.since_age_ns = SEC;
	f.confidence_percent = 90;
	s.type = (char *)"rank";
	s.has_rank = s.has_pid = 1;
	s.rank = 2;
	s.pid = 102;
	f.subject = &s;
	findings[1][0] = &f;
}

/* --- cases --- */

static void of_an_ordinary_second_each_report_is_judged(void **state)
{
	(void)state;
	ordinary(30, RANKS);
	assert_int_equal(run(), 0);
	assert_no_more(0);
}

static void of_a_burst_few_are(void **state)
{
	int carried;

	(void)state;
	ordinary(20, RANKS);
	burst(RANKS, -1);
	ordinary(10, RANKS);
	carried = run();
	assert_in_range(carried, HOSTS * BURST_S * (TIMES - 3), HOSTS * BURST_S * (TIMES - 1));
	assert_no_more(0);
}

static void what_one_report_of_it_says_is_an_incident(void **state)
{
	cJSON *o;

	(void)state;
	the_finding();
	ordinary(20, RANKS);
	burst(RANKS, 13);
	ordinary(3, RANKS);
	assert_true(run() > 0);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "gpu_health");
	assert_string_equal(text_of(o, "host"), "node-b");
	assert_string_equal(text_of(o, "phase"), "close");
	cJSON_Delete(o);
	assert_no_more(1);
}

static void who_does_not_come_in_it_is_named(void **state)
{
	cJSON *o;

	(void)state;
	ordinary(20, RANKS);
	rank_3_sleeps();
	burst(0, -1);
	assert_true(run() > 0);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "hang");
	assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint, 3);
	cJSON_Delete(o);
	assert_no_more(1);
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, stream_begin, stream_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(of_an_ordinary_second_each_report_is_judged),
		CASE(of_a_burst_few_are),
		CASE(what_one_report_of_it_says_is_an_incident),
		CASE(who_does_not_come_in_it_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
