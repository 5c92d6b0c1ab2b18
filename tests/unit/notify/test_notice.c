/* SPDX-License-Identifier: Apache-2.0
 *
 * test_notice.c - whom `notify` notifies what, when: by a scripted clock. Then the bodies of each service, what counts
 * as taken, and the lines for node-problem-detector, Slurm and NVSentinel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "notify/payload.h"
#include "notify/rules.h"

#define MIN 60000ll
#define AT(ms) ((ms) + 1000000000000ll) /* 0 is no time */

static const struct notice_rules usual = { .again_ms = { 5 * MIN, 10 * MIN, 20 * MIN, 40 * MIN, 80 * MIN },
					   .n_again = 5,
					   .warning_after_ms = 5 * MIN };

static void take(struct notices *s, const char *id, const char *phase, const char *severity, const char *cause,
		 int64_t ms)
{
	char line[1024];

	snprintf(line, sizeof(line),
		 "{\"id\":\"%s\",\"phase\":\"%s\",\"severity\":\"%s\",\"kind\":\"hang\",\"caused_by\":%s%s%s,"
		 "\"job\":"
		 "\"llama\",\"host\":\"node-7\",\"ranks\":[5],\"summary\":\"rank 5 <sleeps> & waits\",\"remedy\":"
		 "\"look\","
		 "\"gpu_uuid\":\"GPU-1\",\"cause\":\"gpu_lost\"}",
		 id, phase, severity, cause ? "\"" : "", cause ? cause : "null", cause ? "\"" : "");
	assert_int_equal(notices_take(s, line, AT(ms)), 0);
}

/* What channel 0 is sent at that time: it is sent. */
static enum notice_event sent(struct notices *s, int c, int64_t ms)
{
	enum notice_event event;
	struct notice *n;

	notices_turn(s, AT(ms));
	n = notices_next(s, c, &event);
	if (n)
		notice_sent(s, n, c, event);
	return event;
}

static void test_schedule(void **state)
{
	struct notices s = { .rules = usual };
	static const int64_t again[] = { 5, 10, 20, 40, 80 };

	(void)state;
	take(&s, "a-1", "open", "critical", NULL, 0);
	assert_int_equal(sent(&s, 0, 0), NOTICE_OPEN);
	assert_int_equal(sent(&s, 0, 0), NOTICE_NONE);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(sent(&s, 0, again[i] * MIN - 1), NOTICE_NONE);
		take(&s, "a-1", "update", "critical", NULL, again[i] * MIN - 1);
		assert_int_equal(sent(&s, 0, again[i] * MIN), NOTICE_AGAIN);
		assert_int_equal(sent(&s, 0, again[i] * MIN), NOTICE_NONE);
	}
	assert_int_equal(sent(&s, 0, 1000 * MIN), NOTICE_NONE);
	take(&s, "a-1", "close", "critical", NULL, 1001 * MIN);
	assert_int_equal(sent(&s, 0, 1001 * MIN), NOTICE_RESOLVED);
	assert_int_equal(sent(&s, 0, 1001 * MIN), NOTICE_NONE);
	notices_free(&s);
}

static void test_acknowledged(void **state)
{
	struct notices s = { .rules = usual };

	(void)state;
	take(&s, "a-1", "open", "critical", NULL, 0);
	assert_int_equal(sent(&s, 0, 0), NOTICE_OPEN);
	assert_false(notices_acknowledge(&s, "a-2"));
	assert_true(notices_acknowledge(&s, "a-1"));
	assert_int_equal(sent(&s, 0, 50 * MIN), NOTICE_NONE);
	take(&s, "a-1", "close", "critical", NULL, 60 * MIN);
	assert_int_equal(sent(&s, 0, 60 * MIN), NOTICE_RESOLVED);
	notices_free(&s);
}

/* Warnings wait; one that ends before is never notified of, nor is what follows from another, nor what only informs. */
static void test_warnings(void **state)
{
	struct notices s = { .rules = usual };

	(void)state;
	take(&s, "w-1", "open", "warning", NULL, 0);
	take(&s, "w-2", "open", "warning", NULL, 0);
	take(&s, "i-1", "open", "info", NULL, 0);
	take(&s, "c-1", "open", "critical", "w-1", 0);
	assert_int_equal(sent(&s, 0, 5 * MIN - 1), NOTICE_NONE);
	take(&s, "w-2", "close", "warning", NULL, 5 * MIN - 1);
	assert_int_equal(sent(&s, 0, 5 * MIN), NOTICE_OPEN);
	assert_int_equal(sent(&s, 0, 6 * MIN), NOTICE_NONE);
	take(&s, "w-1", "update", "critical", NULL, 7 * MIN);
	assert_int_equal(sent(&s, 0, 7 * MIN), NOTICE_WORSE);
	assert_int_equal(sent(&s, 0, 12 * MIN), NOTICE_AGAIN);
	notices_free(&s);
}

/* A channel that was away: the newest state, once; of what is over nothing. */
static void test_away(void **state)
{
	struct notices s = { .rules = usual };

	(void)state;
	take(&s, "a-1", "open", "critical", NULL, 0);
	take(&s, "a-2", "open", "critical", NULL, 0);
	notices_turn(&s, AT(0));
	notices_turn(&s, AT(11 * MIN));
	take(&s, "a-2", "close", "critical", NULL, 12 * MIN);
	assert_int_equal(sent(&s, 1, 12 * MIN), NOTICE_OPEN);
	assert_int_equal(sent(&s, 1, 12 * MIN), NOTICE_NONE);
	assert_int_equal(sent(&s, 1, 20 * MIN), NOTICE_AGAIN);
	notices_free(&s);
}

static void test_restart(void **state)
{
	static const char *const names[] = { "json=/x" }, *const others[] = { NULL, "json=/x" };
	struct notices s = { .rules = usual }, t = { .rules = usual };
	cJSON *saved;

	(void)state;
	take(&s, "a-1", "open", "critical", NULL, 0);
	take(&s, "a-2", "open", "critical", NULL, 0);
	assert_int_equal(sent(&s, 0, 0), NOTICE_OPEN);
	assert_int_equal(sent(&s, 0, 0), NOTICE_OPEN);
	notices_acknowledge(&s, "a-2");
	saved = notices_save(&s, names, 1);
	assert_int_equal(notices_load(&t, saved, others, 2), 0);
	take(&t, "a-1", "open", "critical", NULL, MIN); /* the file is read from its begin */
	assert_int_equal(sent(&t, 1, 4 * MIN), NOTICE_NONE);
	assert_int_equal(sent(&t, 1, 41 * MIN), NOTICE_AGAIN); /* of four that passed, one */
	assert_int_equal(sent(&t, 1, 42 * MIN), NOTICE_NONE);
	cJSON_Delete(saved);
	saved = cJSON_Parse("{\"notices\":3}");
	assert_int_equal(notices_load(&t, saved, others, 2), -22);
	cJSON_Delete(saved);
	notices_free(&s);
	notices_free(&t);
}

static void test_no_finding(void **state)
{
	struct notices s = { .rules = usual };

	(void)state;
	assert_int_equal(notices_take(&s, "not JSON", 0), -22);
	assert_int_equal(notices_take(&s, "{\"id\":3}", 0), -22);
	assert_int_equal(s.n, 0);
	for (int i = 0; i < NOTICES_MAX + 10; i++) {
		char id[32];

		snprintf(id, sizeof(id), "n-%d", i);
		take(&s, id, "open", "info", NULL, 0);
	}
	assert_int_equal(s.n, NOTICES_MAX);
	notices_free(&s);
}

static struct notice *one(struct notices *s)
{
	enum notice_event event;

	take(s, "node-7-1", "open", "critical", NULL, 0);
	notices_turn(s, AT(0));
	return notices_next(s, 0, &event);
}

static void assert_body(struct notices *s, enum payload_format f, enum notice_event event, const char *words)
{
	struct payload_extra extra = { .timestamp = "17", .sign = "abc=" };
	char *body = payload_make(f, one(s), event, &extra);
	cJSON *o = cJSON_Parse(body);

	assert_non_null(o);
	if (!strstr(body, words))
		fail_msg("'%s' is not in %s", words, body);
	cJSON_Delete(o);
	free(body);
}

static void test_payloads(void **state)
{
	struct notices s = { .rules = usual };

	(void)state;
	assert_body(&s, PAYLOAD_WECOM, NOTICE_OPEN,
		    "{\"msgtype\":\"markdown\",\"markdown\":{\"content\":\"**critical hang, job "
		    "llama, host node-7**\\n\\nrank 5 <sleeps> & waits\\n\\n");
	assert_body(&s, PAYLOAD_DINGTALK, NOTICE_AGAIN, "\"title\":\"STILL OPEN: critical hang, job llama");
	assert_body(&s, PAYLOAD_FEISHU, NOTICE_OPEN,
		    "{\"timestamp\":\"17\",\"sign\":\"abc=\",\"msg_type\":\"interactive\"");
	assert_body(&s, PAYLOAD_FEISHU, NOTICE_RESOLVED, "\"template\":\"green\"");
	assert_body(&s, PAYLOAD_SLACK, NOTICE_OPEN, "rank 5 &lt;sleeps&gt; &amp; waits\\n");
	assert_body(&s, PAYLOAD_SLACK, NOTICE_OPEN, "acknowledge: ranktrace notify --acknowledge node-7-1");
	assert_body(&s, PAYLOAD_JSON, NOTICE_WORSE, "\"event\":\"worse\",\"id\":\"node-7-1\"");
	notices_free(&s);
}

static void test_taken(void **state)
{
	char why[256];

	(void)state;
	assert_true(payload_taken(PAYLOAD_WECOM, 200, "{\"errcode\":0}", why, sizeof(why)));
	assert_false(
		payload_taken(PAYLOAD_WECOM, 200, "{\"errcode\":93000,\"errmsg\":\"invalid key\"}", why, sizeof(why)));
	assert_string_equal(why, "errcode 93000: invalid key");
	assert_false(
		payload_taken(PAYLOAD_FEISHU, 200, "{\"code\":19021,\"msg\":\"sign match fail\"}", why, sizeof(why)));
	assert_false(payload_taken(PAYLOAD_FEISHU, 200, "<html>", why, sizeof(why)));
	assert_true(payload_taken(PAYLOAD_SLACK, 200, "ok", why, sizeof(why)));
	assert_false(payload_taken(PAYLOAD_JSON, 503, "", why, sizeof(why)));
}

static void test_emitters(void **state)
{
	struct notices s = { .rules = usual };
	struct notice *n = one(&s);
	char line[81], reason[256], *event = emit_health_event(n, false);

	(void)state;
	emit_npd(line, NULL);
	assert_string_equal(line, "ranktrace: no critical finding is open");
	emit_npd(line, n);
	assert_string_equal(line, "hang rank 5: rank 5 <sleeps> & waits");
	emit_slurm_reason(reason, sizeof(reason), n);
	assert_string_equal(reason, "ranktrace: hang gpu=GPU-1 rank=5 inc=node-7-1: rank 5 <sleeps> & waits");
	assert_non_null(strstr(event, "\"recommendedAction\":24"));
	assert_non_null(strstr(event, "\"isFatal\":true,\"isHealthy\":false"));
	free(event);
	event = emit_health_event(n, true);
	assert_non_null(strstr(event, "\"isHealthy\":true"));
	assert_non_null(strstr(event, "\"recommendedAction\":0"));
	free(event);
	notices_free(&s);
}

static int rules_of(struct rules *r, const char *text, char *error)
{
	char path[] = "/tmp/test_notice.XXXXXX";
	int fd = mkstemp(path), err;
	FILE *f = fdopen(fd, "w");

	fputs(text, f);
	fclose(f);
	err = rules_read(r, path, error, 512);
	remove(path);
	return err;
}

static void test_rules(void **state)
{
	static struct rules r;
	struct notices s = { .rules = usual };
	struct notice *n = one(&s);
	char error[512];

	(void)state;
	assert_int_equal(rules_of(&r,
				  "# mine\n\njob=other action=drain owner=a timeout=0s\n"
				  "job=lla* kind=hang action=drain owner=ops timeout=10min # late\n",
				  error),
			 0);
	assert_int_equal(r.n, 2);
	n->begun_ms = 1;
	assert_ptr_equal(rules_find(&r, n), &r.all[1]);
	assert_false(rule_is_due(&r.all[1], n, 10 * MIN));
	assert_true(rule_is_due(&r.all[1], n, 10 * MIN + 1));
	n->acknowledged = true;
	assert_false(rule_is_due(&r.all[1], n, 20 * MIN));
	assert_int_equal(rules_of(&r, "\njob=x owner=y action=reboot\n", error), -22);
	assert_non_null(strstr(error, ":2: 'action=reboot': expected notify or drain"));
	assert_int_equal(rules_of(&r, "job=x action=drain owner=y\n", error), -22);
	assert_non_null(strstr(error, ":1: a rule needs timeout="));
	assert_int_equal(rules_of(&r, "job=x owner=y kind=nothing\n", error), -22);
	notices_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedule), cmocka_unit_test(test_acknowledged), cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_away),     cmocka_unit_test(test_restart),      cmocka_unit_test(test_no_finding),
		cmocka_unit_test(test_payloads), cmocka_unit_test(test_taken),        cmocka_unit_test(test_emitters),
		cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
